"""What must hold for every call and every turn, one family of checks per file."""

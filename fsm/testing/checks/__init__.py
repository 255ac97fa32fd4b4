"""What must be true of every call that was played, a family of checks to a file."""

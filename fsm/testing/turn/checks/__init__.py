"""What must be true of every turn that was played, a family of checks to a file."""

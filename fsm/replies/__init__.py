"""What came back: its parts, its text, what went wrong, and whether it fits a schema."""

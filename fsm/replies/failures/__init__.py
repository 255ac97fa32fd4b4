"""What went wrong, and how long the service asked us to wait."""

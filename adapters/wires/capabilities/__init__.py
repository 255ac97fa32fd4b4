"""What models and servers can do."""

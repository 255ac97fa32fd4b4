"""The commands of durable calls."""

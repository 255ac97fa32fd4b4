"""The commands that read journals."""

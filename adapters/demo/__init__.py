"""What `rungwise demo` shows."""

"""Small values that everything else is made of: labels, secrets, frozen maps, TOML."""

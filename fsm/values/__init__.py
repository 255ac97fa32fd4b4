"""Small values that everything else uses: labels, secrets, frozen maps, TOML."""

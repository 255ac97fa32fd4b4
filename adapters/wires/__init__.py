"""The protocols of providers, a folder for each."""

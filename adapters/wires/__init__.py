"""The languages of providers, a folder for each."""

"""The protocols that the embedded provider speaks, a file for each."""

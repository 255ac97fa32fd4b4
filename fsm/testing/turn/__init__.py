"""The fuzz kit for turns: scripts of replies and tools, a player without HTTP, and what must hold of every turn."""

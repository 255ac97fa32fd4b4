"""A journal, run again."""

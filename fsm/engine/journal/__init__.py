"""The append-only record of a call: its forms, and the path that it took through its table."""

"""A policy against its table: what is proved, what it costs at worst, and how two policies differ."""

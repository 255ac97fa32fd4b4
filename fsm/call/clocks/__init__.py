"""How long a call waits: between attempts, and during one."""

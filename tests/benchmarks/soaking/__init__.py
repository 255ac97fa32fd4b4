"""What `soak.py` is made of: the server, the calls, the counts, and what is made of them."""

"""The drivers, and the HTTP beneath them: deadlines, sockets, pools, cancellation."""

"""Drivers and HTTP: clocks, sockets, pools, cancellation; see `README.md` beside this file."""

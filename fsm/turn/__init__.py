"""An agent's turn: calls, the tools between them, and when to stop, as a second machine of the same
library.
"""

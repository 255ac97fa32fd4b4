"""Run the caller's tools, in threads and in event loops.

`scheduling` decides which tool runs when, and waits for nothing. `threads` and `tasks` wait, each for its driver.
"""

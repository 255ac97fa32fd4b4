"""Running tools: what the caller's functions need around them, in threads and in event loops.

`scheduling` says which tool runs when and what became of it, and waits for nothing; `threads` and `tasks` do the
waiting, each for its own kind of driver.
"""

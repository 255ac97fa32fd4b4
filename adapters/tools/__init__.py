"""Run the caller's tools, in threads and in event loops.

`scheduling` decides which tool runs when, and waits for nothing. `running` waits, in a thread or in
a task.
"""

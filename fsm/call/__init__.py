"""The model call: its table, policy, request and reply, and the loop that runs it."""

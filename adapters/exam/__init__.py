"""The exam: what anybody's program does when its provider misbehaves, judged from outside."""

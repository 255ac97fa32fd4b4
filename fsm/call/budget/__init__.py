"""What a call may spend, what it has spent, and what it shares with others."""

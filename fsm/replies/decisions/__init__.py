"""Decisions: questions with a fixed set of answers, and what came of each."""

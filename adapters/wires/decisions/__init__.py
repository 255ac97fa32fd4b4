"""Decisions: endpoints that answer typed questions with probabilities, in four shapes."""

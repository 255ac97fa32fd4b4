"""Texts of models: inline reasoning, repetition, blanks, and the seams between parts."""

"""What is measured, a file each: `measure(bench)` returns its sections, and the goals stand beside
the figures.
"""

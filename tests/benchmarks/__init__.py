"""The benchmarks; `run.py` is the command."""

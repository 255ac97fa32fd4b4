"""Measure what Rungwise costs, side by side with its peers: `python tests/benchmarks/run.py`,
set-up included.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.command import main  # noqa: E402  (the folder must be found first)

if __name__ == "__main__":
    sys.exit(main())

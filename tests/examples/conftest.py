"""What stands here is word for word what the README shows, and proves policies as soon as it is read.

So the workers of xdist pass over it, and `tests/rungwise/test_examples.py` reads it once.
"""

from __future__ import annotations

import os

collect_ignore_glob = ["test_*.py"] if "PYTEST_XDIST_WORKER" in os.environ else []

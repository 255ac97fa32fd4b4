"""Make the scorecard: `python tests/scorecard`. It examines what is installed here, and writes the
table into docs/pages/exam.md; it takes minutes.
"""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

raise SystemExit(import_module("scorecard.making").main(sys.argv[1:]))

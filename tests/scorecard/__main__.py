"""Make the scorecard: `python tests/scorecard`. It makes the environments that it needs, examines
what is there, and writes the table into docs/pages/exam.md; names of systems renew their rows
alone.
"""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

raise SystemExit(import_module("scorecard.making").main(sys.argv[1:]))

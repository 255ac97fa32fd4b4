"""Break the code in small ways and see which tests notice: `python tests/mutants`."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

raise SystemExit(import_module("mutants.command").main())

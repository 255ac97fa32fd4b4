"""Run the benchmark: `python -m tests.failover`, or `python tests/failover`."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

raise SystemExit(import_module("failover.run").main())

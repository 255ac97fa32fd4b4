"""Count what wrong structured answers cost, beside the peers: `python tests/benchmarks/answers.py`,
set-up included.
"""

import argparse
import contextlib
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.environments import CACHE, python_of  # noqa: E402  (the folder must be found first)
from benchmarks.inside.answering import FAULTS  # noqa: E402
from benchmarks.workers import Worker  # noqa: E402

LIBRARIES = ("rungwise", "instructor", "pydantic-ai", "openai")


def main() -> int:
    """Ask each library for the answer in each fault; print the table, and return 1 if Rungwise is
    behind a peer.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where the environments are made",
    )
    pythons = {name: python_of(name, parser.parse_args().cache) for name in LIBRARIES}
    right = dict.fromkeys(LIBRARIES, 0)
    print("| fault | " + " | ".join(LIBRARIES) + " |\n| --- |" + " --- |" * len(LIBRARIES))
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Worker(pythons["rungwise"]))
        workers = {name: stack.enter_context(Worker(python)) for name, python in pythons.items()}
        for fault in FAULTS:
            cells = []
            for name, worker in workers.items():
                url = provider.ask("inside.answering:begin", fault=fault)
                came = worker.ask("inside.answering:ask", library=name, url=url)
                spent = provider.ask("inside.answering:end")
                right[name] += came["right"]
                requests = (
                    "1 request" if spent["requests"] == 1 else f"{spent['requests']} requests"
                )
                cells.append(
                    f"{'right' if came['right'] else came['error'] or 'none'}, {requests}, "
                    f"{spent['tokens']} tokens"
                )
            print(f"| {fault} | " + " | ".join(cells) + " |", flush=True)
    print(
        f"| right, of {len(FAULTS)} | " + " | ".join(str(right[name]) for name in LIBRARIES) + " |"
    )
    return int(right["rungwise"] < max(right.values()))


if __name__ == "__main__":
    sys.exit(main())

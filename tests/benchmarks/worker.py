"""The process that one contestant runs in: it calls the functions that are asked for, a line of
JSON each.
"""

import importlib
import json
import os
import resource
import sys
import traceback

from benchmarks.processors import keep_to


def main() -> None:
    """Answer until standard input is closed; what a library prints goes to standard error."""
    keep_to(-1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for line in sys.stdin:
        asked = json.loads(line)
        module, _, name = asked["function"].partition(":")
        try:
            function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
            answer = {"answer": function(**asked["arguments"])}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

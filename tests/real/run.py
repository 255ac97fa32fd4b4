"""Check Rungwise against real model servers: llama.cpp's and llama-cpp-python's, with a model that
counts.

    python tests/real/run.py [PART OF A NAME ...]

All other tests ask a provider that we wrote. Here the servers are built from the sources that the
package index has (`build.py`: once, some 20 minutes on two cores, kept in the user's cache under
`rungwise/real`), and every word of a model is known (`model.py`): each cap, cut, stop and
continuation is checked letter by letter, in each mode of a call. One line is printed for each
check, and the exit code is 1 where one fails. It needs cmake, a C++ compiler, and the package index
the first time; after that nothing leaves this machine, and it takes some five minutes. pytest does
not collect it.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from real import breaks, build, caps, second  # noqa: F401
from real.checking import CHECKS, LAST, Check, Servers, WrongError
from real.relay import Relay
from real.server import bindings_server, llama_server

SMALL = 512


def main() -> int:
    """Run the checks, or those whose names hold what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description="Check Rungwise against real model servers.")
    parser.add_argument(
        "names", nargs="*", metavar="PART OF A NAME", help="run the checks whose names hold this"
    )
    names = parser.parse_args().names
    chosen = {
        name: run
        for name, run in CHECKS.items()
        if not names or any(part in name for part in names)
    }
    if not chosen:
        parser.error("no check is called so; the checks are:\n  " + "\n  ".join(CHECKS))
    program = build.llama_server()
    gguf = build.gguf_python()
    bindings = build.bindings_python()
    began = time.monotonic()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rungwise-real-")))
        models = {kind: _model(gguf, kind, scratch) for kind in ("plain", "mindful")}
        servers = _started(stack, program, bindings, models, scratch)
        passed = sum([_passes(name, run, servers) for name, run in chosen.items()])
    failed = len(chosen) - passed
    print(f"{passed} passed, {failed} failed, in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _model(python: Path, kind: str, scratch: Path) -> Path:
    path = scratch / f"{kind}.gguf"
    subprocess.run(
        [str(python), str(Path(__file__).with_name("model.py")), str(path), str(LAST), kind],
        check=True,
    )
    return path


def _started(
    stack: ExitStack,
    program: Path,
    bindings: Path,
    models: dict[str, Path],
    scratch: Path,
) -> Servers:
    model = models["plain"]
    plain = stack.enter_context(llama_server(program, model, scratch))
    mindful = stack.enter_context(llama_server(program, models["mindful"], scratch))
    other = stack.enter_context(bindings_server(bindings, model, scratch))
    return Servers(
        plain=plain,
        mindful=mindful,
        unfilled=stack.enter_context(
            llama_server(program, model, scratch, "--no-prefill-assistant")
        ),
        small=stack.enter_context(llama_server(program, model, scratch, context=SMALL)),
        relay=stack.enter_context(Relay(plain.port)),
        mindful_relay=stack.enter_context(Relay(mindful.port)),
        second=other,
        second_small=stack.enter_context(bindings_server(bindings, model, scratch, context=SMALL)),
        second_relay=stack.enter_context(Relay(other.port)),
    )


def _passes(name: str, run: Check, servers: Servers) -> bool:
    """Run one check and print its line."""
    began = time.monotonic()
    try:
        more = run(servers)
    except WrongError as error:
        print(f"FAILED  {name}: {error}", flush=True)
        return False
    except Exception:
        print(f"FAILED  {name}:\n{traceback.format_exc()}", flush=True)
        return False
    print(
        f"passed  {name}{f' ({more})' if more else ''}, {time.monotonic() - began:.1f} s",
        flush=True,
    )
    return True


if __name__ == "__main__":
    raise SystemExit(main())

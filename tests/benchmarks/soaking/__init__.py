"""What `soak.py` is made of: the server, the calls, the counts, and what is made of them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def faulty_server(seed: int) -> Iterator[tuple[int, int]]:
    """Run the server of mixed faults in a process of its own, and give its ports."""
    command = [sys.executable, str(Path(__file__).with_name("server.py")), str(seed)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        faulty, well = map(int, process.stdout.readline().split())
        try:
            yield faulty, well
        finally:
            process.communicate()

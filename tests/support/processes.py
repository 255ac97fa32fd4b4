"""Functions in processes of their own."""

import multiprocessing
from collections.abc import Callable
from typing import Any

SPAWN = multiprocessing.get_context("spawn")


def run_in_processes(many: int, target: Callable[..., None], *arguments: Any) -> None:
    """Run a function in several processes at once, each of which has to end well."""
    processes: list[Any] = [SPAWN.Process(target=target, args=arguments) for _ in range(many)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * many

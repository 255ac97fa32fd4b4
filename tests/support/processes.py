"""Functions in processes of their own."""

import multiprocessing
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from rungwise.adapters.stores import redis_store

SPAWN = multiprocessing.get_context("spawn")

PATIENCE = 60.0
"""Seconds for which a process waits for the store. In half a second, as users have it, a machine
that runs many other tests may not get an answer; then each process counts for itself, by design."""

WITHIN = 300.0
"""Seconds in which a process has to end."""


def run_in_processes(many: int, target: Callable[..., None], *arguments: Any) -> None:
    """Run a function in several processes at once, each of which has to end well."""
    patient = partial(patiently, target)
    processes: list[Any] = [SPAWN.Process(target=patient, args=arguments) for _ in range(many)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(WITHIN)
    assert [process.exitcode for process in processes] == [0] * many


def patiently(target: Callable[..., None], *arguments: Any) -> None:
    """Call a function that waits for the store for longer than users do."""
    with mock.patch.object(redis_store, "TIMEOUT", PATIENCE):
        target(*arguments)

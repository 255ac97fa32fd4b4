"""How a check is declared, what it is given, and how it says that something is wrong."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from attrs import frozen

import rungwise
from real.relay import Relay
from real.server import ModelServer
from support.modes import Caller, follow, streams, waits_into

LAST: Final = 40
"""The number that the model counts to."""

DEFAULT: Final = rungwise.Policy()

ASKED: Final = [{"role": "user", "content": "Please count."}]


class WrongError(Exception):
    """Something is not as it must be."""


def expect(what: str, found: object, wanted: object) -> None:
    """Compare what was found with what must be.

    Raises:
        WrongError: they differ.
    """
    if found != wanted:
        raise WrongError(f"{what}: {found!r}, and must be {wanted!r}")


def counted(count: int, *, after: int = 0, last: int = LAST) -> str:
    """Return what the model says in so many tokens; behind its last number it begins again.

    Arguments:
        count: how many numbers.
        after: the number before the first of them.
        last: the number that the model counts to.
    """
    return "".join(f" {(after + index) % last + 1:03}" for index in range(count))


WHOLE: Final = counted(LAST)


@frozen
class Servers:
    """Hold the servers that checks ask.

    Arguments:
        plain: begins to count anew in each turn.
        mindful: goes on from the last turn of the assistant.
        unfilled: as `plain`, and takes a trailing turn of the assistant for a whole one.
        small: as `plain`, with a small window.
        relay: stands before `plain`.
        mindful_relay: stands before `mindful`.
        second: another server program, as `plain`.
        second_small: the same with a small window.
        second_relay: stands before `second`.
    """

    plain: ModelServer
    mindful: ModelServer
    unfilled: ModelServer
    small: ModelServer
    relay: Relay
    mindful_relay: Relay
    second: ModelServer
    second_small: ModelServer
    second_relay: Relay


Check = Callable[[Servers], "str | None"]
CHECKS: dict[str, Check] = {}


def check(name: str) -> Callable[[Check], Check]:
    """Declare a check by what it shows, in a few words; it returns what to add to that, or None, or
    raises.
    """

    def declare(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return declare


@frozen
class Said:
    """Hold what came of a call, whatever it was.

    Arguments:
        result: its end, also of one that raised.
        shown: what a stream showed in the end; None where the mode hands nothing out.
    """

    result: rungwise.Result
    shown: str | None

    @property
    def events(self) -> list[str]:
        """Return the events of the journal, those of replies alone.

        llama.cpp's server says that it keeps connections, and closes each one behind a stream.
        Whether that is seen in time is chance, so what was lost for that reason alone is left out.
        """
        steps = [
            step for step in self.result.journal.steps if "connection_was_stale" not in step.facts
        ]
        return [step.event for step in steps if step.event not in ("sent", "ran_out")]


@contextmanager
def asking(
    server: ModelServer | Relay,
    mode: str,
    *,
    policy: rungwise.Policy = DEFAULT,
    compactor: Any = None,
    **options: Any,
) -> Iterator[Callable[..., Said]]:
    """Give a function that makes calls in one mode; it takes messages and the options of a call.

    Arguments:
        server: who is asked.
        mode: of `support.modes.EVERY`.
        policy: of the calls.
        compactor: of the client.
        options: of the backend.
    """
    backend = rungwise.OpenAIChat("counter", base_url=f"{server.root}/v1", **options)
    with Caller(
        mode,
        backend,
        policy=policy,
        compactor=compactor,
        **waits_into([]),
    ) as caller:

        def ask(messages: Any = ASKED, **given: Any) -> Said:
            events: list[Any] = []
            try:
                result = caller.ask(messages, events=events, **given)
            except rungwise.CallError as error:
                result = error.result
            said = Said(result, follow(events) if streams(mode) else None)
            if said.shown is not None:
                expect(f"{mode} showed", said.shown, result.text)
            return said

        yield ask

"""Many prompts from a file, one JSON object a line: each a durable call, so a second run goes on
with the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from os import PathLike
from typing import Any, Final

import anyio
import orjson
from attrs import define, field, frozen

from rungwise.adapters.client_options import request_of
from rungwise.adapters.durable.durable import Durable
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.parameters import REQUEST_OPTIONS
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.errors import ConfigurationError, RungwiseError
from rungwise.fsm.values.files import opened, without_mark
from rungwise.fsm.values.label import did_you_mean, short

LONGEST: Final = 32_000_000
"""The most bytes of one line."""

LONGEST_ID: Final = 100
"""Characters of the id of a line."""

_MEMBERS: Final = ("id", "prompt", "messages", "system", *sorted(REQUEST_OPTIONS))


@frozen
class PromptLine:
    """A line of the file."""

    number: int  # counted from 1
    id: str  # its own, or its number
    request: Request | None = None  # what it asks; None if it cannot be read
    fault: str = ""  # what is wrong with it


def read_lines(path: str | PathLike[str]) -> Iterator[PromptLine]:
    """Yield the lines of a file that are not blank, or raise an OSError; what cannot be read is a
    fault of its line.
    """
    with opened(path) as file:
        number = 0
        while data := file.readline(LONGEST + 1):
            number += 1
            if len(data) > LONGEST and not data.endswith(b"\n"):
                while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                    pass
                yield PromptLine(
                    number, str(number), fault=f"it is longer than {LONGEST // 1_000_000} MB"
                )
            elif data.strip():
                yield _line(number, data)


def _line(number: int, data: bytes) -> PromptLine:
    id = str(number)
    try:
        plain = orjson.loads(without_mark(data) if number == 1 else data)
        if not isinstance(plain, Mapping):
            raise ConfigurationError(f"it must be a JSON object, not {short(plain)}")
        id = _id_in(plain, number)
        return PromptLine(number, id, _request(plain))
    except orjson.JSONDecodeError as error:
        return PromptLine(number, id, fault=f"it is not JSON: {error}")
    except ConfigurationError as error:
        return PromptLine(number, id, fault=str(error))


def _id_in(plain: Mapping[str, Any], number: int) -> str:
    """Return the id of a line: its own, or its number."""
    own = plain.get("id", number)
    is_of_its_form = isinstance(own, str | int) and not isinstance(own, bool)
    if not is_of_its_form or not 0 < len(str(own).strip()) <= LONGEST_ID:
        form = f"a text of 1 to {LONGEST_ID} characters, or a number"
        raise ConfigurationError(f"id must be {form}, not {short(own)}")
    return str(own)


def _request(plain: Mapping[str, Any]) -> Request:
    """Return what a line asks, or raise a ConfigurationError."""
    for name in plain:
        if name not in _MEMBERS:
            known = f"there are: {', '.join(sorted(_MEMBERS))}"
            raise ConfigurationError(
                f"{short(name)} is unknown; {did_you_mean(name, _MEMBERS, known)}"
            )
    if ("prompt" in plain) is ("messages" in plain):
        raise ConfigurationError("it must have either a prompt or messages")
    messages = plain.get("messages")
    if messages is None:
        prompt = plain["prompt"]
        if not isinstance(prompt, str) or not prompt.strip():
            raise ConfigurationError("prompt must be a text that says something")
        messages = [{"role": "user", "content": prompt}]
    if not isinstance(messages, list):
        raise ConfigurationError(f"messages must be a list of messages, not {short(messages)}")
    system = plain.get("system")
    if isinstance(system, str):
        messages = [{"role": "system", "content": system}, *messages]
    options = {name: value for name, value in plain.items() if name in REQUEST_OPTIONS}
    return request_of(messages, options, frozenset())


AHEAD: Final = 10
"""How many lines are read ahead of the oldest that has no answer, for each that may run at once."""


@frozen
class LineResult:
    """What came of a line: its result, or why there is none."""

    line: PromptLine
    result: Result | None = None
    fault: str = ""


@define(eq=False)
class Batch:
    """Run the lines of a batch."""

    durable: Durable  # runs the calls
    name: str  # what the ids of the calls begin with
    most: int  # how many run here at once
    enqueue: bool = False  # whether they are left to workers
    retry_failed: bool = False  # whether those that have failed are run again
    in_order: bool = True  # whether answers come in the order of the lines
    returns: Any = None  # what every answer must be
    within: SharedBudget | None = None  # the budget of all of them together
    _places: anyio.Semaphore = field(init=False)

    def run(self, lines: Iterable[PromptLine]) -> Iterator[LineResult]:
        """Yield the answers; only some lines are held at a time, however many there are."""
        self._places = anyio.Semaphore(self.most)
        window: deque[Future[LineResult]] = deque()
        for line in lines:
            if len(window) >= AHEAD * self.most:
                yield self._next(window)
            window.append(self.durable.workflows.engine.soon(self._one, line))
        while window:
            yield self._next(window)

    def _next(self, window: deque[Future[LineResult]]) -> LineResult:
        """Wait for the oldest call, or for any."""
        if self.in_order:
            return window.popleft().result()
        done, _ = wait(window, return_when=FIRST_COMPLETED)
        first = next(each for each in window if each in done)
        window.remove(first)
        return first.result()

    async def _one(self, line: PromptLine) -> LineResult:
        """Run the call of a line, in the loop of the engine."""
        if line.request is None:
            return LineResult(line, fault=line.fault)
        workflows = self.durable.workflows
        async with self._places:
            try:
                begun = await workflows.begin(
                    f"{self.name}/{line.id}",
                    line.request,
                    {"within": self.within},
                    self.returns,
                    enqueue=self.enqueue,
                    retry_failed=self.retry_failed,
                )
                if self.enqueue:
                    return LineResult(line)
                return LineResult(line, await workflows.end_of(begun, self.returns))
            except CallError as error:
                return LineResult(line, error.result)
            except RungwiseError as error:
                return LineResult(line, fault=str(error))
            except Exception as error:  # of the database, which may not hold what the line has
                return LineResult(
                    line, fault=f"the database does not take it ({type(error).__name__})"
                )

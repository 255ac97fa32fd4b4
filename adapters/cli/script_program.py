"""The program that asks the served script of a worst case, where `rungwise ask` cannot bring along what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rungwise.adapters.cli.imports import IN_PYTHON
from rungwise.adapters.cli.script_request import URL, Asked

if TYPE_CHECKING:
    from rungwise.fsm.certificate.shown.scripts import WorstScript

PRINTED: Final = {
    "calls": "result.calls",
    "attempts": "result.attempts",
    "waiting seconds": "waited",
    "seconds": "result.seconds",
    "tool runs": "len(took)",
    "tool seconds": "sum(took)",
    "output tokens": "result.usage.output_tokens",
    "money": "result.cost",
}
"""Where a figure stands in what comes of the call or the turn."""


def program_of(worst: WorstScript, asked: Asked) -> list[str]:
    """Write the lines of the program, which prints the figure.

    Arguments:
        worst: what is played.
        asked: what the certificate is about.
    """
    return [
        *_imports(asked),
        "",
        *_chain(worst, asked),
        *_tool(worst),
        *_asking(worst, asked),
        *_printing(worst, asked),
    ]


def _imports(asked: Asked) -> Iterator[str]:
    if asked.is_turn:
        yield "import time"
        yield ""
    if asked.policy is not None and IN_PYTHON.fullmatch(asked.policy):
        yield f"import {asked.policy.partition(':')[0]}"
    yield "import rungwise"


def _chain(worst: WorstScript, asked: Asked) -> Iterator[str]:
    prices = "" if asked.prices is None else ", prices=prices"
    if asked.prices is not None:
        yield f"prices = rungwise.Prices({asked.prices.input!r}, {asked.prices.output!r})"
    numbers = f"range(1, {worst.backends + 1})"
    yield f'url = "{URL.text}"'
    yield f'chain = [rungwise.OpenAIChat(f"backend-{{n}}", base_url=url{prices}) for n in {numbers}]'
    compactor = ", compactor=lambda messages: messages" if worst.needs_compactor else ""
    yield f"policy = {_policy(asked)}"
    own = "" if asked.is_turn else ", policy=policy"
    yield f"client = rungwise.Client(chain{own}, jitter=lambda: 1.0{compactor})"


def _policy(asked: Asked) -> str:
    kind = "TurnPolicy" if asked.is_turn else "Policy"
    if asked.policy is None:
        return f"rungwise.{kind}()"
    if IN_PYTHON.fullmatch(asked.policy):
        return asked.policy.replace(":", ".")
    return f"rungwise.{kind}.load({asked.policy!r})"


def _tool(worst: WorstScript) -> Iterator[str]:
    if worst.tool is None:
        return
    seconds = worst.tool_seconds
    yield "took = []"
    yield f"def {worst.tool}(number: int) -> int:"
    yield f"    took.append({seconds!r})"
    if seconds:
        yield f"    time.sleep({seconds!r})"
    yield "    return number"
    yield f"tools = [rungwise.Tool(function={worst.tool}, alone=True)]"


def _asking(worst: WorstScript, asked: Asked) -> Iterator[str]:
    *before, last = map(dict, worst.case.enacted.messages)
    yield "messages = ["
    yield from (f"    {message!r}," for message in (*before, last))
    yield "]"
    options = [("max_tokens", asked.max_tokens), ("input_tokens", asked.input_tokens)]
    given = "".join(f", {name}={value}" for name, value in options if value is not None)
    own = ", policy=policy, tools=tools" if worst.tool else ", policy=policy"
    yield "try:"
    yield f"    result = client.{'turn' if asked.is_turn else 'call'}(messages{own if asked.is_turn else ''}{given})"
    yield f"except rungwise.{'TurnError' if asked.is_turn else 'CallError'} as error:"
    yield "    result = error.result"


def _printing(worst: WorstScript, asked: Asked) -> Iterator[str]:
    if worst.case.name == "waiting seconds":
        journals = "result.journal.calls" if asked.is_turn else "[result.journal]"
        yield "waited = 0.0"
        yield f"for journal in {journals}:"
        yield '    steps = [step for step in journal.steps if step.event != "skipped"]'
        yield '    waited += sum(step.wait for step, after in zip(steps, steps[1:]) if after.event == "sent")'
    yield f"print({worst.case.name!r}, {PRINTED[worst.case.name]})"

"""The steps of a call in plain words, for people who do not know the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rungwise.adapters.cli.output import counted

if TYPE_CHECKING:
    from rungwise.fsm.call.result import Result
    from rungwise.fsm.journal.record import Step
    from rungwise.fsm.values.usage import Usage

HAPPENED: Final[Mapping[str, str]] = {
    "answered": "the answer came",
    "called_tools": "the model calls tools",
    "came_empty": "the reply was empty",
    "only_reasoned": "the model reasoned and gave no answer",
    "truncated": "the answer was cut at the output cap",
    "paused": "the provider paused the turn",
    "tools_truncated": "a tool call was cut or cannot be read",
    "reasoning_truncated": "reasoning used up the output cap",
    "interrupted": "the stream broke off",
    "malformed": "the reply has no usable shape",
    "refused": "the provider or the model refused",
    "failed_transiently": "the request failed",
    "failed_permanently": "the provider turned the request down for good",
    "rejected_fixably": "the provider named one thing wrong with the request",
    "overflowed": "the conversation is too long for the model",
    "cancelled": "ended from outside",
    "ran_out": "the next request cannot be afforded",
}

FOLLOWS: Final[Mapping[str, str]] = {
    "retry": "sending the same again",
    "reask": "asking the same again",
    "nudge": "hinting at the tool results",
    "prefill": "handing its reasoning back to be finished",
    "continuation": "asking for the rest",
    "enlarge": "asking again with a larger cap",
    "repair": "sending it again without that",
    "compact": "shortening the conversation",
    "fallback": "turning to the next backend",
    "salvaged": "the text that was shown stands",
    "partial": "what there is stands as a part",
    "refused": "nobody is left to ask",
    "failed": "giving up",
    "exhausted": "nothing is left to try",
    "over_budget": "over the budget",
}


def plain(word: str) -> str:
    """Return the name of a state or an event as words."""
    return word.replace("_", " ")


def told(step: Step) -> str:
    """Return what the provider said of a failure or an end, as far as it matters, in words."""
    parts = [f"HTTP {step.status}" if step.status is not None else None, step.reason and plain(step.reason)]
    if step.event == "malformed" and step.stop_raw:
        parts.append(f"finish {step.stop_raw!r}")
    if step.asked_wait is not None:
        parts.append(f"asks to wait {step.asked_wait:g} s")
    return ", ".join(part for part in (*parts, step.note) if part)


def sentence(step: Step) -> str:
    """Say in one line what happened and what follows."""
    if step.event == "sent":
        cap = f", cap {step.cap} tokens" if step.cap is not None else ""
        return f"request {step.attempts} ({step.source}) to {step.backend}{cap}"
    if step.event == "skipped":
        return f"skipping {step.backend}: {step.note}"
    happened, details = HAPPENED.get(step.event, plain(step.event)), told(step)
    wait = f" in {step.wait:.1f} s" if step.wait else ""
    follows = FOLLOWS.get(step.target, plain(step.target))
    return f"{happened}{f' ({details})' if details else ''}: {follows}{wait}"


def tokens(usage: Usage) -> str:
    """Return the tokens of a call in words."""
    about = "about " if usage.estimated else ""
    return f"{about}{counted(usage.input_tokens, 'token')} in, {usage.output_tokens} out"


def ending(result: Result) -> str:
    """Say in one line how a call ended and what it took."""
    cause = f" ({result.cause})" if result.cause else ""
    cost = f", cost {result.cost:.6g}" if result.cost is not None else ""
    took = f"{counted(result.attempts, 'request')}, {result.seconds:.1f} s, {tokens(result.usage)}{cost}"
    return f"{plain(result.outcome)}{cause}: {took}"

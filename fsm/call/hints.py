"""The wording of what a call adds to the conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import explains_names, text, where
from rungwise.fsm.values.frozen_map import FrozenMap


def _quotes(what: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        text(instance, attribute, value)
        if f"{{{what}}}" not in str(value):
            raise ConfigurationError(
                f"{where(instance, attribute)} must hold '{{{what}}}' where the {what} goes"
            )

    return check


def _rung_hints(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) and text.strip() for text in value.values()
    ):
        raise ConfigurationError(
            "Hints.rungs must map the name of a rung to a text that is not blank"
        )
    return FrozenMap(value)


@explains_names({})
@frozen(kw_only=True)
class Hints:
    """Set the wording of what a call adds to the conversation.

    Arguments:
        placeholder: stands for an empty assistant turn, before a nudge.
        nudge, continuation: user turns that ask the model to continue, from tool results or from a
            cut answer.
        seed: asks for the answer to `{reasoning}`, for backends that do not continue an assistant
            turn.
        correction: the user turn behind a wrong answer; it names the `{reasons}`, which alone
            answer a wrong tool call.
        json, json_schema: system messages that ask for JSON, or for JSON that fits `{schema}`, for
            backends without a parameter for it.
        questions: the system message that asks the `{questions}` of a decision, for backends
            without an endpoint for decisions.
        rungs: for each rung of your own, the user turn that it sends.
    """

    placeholder: str = field(default="(no answer was given)", validator=text)
    nudge: str = field(
        default="That reply had no content. Read the tool results above and carry on from them.",
        validator=text,
    )
    continuation: str = field(
        default="Your reply broke off there. Pick up at the very next character, with no preamble "
        "and no repeats.",
        validator=text,
    )
    seed: str = field(
        default="You thought this through but never answered:\n\n{reasoning}\n\nState the answer "
        "now.",
        validator=_quotes("reasoning"),
    )
    correction: str = field(
        default="That is not right yet:\n\n{reasons}\n\nSend the whole of it again, corrected.",
        validator=_quotes("reasons"),
    )
    json: str = field(
        default="Your answer is one JSON object and nothing else: no words around it, no code "
        "fence.",
        validator=text,
    )
    json_schema: str = field(
        default="Your answer is JSON and nothing else: no words around it, no code fence. It fits "
        "this JSON schema:\n\n"
        "{schema}",
        validator=_quotes("schema"),
    )
    questions: str = field(
        default="Decide each of the following about the conversation. Answer with one member for "
        "each, under its name.\n\n{questions}",
        validator=_quotes("questions"),
    )
    rungs: Mapping[str, str] = field(factory=dict, converter=_rung_hints, hash=False)

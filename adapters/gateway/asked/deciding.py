"""Read the questions of a program's decision, whatever the shape in which it asks.

The names of a program's questions may be any text, and OpenAI's may have none. So each goes out
under its place, and `languages/decisions.py` writes the program's own name beside the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.fields import Asked
from rungwise.adapters.gateway.languages.decisions import key_of, named_questions
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.decisions.questions import Choice, Question, Score, YesNo

_KINDS: Final = {
    "choice": "choice",
    "score": "score",
    "predicate": "yes_no",
    "noul": "yes_no",
    "yes_no": "yes_no",
}
"""Our names of the kinds, by the words of all shapes."""


def take_questions(asked: Asked, value: Any) -> None:
    """Take the questions of a decision."""
    questions = {}
    for place, (_, question) in enumerate(named_questions({"questions": value})):
        read = _read(question)
        if read is None:
            asked.unknown.append("questions")
            return
        questions[key_of(place)] = read
    asked.returns = OpenQuestions.of(questions)


def take_state(asked: Asked, value: Any) -> None:
    """Take System One's state: a text, messages, or any JSON."""
    is_conversation = isinstance(value, list) and all("role" in mapping_of(each) for each in value)
    if isinstance(value, str):
        asked.messages = [{"role": "user", "content": value}]
    elif is_conversation and value:
        asked.messages = value
    else:
        asked.messages = [{"role": "user", "content": orjson.dumps(value).decode()}]


def _read(question: Mapping[str, Any]) -> Question | None:
    """Return a question; None for one that only its own provider can read."""
    kind = _KINDS.get(question.get("type", ""))
    instructions = question.get("instructions", question.get("question"))
    if kind is None or not isinstance(instructions, str):
        return None
    if kind == "yes_no":
        criteria = mapping_of(question.get("criteria"))
        return YesNo(
            instructions,
            yes=criteria.get("true_description"),
            no=criteria.get("false_description"),
        )
    labels = _labels(question)
    if labels is None:
        return None
    return Choice(instructions, labels) if kind == "choice" else Score(instructions, labels)


def _labels(question: Mapping[str, Any]) -> dict[str, str | None] | None:
    """Return the labels of a question with what each means; None for what is no text."""
    for name in ("choices", "levels", "options", "criteria"):
        given = question.get(name)
        if given is None:
            continue
        labels = dict(given) if isinstance(given, Mapping) else {}
        for each in list_of(given):
            fields = mapping_of(each)
            label = fields.get("value", fields.get("label", each))
            if not isinstance(label, str):
                return None
            if label in labels:
                raise ConfigurationError("the labels of a question must differ")
            labels[label] = fields.get("description")
        return labels
    return None

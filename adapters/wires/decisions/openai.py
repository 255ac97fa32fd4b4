"""OpenAI's shape: a list of named questions, and a list of answers in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rungwise.adapters.wires.decisions.shape import (
    REFUSED,
    Neutral,
    NoAnswersError,
    Questions,
    Shape,
)
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.responses.shapes import RESPONSES, with_custom_outputs
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.values.checks import is_number


class OpenAIShape(Shape):
    """`POST /decisions`, as OpenAI and vLLM speak it."""

    NAME = "openai"
    PATH = "/decisions"
    KINDS: ClassVar[Mapping[str, str]] = {
        "yes_no": "predicate",
        "choice": "choice",
        "score": "score",
    }

    def body(self, model: str, send: Send, questions: Questions) -> Body:
        """Return the body of a request."""
        asked = [self._question(name, question) for name, question in questions.items()]
        return {"model": model, "input": _input(send), "questions": asked}

    def _question(self, name: str, question: Mapping[str, Any]) -> Body:
        kind = question["kind"]
        labels = question["labels"]
        instructions = question["instructions"]
        written: Body = {"type": self.KINDS[kind], "name": name}
        if kind == "choice":
            written["choices"] = [_described("value", *each) for each in labels.items()]
        elif kind == "score":
            written["levels"] = [_described("label", *each) for each in labels.items()]
        else:  # a predicate has no place for what yes and no mean
            said = [f"{label}: {meaning}" for label, meaning in labels.items() if meaning]
            instructions = "\n".join([instructions, *said])
        written["instructions"] = instructions
        return written

    def answers_in(self, value: Mapping[str, Any]) -> Neutral:
        """Return the answers of a body."""
        came = value.get("answers")
        if not isinstance(came, list):
            raise NoAnswersError
        answers: Neutral = {}
        for each in came:
            name = mapping_of(each).get("name")
            if not isinstance(name, str) or name in answers:
                raise NoAnswersError
            answers[name] = self._answer(each)
        return answers

    def _answer(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        if answer.get("type") == "refusal":
            return REFUSED
        kind = self.kind_of(answer.get("type"))
        read = {"kind": kind, "confidence": answer.get("confidence")}
        if kind == "yes_no":
            read["probabilities"] = yes_no(answer.get("probability"))
            return read
        named = "value" if kind == "choice" else "label"
        probabilities = {}
        given = answer.get("probabilities")
        for share in given if isinstance(given, list) else ():
            share = mapping_of(share)
            label = share.get(named)
            if not isinstance(label, str) or label in probabilities:
                raise NoAnswersError
            probabilities[label] = share.get("probability")
        read["probabilities"] = probabilities
        read["value"] = answer.get("choice", answer.get("score"))
        return read


def yes_no(probability: object) -> dict[str, Any]:
    """Return both probabilities of a yes or no, of which servers give one."""
    rest = None
    if is_number(probability, 0, 1):
        rest = round(1.0 - probability, 12)
    return {"yes": probability, "no": rest}


def _described(name: str, label: str, meaning: str | None) -> Body:
    if meaning is None:
        return {name: label}
    return {name: label, "description": meaning}


def _input(send: Send) -> str | list[PlainMessage]:
    """Return the conversation as items; a single text of the user's as it is."""
    items = written(send.messages, RESPONSES, "", is_portable=send.portable)
    if len(items) == 1 and items[0].get("role") == "user":
        content = items[0].get("content")
        if isinstance(content, str):
            return content
    typed = [{"type": "message", **item} if "role" in item else item for item in items]
    return with_custom_outputs(typed)

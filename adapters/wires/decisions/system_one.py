"""System One's shape, and Gemini's: the questions and the answers by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rungwise.adapters.wires.decisions.openai import yes_no
from rungwise.adapters.wires.decisions.shape import (
    BlockedError,
    Neutral,
    NoAnswersError,
    Questions,
    Shape,
    one_text,
    texts_and_media,
)
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.parts import MediaPart

_COUNTS: Final = {
    "input_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
    "cached_tokens": "total_cached_tokens",
    "total_tokens": "total_tokens",
}
"""OpenAI's names of counts, each with Gemini's."""


class SystemOneShape(Shape):
    """`POST /systemone`, as TypeSafe's Jev and many others speak it."""

    NAME = "systemone"
    PATH = "/systemone"
    KINDS: ClassVar[Mapping[str, str]] = {"yes_no": "noul", "choice": "choice", "score": "score"}

    def body(self, model: str, send: Send, questions: Questions) -> Body:
        """Return the body of a request: the conversation is the state."""
        texts, _ = texts_and_media(send)
        state: Any = one_text(texts)
        if len(texts) > 1:
            state = [{"role": role, "content": text} for role, text in texts]
        return {"model": model, "state": state, "questions": self._questions(questions)}

    def _questions(self, questions: Questions) -> Body:
        asked = {}
        for name, question in questions.items():
            written = {"type": self.KINDS[question["kind"]]}
            written["instructions"] = question["instructions"]
            criteria = self._criteria(question["kind"], question["labels"])
            if criteria:
                written["criteria"] = criteria
            asked[name] = written
        return asked

    def _criteria(self, kind: str, labels: Mapping[str, str | None]) -> Any:
        if kind == "choice":
            return {label: meaning or label for label, meaning in labels.items()}
        if kind == "score":
            return [meaning or label for label, meaning in labels.items()]
        meanings = {"true_description": labels["yes"], "false_description": labels["no"]}
        return {name: meaning for name, meaning in meanings.items() if meaning is not None}

    def answers_in(self, value: Mapping[str, Any]) -> Neutral:
        """Return the answers of a body."""
        feedback = mapping_of(value.get("prompt_feedback"))
        if feedback.get("block_reason"):
            raise BlockedError(feedback["block_reason"])
        came = value.get("answers")
        if not isinstance(came, Mapping):
            raise NoAnswersError
        return {name: self._answer(mapping_of(answer)) for name, answer in came.items()}

    def _answer(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        read = {"confidence": answer.get("confidence"), "mass": answer.get("x_label_mass", 1.0)}
        if "type" in answer:
            read["kind"] = self.kind_of(answer["type"])
        if "noul" in answer:
            read["probabilities"] = yes_no(answer["noul"])
            return read
        read["probabilities"] = answer.get("probabilities")
        read["value"] = answer.get("choice", answer.get("score"))
        return read


class GeminiShape(SystemOneShape):
    """`POST /decisions` of the Gemini API."""

    NAME = "gemini"
    PATH = "/decisions"

    def body(self, model: str, send: Send, questions: Questions) -> Body:
        """Return the body of a request: the conversation is one text, and its media."""
        texts, media = texts_and_media(send)
        said: Any = one_text(texts)
        if media:
            content: list[Body] = [{"type": "text", "text": said}] if texts else []
            said = [*content, *map(_content, media)]
        named = model if "/" in model else f"models/{model}"
        return {"model": named, "input": said, "questions": self._questions(questions)}

    def usage_in(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the report of tokens under OpenAI's names."""
        return {name: report.get(own) for name, own in _COUNTS.items()}


def _content(part: MediaPart) -> Body:
    kind = "document" if part.kind == "file" else part.kind
    content: Body = {"type": kind}
    if part.media_type:
        content["mime_type"] = part.media_type
    if part.url:
        return {**content, "uri": part.url}
    return {**content, "data": part.data}

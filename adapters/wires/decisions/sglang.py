"""SGLang's own shape, on the path of OpenAI's. It refuses fields that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rungwise.adapters.wires.decisions.openai import yes_no
from rungwise.adapters.wires.decisions.shape import (
    Neutral,
    NoAnswersError,
    Questions,
    Shape,
    one_text,
    texts_and_media,
    url_of,
)
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.call.conversation.request import Send

_MEMBERS = {"choice": "options", "score": "levels"}


class SGLangShape(Shape):
    """`POST /decisions` of SGLang."""

    NAME = "sglang"
    PATH = "/decisions"
    KINDS: ClassVar[Mapping[str, str]] = {"yes_no": "yes_no", "choice": "choice", "score": "score"}

    def body(self, model: str, send: Send, questions: Questions) -> Body:
        """Return the body of a request."""
        texts, media = texts_and_media(send)
        body: Body = {"model": model, "input": one_text(texts)}
        images = [url_of(part) for part in media if part.kind == "image"]
        if images:
            body["images"] = images
        body["questions"] = [_question(name, question) for name, question in questions.items()]
        return body

    def answers_in(self, value: Mapping[str, Any]) -> Neutral:
        """Return the answers of a body."""
        came = value.get("answers")
        if not isinstance(came, Mapping):
            raise NoAnswersError
        return {name: self._answer(mapping_of(answer)) for name, answer in came.items()}

    def _answer(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        kind = self.kind_of(answer.get("type"))
        probabilities = answer.get("probabilities")
        if kind == "yes_no" and not isinstance(probabilities, Mapping):
            probabilities = yes_no(answer.get("probability", probabilities))
        return {
            "kind": kind,
            "probabilities": probabilities,
            "mass": answer.get("label_mass", 1.0),
            "value": answer.get("choice", answer.get("score")),
        }


def _question(name: str, question: Mapping[str, Any]) -> Body:
    """Return a question; what its labels mean has no place but the question itself."""
    kind = question["kind"]
    labels = question["labels"]
    meanings = [f"{label}: {meaning}" for label, meaning in labels.items() if meaning]
    asked: Body = {"id": name, "type": kind}
    asked["question"] = "\n".join([question["instructions"], *meanings])
    if kind in _MEMBERS:
        asked[_MEMBERS[kind]] = list(labels)
    return asked

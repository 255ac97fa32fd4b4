"""Decisions, in the shape in which the request asks: OpenAI's, Gemini's, System One's or SGLang's.

The text of an answer is JSON by the names of the questions, as `Result.text` of a decision has it:
an object with the `probabilities` of each label, or with the `value` alone, or with `refused`.
Nothing is streamed. Where nobody measured, probabilities and confidence are null, so that no
program takes a guess for a certainty.

Source: openai-python, `types/decision.py`; python-genai, `types/decisions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.chat import LANGUAGE as CHAT
from rungwise.adapters.gateway.languages.language import (
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    estimated,
)
from rungwise.adapters.gateway.languages.response_parts import counts_of
from rungwise.adapters.wires.decisions.backend import SHAPES
from rungwise.adapters.wires.decisions.shape import Shape
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.usage import Usage

_TOTALS: Final = {"input_tokens": "total_input_tokens", "output_tokens": "total_output_tokens"}


def shape_of(body: Mapping[str, Any]) -> Shape:
    """Return the shape of a request."""
    questions = body.get("questions")
    if "state" in body:
        return SHAPES["systemone"]
    if isinstance(questions, Mapping):
        return SHAPES["gemini"]
    is_sglang = any("question" in mapping_of(each) for each in list_of(questions))
    return SHAPES["sglang" if is_sglang else "openai"]


def named_questions(body: Mapping[str, Any]) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """Yield the questions of a request, each with its name; None if it has none."""
    questions = body.get("questions")
    if isinstance(questions, Mapping):
        for name, question in questions.items():
            yield name, mapping_of(question)
        return
    for question in map(mapping_of, list_of(questions)):
        yield question.get("name", question.get("id")), question


def key_of(place: int) -> str:
    """Return the name under which a question of the gateway's goes out."""
    return f"q{place}"


class _DecisionLanguage(SpokenLanguage):
    """Write the answers of decisions."""

    api = "decisions"
    paths = ("/decisions", "/systemone")
    conversation = "input"

    def read_request(self, path: str, body: Mapping[str, Any], number: int) -> AnswerRequest:
        """Return what matters of a request; none is streamed."""
        request = super().read_request(path, {**body, "stream": False}, number)
        return AnswerRequest(request.model, streams=False, body=body, number=number)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error, which is that of chat completions."""
        return CHAT.error(fields, status)

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return the usage under OpenAI's names."""
        return counts_of(usage)

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of a response."""
        shape = shape_of(request.body)
        usage = answer.usage
        if usage is None:
            usage = self.counts(estimated(answer, str(request.body)))
        if shape.NAME == "gemini":
            usage = {own: usage.get(name) for name, own in _TOTALS.items()}
        body: dict[str, Any] = {"model": answer.model or request.model, "usage": usage}
        if answer.refusal or answer.finish == "content_filter":
            return orjson.dumps({**body, **_blocked(request)})
        try:
            answers = mapping_of(orjson.loads(answer.text or "{}"))
        except orjson.JSONDecodeError:
            answers = {}
        written: dict[str, Any] = {}
        for place, (name, question) in enumerate(named_questions(request.body)):
            key = key_of(place)
            came = answers.get(key, answers.get(name or ""))
            if came is not None:
                written[name or key] = {"name": name, **_answer(shape, question, came)}
        if shape.NAME == "openai":
            return orjson.dumps({**body, "answers": list(written.values())})
        for each in written.values():
            del each["name"]
        return orjson.dumps({**body, "answers": written})

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Refuse: decisions are not streamed."""
        raise ConfigurationError("decisions are not streamed")


def _blocked(request: AnswerRequest) -> dict[str, Any]:
    """Return the answer to an input that was refused as a whole."""
    if shape_of(request.body).NAME != "openai":
        return {"prompt_feedback": {"block_reason": "other"}}
    names = [name for name, _ in named_questions(request.body)]
    return {"answers": [{"type": "refusal", "name": name} for name in names]}


def _answer(shape: Shape, question: Mapping[str, Any], came: Any) -> dict[str, Any]:
    """Return one answer in a shape.

    Arguments:
        shape: the shape.
        question: as the request asks it.
        came: the answer in the form of the text.
    """
    came = mapping_of(came)
    if came.get("refused") is True:
        return {"type": "refusal"}
    kind = question.get("type")
    shares = came.get("probabilities")
    confidence = came.get("confidence")
    if confidence is None and shares:
        confidence = max(shares.values())
    written: dict[str, Any] = {"type": kind, "confidence": confidence}
    if kind in ("predicate", "noul", "yes_no"):
        probability = mapping_of(shares).get("yes")
        if shape.NAME == "openai":
            return {"type": kind, "probability": probability}
        if shape.NAME == "sglang":
            return {**written, "probabilities": shares}
        return {**written, "noul": probability}
    labels = _labels(question)
    if kind == "choice":
        likeliest = came.get("value")
        if shares:
            likeliest = max(shares, key=lambda label: shares[label])
        written["choice"] = likeliest
    else:
        written["score"] = _score(came, labels)
    written["probabilities"] = _shares(shape, kind, mapping_of(shares), labels)
    return written


def _labels(question: Mapping[str, Any]) -> list[str]:
    """Return the labels of a question, in whatever shape it is asked."""
    for name in ("choices", "levels", "options", "criteria"):
        given = question.get(name)
        if isinstance(given, Mapping):
            return list(given)
        if isinstance(given, list):
            return [_label(each) for each in given]
    return []


def _label(given: Any) -> str:
    fields = mapping_of(given)
    return str(fields.get("value", fields.get("label", given)))


def _score(came: Mapping[str, Any], labels: list[str]) -> Any:
    """Return the expected place of a score."""
    shares = came.get("probabilities")
    if not isinstance(shares, Mapping):
        value = came.get("value")
        return labels.index(value) if value in labels else value
    places = [place * shares.get(label, 0.0) for place, label in enumerate(labels)]
    return round(sum(places), 9)


def _shares(shape: Shape, kind: Any, shares: Mapping[str, Any], labels: list[str]) -> Any:
    """Return the probabilities of an answer in a shape.

    Arguments:
        shape: the shape.
        kind: that of the question, in the words of the shape.
        shares: the probability of each label; empty where nobody measured.
        labels: those of the question, in order.
    """
    if not shares:
        return [] if shape.NAME == "openai" else {}
    if shape.NAME == "openai":
        written = []
        for place, label in enumerate(labels):
            if label not in shares:
                continue
            if kind == "choice":
                written.append({"value": label, "probability": shares[label]})
            else:
                fields = {"value": place, "label": label, "probability": shares[label]}
                written.append(fields)
        return written
    if kind == "score" and shape.NAME != "sglang":
        return {str(place): shares.get(label, 0.0) for place, label in enumerate(labels)}
    return shares


LANGUAGE: Final = _DecisionLanguage()

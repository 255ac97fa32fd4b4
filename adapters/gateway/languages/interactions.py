"""Gemini's Interactions.

A stream is a list of named server-sent events. `interaction.created` has no steps. Then each step
(a thought, the output, a call) starts, grows and stops, with its index in every event. The last
event has the status that the interaction ends in, and its usage; `[DONE]` stands behind it. The
signature of a thought may come long behind its text: until then, the step does not stop.

Source: google-genai, `_gaos/types/interactions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.gemini import LANGUAGE as GEMINI
from rungwise.adapters.gateway.languages.language import (
    SIGNATURE,
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    estimated,
    event,
    input_of,
)
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

STATUSES: Final = {
    "stop": "completed",
    "tool_calls": "requires_action",
    "length": "incomplete",
    "content_filter": "failed",
}
"""The status for each finish reason of chat completions; any other word is a status."""
_BLOCKED: Final = {"code": 3, "details": [{"reason": "SAFETY"}]}
"""The error of an output that a filter refused."""
_REFUSED: Final = "The response was blocked."


class _Interactions(SpokenLanguage):
    """Write answers as interactions, whose errors look as those of generateContent do."""

    api = "interactions"
    paths = "/interactions"
    conversation = "input"
    caps = ("generation_config.max_output_tokens",)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error, which is that of generateContent."""
        return GEMINI.error(fields, status)

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return token counts in this protocol's form, where thoughts are counted beside the
        output.
        """
        thoughts = min(usage.output_tokens, usage.reasoning_tokens)
        return {
            "total_input_tokens": usage.input_tokens,
            "total_output_tokens": usage.output_tokens - thoughts,
            "total_thought_tokens": thoughts,
            "total_cached_tokens": usage.cache_read_tokens,
            "total_tokens": usage.total_tokens,
        }

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an interaction that is not streamed."""
        if answer.error_event is not None:
            return self.error(answer.error_event, 500)
        steps: list[dict[str, Any]] = []
        if answer.reasoning or answer.signature:
            thought: dict[str, Any] = {"type": "thought", "summary": []}
            if answer.reasoning:
                thought["summary"] = [_text(answer.reasoning)]
            steps.append({**thought, **_signed(answer)})
        output = _output(answer)
        if output:
            steps.append(output)
        for call in answer.tool_calls:
            steps.append({**_call(call), "arguments": input_of(call.arguments)})
        return orjson.dumps({**_ended(answer, request), "steps": steps})

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write an interaction that is streamed."""
        return _InteractionStream(request, answer)


class _InteractionStream(AnswerStream):
    """Write an interaction step by step."""

    def __init__(self, request: AnswerRequest, answer: Completion) -> None:
        super().__init__(request, answer)
        self._events = 0  # so far
        self._steps = 0  # so far
        self._open = ""  # the type of the step that is open, but for a thought that waits
        self._late: int | None = None  # the index of a thought whose signature is not known yet

    def begin(self) -> Iterator[bytes]:
        """Write the event that begins every interaction."""
        begun = {**_about(self.answer, self.request), "status": "in_progress"}
        yield self._event("interaction.created", interaction=begun)

    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Add reasoning: a text of the summary of a thought."""
        if self._open != "thought":
            yield from self._start({"type": "thought"})
        yield self._delta({"type": "thought_summary", "content": _text(piece)})

    def text(self, piece: str) -> Iterator[bytes]:
        """Add text to the output."""
        if self._open != "model_output":
            yield from self._start({"type": "model_output"})
        yield self._delta(_text(piece))

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Add a call, its arguments in pieces."""
        yield from self._start({**_call(call), "arguments": {}})
        for piece in pieces:
            yield self._delta({"type": "arguments_delta", "arguments": piece})

    def end(self) -> Iterator[bytes]:
        """End the interaction: by its error, or by its status and its usage."""
        answer = self.answer
        if answer.signature and self._late is None and not answer.reasoning:
            yield from self._start({"type": "thought"})
        error = _output(answer).get("error")
        if error:
            yield from self._start({"type": "model_output", "error": error})
        yield from self._stop()
        if self._late is not None:
            yield from self._stop_thought(self._late)
        if answer.error_event is not None:
            yield self._event("error", error=_error(answer.error_event))
        elif answer.done:
            ended = _ended(answer, self.request)
            yield self._event("interaction.completed", interaction=ended)
            yield event(b"[DONE]")

    def _event(self, name: str, **members: Any) -> bytes:
        self._events += 1
        id = f"{self.request.number:08d}-{self._events}"
        return event({"event_type": name, **members, "event_id": id}, name)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return self._event("step.delta", index=self._steps - 1, delta=delta)

    def _start(self, step: Mapping[str, Any]) -> Iterator[bytes]:
        """Begin a step, behind the end of the one before."""
        yield from self._stop()
        self._open = step["type"]
        yield self._event("step.start", index=self._steps, step=step)
        self._steps += 1

    def _stop(self) -> Iterator[bytes]:
        """End the step that is open; a thought whose signature is not known yet waits for it."""
        index = self._steps - 1
        kind = self._open
        self._open = ""
        if kind == "thought" and self.answer.signature is None:
            self._late = index
        elif kind == "thought":
            yield from self._stop_thought(index)
        elif kind:
            yield self._event("step.stop", index=index)

    def _stop_thought(self, index: int) -> Iterator[bytes]:
        """Sign a thought, and end it."""
        signed = _signed(self.answer)
        if signed:
            delta = {"type": "thought_signature", **signed}
            yield self._event("step.delta", index=index, delta=delta)
        yield self._event("step.stop", index=index)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _signed(answer: Completion) -> dict[str, str]:
    """Return the member that signs a thought; nothing without a signature."""
    if answer.signature is None:
        return {}
    return {"signature": answer.signature or SIGNATURE}


def _output(answer: Completion) -> dict[str, Any]:
    """Return the step of the output; nothing if there is none."""
    output: dict[str, Any] = {}
    if answer.text:
        output["content"] = [_text(answer.text)]
    if answer.finish_or_refusal == "content_filter":
        output["error"] = {**_BLOCKED, "message": answer.refusal or _REFUSED}
    return {"type": "model_output", **output} if output else {}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "id": call.id, "name": call.name}


def _about(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return what every version of an interaction says of it."""
    created = datetime.fromtimestamp(request.created, UTC).isoformat()
    return {
        "id": f"v1_{request.number:08d}",
        "object": "interaction",
        "model": answer.model or request.model,
        "created": created,
    }


def _ended(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return an interaction that has ended, without its steps."""
    ended = _about(answer, request)
    finish = answer.finish_or_refusal
    if finish:
        ended["status"] = STATUSES.get(finish, finish)
    usage = answer.usage
    if usage is None:
        body = request.body
        prompt = [body.get("input"), body.get("system_instruction")]
        usage = LANGUAGE.counts(estimated(answer, prompt))
    if usage:
        ended["usage"] = usage
    return ended


def _error(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error that ends a stream."""
    code = fields.get("code", fields.get("type", "INTERNAL"))
    return {"code": str(code), "message": fields.get("message", "An internal error has occurred.")}


LANGUAGE: Final = _Interactions()

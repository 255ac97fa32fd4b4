"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.chat import LANGUAGE as CHAT
from rungwise.adapters.gateway.languages.language import (
    SIGNATURE,
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    estimated,
    event,
)
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

_STATUSES: Final = ("completed", "failed", "in_progress", "cancelled", "queued")
_FINISHES: Final[Mapping[str | None, tuple[str | None, str | None]]] = {
    None: (None, None),
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    **{status: (status, None) for status in _STATUSES},
}
"""The status and reason for each finish reason of chat completions; any other word is a reason."""
_CHUNK: Final = 16  # characters that padding makes a piece a multiple of
_ERROR: Final = {
    "code": "server_error",
    "message": "The server had an error while processing your request.",
}

_REASONING = "reasoning"
_MESSAGE = "message"
_TEXTS: Final = {"output_text": "text", "refusal": "refusal"}
"""The member of each kind of part that holds its text."""

Item = dict[str, Any]


class _Responses(SpokenLanguage):
    api = "responses"
    paths = "/responses"
    conversation = "input"
    caps = ("max_output_tokens",)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        return CHAT.error(fields, status)

    def counts(self, usage: Usage) -> dict[str, Any]:
        return {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_creation_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        }

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        return orjson.dumps(_ended(answer, request, [*_output(answer, request).values()]))

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        return _ResponseStream(request, answer)


class _ResponseStream(AnswerStream):
    """Write a response item by item; reasoning whose signature is not known yet is done at the
    end.
    """

    def __init__(self, request: AnswerRequest, answer: Completion) -> None:
        super().__init__(request, answer)
        self._number = 0
        self._places: dict[str, Item] = {}  # by the key of an item, in their order
        # the keys of the item that is open, and of reasoning that is done at the end
        self._open = self._late = ""
        self._parts: list[str] = []  # of the message
        self._pads = (
            mapping_of(request.body.get("stream_options")).get("include_obfuscation") is not False
        )

    def begin(self) -> Iterator[bytes]:
        begun = {**_response(self.answer, self.request), "status": "in_progress"}
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def reasoning(self, piece: str) -> Iterator[bytes]:
        if _REASONING not in self._places:
            yield from self._begin(_REASONING)
            yield self._event(
                "response.reasoning_summary_part.added",
                **self._summary,
                part={"type": "summary_text", "text": ""},
            )
        yield self._delta("reasoning_summary_text", piece, self._summary)

    def text(self, piece: str) -> Iterator[bytes]:
        yield from self._begin_part("output_text")
        yield self._delta("output_text", piece, self._place_of_part)

    def refusal(self, pieces: Iterable[str]) -> Iterator[bytes]:
        for piece in pieces:
            yield from self._begin_part("refusal")
            yield self._delta("refusal", piece, self._place_of_part)

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        key = f"call {sum(each.startswith('call') for each in self._places)}"
        yield from self._begin(key)
        yield from (
            self._delta("function_call_arguments", piece, self._places[key]) for piece in pieces
        )

    def end(self) -> Iterator[bytes]:
        answer = self.answer
        if answer.error_event is not None:
            yield self._event("error", **{"param": None, **_error(answer.error_event)})
            return
        yield from self._close()
        for key, item in _output(answer, self.request).items():
            if key not in self._places:  # such as a text that never came
                yield from self._begin(key)
                for part in item.get("content", ()):
                    yield from self._begin_part(part["type"])
                yield from self._close()
        if self._late or self._open:
            yield from self._done(self._late or self._open)
        items = _output(answer, self.request)
        ended = _ended(answer, self.request, [items[key] for key in self._places if key in items])
        if answer.done and ended["status"] is not None:
            name = (
                ended["status"]
                if ended["status"] in ("completed", "failed", "cancelled")
                else "incomplete"
            )
            yield self._event(f"response.{name}", response=ended)

    @property
    def _summary(self) -> Item:
        return {**self._places[_REASONING], "summary_index": 0}

    @property
    def _place_of_part(self) -> Item:
        return {**self._places[_MESSAGE], "content_index": len(self._parts) - 1}

    def _event(self, name: str, /, **members: Any) -> bytes:
        written = event({"type": name, "sequence_number": self._number, **members}, name)
        self._number += 1
        return written

    def _delta(self, name: str, piece: str, where: Item) -> bytes:
        padding = {"obfuscation": "x" * (-len(piece) % _CHUNK)} if self._pads else {}
        beside: Item = {"logprobs": []} if name == "output_text" else {}
        return self._event(f"response.{name}.delta", **where, delta=piece, **beside, **padding)

    def _begin(self, key: str) -> Iterator[bytes]:
        if self._open == key:
            return
        # of reasoning without a text
        if key != _REASONING and not self._places and self.answer.signature:
            yield from self._begin(_REASONING)
        yield from self._close()
        item = self._item(key)
        index = len(self._places)
        self._places[key], self._open = {"item_id": item["id"], "output_index": index}, key
        empty: Item = {_MESSAGE: {"content": []}, _REASONING: {"summary": []}}.get(
            key, {"arguments": ""}
        )
        begun = {
            name: value for name, value in {**item, **empty}.items() if name != "encrypted_content"
        }
        status: Item = {"status": "in_progress"} if "status" in item else {}
        yield self._event(
            "response.output_item.added", output_index=index, item={**begun, **status}
        )

    def _begin_part(self, kind: str) -> Iterator[bytes]:
        yield from self._begin(_MESSAGE)
        if self._parts[-1:] != [kind]:
            yield from self._close_part()
            self._parts.append(kind)
            part = {**_part(kind, self.answer), _TEXTS[kind]: ""}
            yield self._event("response.content_part.added", **self._place_of_part, part=part)

    def _close_part(self) -> Iterator[bytes]:
        if not self._parts:
            return
        kind = self._parts[-1]
        where = self._place_of_part
        part = _part(kind, self.answer)
        member = _TEXTS[kind]
        beside: Item = {"logprobs": []} if member == "text" else {}
        yield self._event(f"response.{kind}.done", **where, **{member: part[member]}, **beside)
        yield self._event("response.content_part.done", **where, part=part)

    def _close(self) -> Iterator[bytes]:
        key = self._open
        self._open = ""
        if key == _REASONING and self.answer.signature is None:
            self._late = key
        elif key:
            yield from self._done(key)

    def _done(self, key: str) -> Iterator[bytes]:
        item = self._item(key)
        place = self._places[key]
        if key == _MESSAGE:
            yield from self._close_part()
        elif key == _REASONING:
            for part in item["summary"]:
                yield self._event(
                    "response.reasoning_summary_text.done", **self._summary, text=part["text"]
                )
                yield self._event(
                    "response.reasoning_summary_part.done", **self._summary, part=part
                )
        else:
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **place, **done)
        yield self._event(
            "response.output_item.done", output_index=place["output_index"], item=item
        )

    def _item(self, key: str) -> Item:
        if key == _REASONING:
            return _reasoning(self.answer, self.request)
        return (
            _message(self.answer, self.request)
            if key == _MESSAGE
            else _output(self.answer, self.request)[key]
        )


def _ended(answer: Completion, request: AnswerRequest, output: list[Item]) -> Item:
    status, reason = _FINISHES.get(answer.finish_reason, ("incomplete", answer.finish_reason))
    response = {**_response(answer, request), "output": output, "status": status}
    if answer.error_event is not None:
        return {**response, "output": [], "status": "failed", "error": _error(answer.error_event)}
    if status == "failed":
        response["error"] = _ERROR
    if reason is not None:
        response["incomplete_details"] = {"reason": reason}
    return {**response, "usage": _usage(answer, request)}


def _error(fields: Mapping[str, Any]) -> Item:
    return {
        **_ERROR,
        **{name: fields[name] for name in ("code", "message", "param", "error") if name in fields},
    }


def _response(answer: Completion, request: AnswerRequest) -> Item:
    body = request.body
    return {
        "id": f"resp_{request.number:08d}",
        "object": "response",
        "created_at": request.created,
        "status": None,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": answer.model or request.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": mapping_of(body.get("reasoning")).get("effort"), "summary": None},
        "store": body.get("store") is not False,
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text", {"format": {"type": "text"}}),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": None,
        "metadata": body.get("metadata", {}),
    }


def _output(answer: Completion, request: AnswerRequest) -> dict[str, Item]:
    output: dict[str, Item] = {}
    if answer.reasoning or answer.signature:
        output[_REASONING] = _reasoning(answer, request)
    message = _message(answer, request)
    if message["content"]:
        output[_MESSAGE] = message
    for index, call in enumerate(answer.tool_calls):
        item = {
            "id": f"fc_{request.number:08d}{index:04d}",
            "type": "function_call",
            "status": _status(answer),
        }
        output[f"call {index}"] = {
            **item,
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
    return output


def _reasoning(answer: Completion, request: AnswerRequest) -> Item:
    summary = [{"type": "summary_text", "text": answer.reasoning}] if answer.reasoning else []
    item: Item = {"id": f"rs_{request.number:08d}", "type": "reasoning", "summary": summary}
    include = request.body.get("include")
    is_wanted = isinstance(include, list) and "reasoning.encrypted_content" in include
    if answer.signature or (is_wanted and answer.signature is not None):
        item["encrypted_content"] = answer.signature or SIGNATURE
    return item


def _message(answer: Completion, request: AnswerRequest) -> Item:
    content: list[Item] = []
    if _final(answer) or not (answer.tool_calls or answer.refusal or answer.reasoning):
        content.append(_part("output_text", answer))
    if answer.refusal:
        content.append(_part("refusal", answer))
    message = {"id": f"msg_{request.number:08d}", "type": "message", "status": _status(answer)}
    return {**message, "role": "assistant", "content": content}


def _part(kind: str, answer: Completion) -> Item:
    if kind == "refusal":
        return {"type": "refusal", "refusal": answer.refusal}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": _final(answer)}


def _final(answer: Completion) -> str:
    """Return the whole text, which may differ from its pieces."""
    return answer.final_message if isinstance(answer.final_message, str) else answer.text


def _status(answer: Completion) -> str:
    return "incomplete" if answer.finish_reason in ("length", "content_filter") else "completed"


def _usage(answer: Completion, request: AnswerRequest) -> Item | None:
    if answer.usage is not None:
        return dict(answer.usage) or None
    return LANGUAGE.counts(
        estimated(answer, [request.body.get("input"), request.body.get("instructions")])
    )


LANGUAGE: Final = _Responses()

"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.provider.languages.chat import ChatCompletions
from rungwise.adapters.provider.languages.language import (
    CREATED,
    SIGNATURE,
    Language,
    ScriptRequest,
    answer_tokens,
    characters,
    event,
    split,
    tokens,
)
from rungwise.adapters.provider.script import ScriptedReply

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
_ERROR: Final = {"code": "server_error", "message": "The server had an error while processing your request."}

Item = dict[str, Any]


class Responses(Language):
    """Write replies as responses."""

    paths = "/responses"
    conversation = "input"
    caps = ("max_output_tokens",)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""
        return ChatCompletions().error(fields, status)

    def whole(self, reply: ScriptedReply, request: ScriptRequest) -> bytes:
        """Return the body of a reply that is not streamed."""
        return orjson.dumps(_ended(reply, request))

    def events(self, reply: ScriptedReply, request: ScriptRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream."""
        for number, (name, members) in enumerate(_events(reply, request)):
            yield event({"type": name, "sequence_number": number, **members}, name)


def _events(reply: ScriptedReply, request: ScriptRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**_response(reply, request), "status": "in_progress"}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    pads = _member(request, "stream_options").get("include_obfuscation") is not False
    for index, item in enumerate(_output(reply, request)):
        yield from _item_events(item, index, reply, pads=pads)
    if reply.error_event is not None:
        yield "error", {"param": None, **_ERROR, **_error_members(reply.error_event)}
        return
    ended = _ended(reply, request)
    if reply.done and ended["status"] is not None:
        name = ended["status"] if ended["status"] in ("completed", "failed", "cancelled") else "incomplete"
        yield f"response.{name}", {"response": ended}


def _item_events(item: Item, index: int, reply: ScriptedReply, *, pads: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, place = item["type"], {"item_id": item["id"], "output_index": index}
    empty: dict[str, Item] = {"message": {"content": []}, "reasoning": {"summary": []}}
    # Reasoning has its encrypted content when it is done.
    begun = {
        name: value
        for name, value in {**item, **empty.get(kind, {"arguments": ""})}.items()
        if name != "encrypted_content"
    }
    status: Item = {"status": "in_progress"} if "status" in item else {}
    yield "response.output_item.added", {"output_index": index, "item": {**begun, **status}}

    def deltas(name: str, text: str, where: Item) -> Iterator[tuple[str, dict[str, Any]]]:
        for piece in split(text, reply.chunk_size):
            padding = {"obfuscation": "x" * (-len(piece) % _CHUNK)} if pads else {}
            beside: Item = {"logprobs": []} if name == "output_text" else {}
            yield f"response.{name}.delta", {**where, "delta": piece, **beside, **padding}

    if kind == "message":
        for at, part in enumerate(item["content"]):
            name = "output_text" if part["type"] == "output_text" else "refusal"
            where, member = {**place, "content_index": at}, "text" if name == "output_text" else "refusal"
            yield "response.content_part.added", {**where, "part": {**part, member: ""}}
            # The whole text may differ from its pieces.
            yield from deltas(name, reply.text if name == "output_text" else reply.refusal, where)
            yield (
                f"response.{name}.done",
                {**where, member: part[member], **({"logprobs": []} if member == "text" else {})},
            )
            yield "response.content_part.done", {**where, "part": part}
    elif kind == "reasoning":
        for at, part in enumerate(item["summary"]):
            where = {**place, "summary_index": at}
            yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
            yield from deltas("reasoning_summary_text", part["text"], where)
            yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**where, "part": part}
    else:
        yield from deltas("function_call_arguments", item["arguments"], place)
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, **done}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _ended(reply: ScriptedReply, request: ScriptRequest) -> Item:
    """Return the final response."""
    status, reason = _FINISHES.get(reply.finish_reason, ("incomplete", reply.finish_reason))
    response = {**_response(reply, request), "output": _output(reply, request), "status": status}
    if reply.error_event is not None:
        return {**response, "output": [], "status": "failed", "error": {**_ERROR, **_error_members(reply.error_event)}}
    if status == "failed":
        response["error"] = _ERROR
    if reason is not None:
        response["incomplete_details"] = {"reason": reason}
    return {**response, "usage": _usage(reply, request)}


def _error_members(fields: Mapping[str, Any]) -> Item:
    return {name: value for name, value in fields.items() if name in ("code", "message", "param")}


def _member(request: ScriptRequest, name: str) -> Mapping[str, Any]:
    value = request.body.get(name)
    return value if isinstance(value, Mapping) else {}


def _response(reply: ScriptedReply, request: ScriptRequest) -> Item:
    body = request.body
    return {
        "id": f"resp_{request.number:08d}",
        "object": "response",
        "created_at": CREATED,
        "status": None,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": reply.model or request.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": _member(request, "reasoning").get("effort"), "summary": None},
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


def _output(reply: ScriptedReply, request: ScriptRequest) -> list[Item]:
    status = "incomplete" if reply.finish_reason in ("length", "content_filter") else "completed"
    output: list[Item] = []
    if reply.reasoning or reply.signature:
        summary = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
        item: Item = {"id": f"rs_{request.number:08d}", "type": "reasoning", "summary": summary}
        include = request.body.get("include")
        if reply.signature or (isinstance(include, list) and "reasoning.encrypted_content" in include):
            item["encrypted_content"] = reply.signature or SIGNATURE
        output.append(item)
    content: list[Item] = []
    final = reply.final_message if isinstance(reply.final_message, str) else reply.text
    if final or not (reply.tool_calls or reply.refusal or reply.reasoning):
        content.append({"type": "output_text", "annotations": [], "logprobs": [], "text": final})
    if reply.refusal:
        content.append({"type": "refusal", "refusal": reply.refusal})
    if content:
        message = {"id": f"msg_{request.number:08d}", "type": "message", "status": status}
        output.append({**message, "role": "assistant", "content": content})
    for index, call in enumerate(reply.tool_calls):
        envelope = {"id": f"fc_{request.number:08d}{index:04d}", "type": "function_call", "status": status}
        output.append({**envelope, "call_id": call.id, "name": call.name, "arguments": call.arguments})
    return output


def _usage(reply: ScriptedReply, request: ScriptRequest) -> Item | None:
    if reply.usage is not None:
        return dict(reply.usage) or None
    messages = request.body.get("input")
    prompt, answer = tokens(characters(messages) + characters(request.body.get("instructions"))), answer_tokens(reply)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": tokens(len(reply.reasoning))},
        "total_tokens": prompt + answer,
    }


LANGUAGE: Final = Responses()

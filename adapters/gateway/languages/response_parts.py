"""The parts of a response: what a stream writes piece by piece, and a whole answer at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.gateway.languages.language import (
    SIGNATURE,
    AnswerRequest,
    Completion,
    billed_beside,
    estimated,
)
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.values.usage import Usage

Item = dict[str, Any]

REASONING = "reasoning"
COMMENTARY = "commentary"
MESSAGE = "message"
_STATUSES: Final = ("completed", "failed", "in_progress", "cancelled", "queued")
_FINISHES: Final[Mapping[str | None, tuple[str | None, str | None]]] = {
    None: (None, None),
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    **{status: (status, None) for status in _STATUSES},
}
"""The status and reason for each finish reason of chat completions; any other word is a reason."""
_ERROR: Final = {
    "code": "server_error",
    "message": "The server had an error while processing your request.",
}

_RESPONSE: Final[Mapping[str, Any]] = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "status": None,
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "model": "",
    "output": [],
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "metadata": {},
}
"""The members of a response, in their order, with their defaults."""
_REPEATED: Final = (
    "instructions",
    "max_output_tokens",
    "previous_response_id",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
    "metadata",
)
"""The members that repeat those of the request."""


def counts_of(usage: Usage) -> Item:
    """Return token counts in this protocol's form."""
    of_input: Item = {
        "cached_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_creation_tokens,
    }
    long = usage.cache_creation_long_tokens
    if long:
        short = usage.cache_creation_tokens - long
        of_input["cache_write_tokens_details"] = {"ttl_30m_tokens": short, "ttl_12h_tokens": long}
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": of_input,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
        **billed_beside(usage),
    }


def ended(answer: Completion, request: AnswerRequest, output: list[Item]) -> Item:
    """Return a response that has ended, with its output, its status and its usage."""
    status, reason = _FINISHES.get(answer.finish_reason, ("incomplete", answer.finish_reason))
    response = {
        **response_of(answer, request),
        "output": output,
        "status": status,
    }
    if answer.error_event is not None:
        return {
            **response,
            "output": [],
            "status": "failed",
            "error": error_of(answer.error_event),
        }
    if status == "failed":
        response["error"] = _ERROR
    if reason is not None:
        response["incomplete_details"] = {"reason": reason}
    return {**response, "usage": _usage(answer, request)}


def error_of(fields: Mapping[str, Any]) -> Item:
    """Return the error that ends a response."""
    error: Item = dict(_ERROR)
    for name in ("code", "message", "param", "error"):
        if name in fields:
            error[name] = fields[name]
    return error


def response_of(answer: Completion, request: AnswerRequest) -> Item:
    """Return a response without its output, with what it repeats of the request."""
    body = request.body
    response = dict(_RESPONSE)
    for name in _REPEATED:
        if name in body:
            response[name] = body[name]
    effort = mapping_of(body.get("reasoning")).get("effort")
    response["id"] = f"resp_{request.number:08d}"
    response["created_at"] = request.created
    response["model"] = answer.model or request.model
    response["parallel_tool_calls"] = body.get("parallel_tool_calls") is not False
    response["reasoning"] = {"effort": effort, "summary": None}
    response["store"] = body.get("store") is not False
    return response


def output_of(answer: Completion, request: AnswerRequest) -> dict[str, Item]:
    """Return the items of an answer by their keys, in their order."""
    output: dict[str, Item] = {}
    if answer.reasoning or answer.signature:
        output[REASONING] = reasoning_of(answer, request)
    if answer.commentary:
        output[COMMENTARY] = commentary_of(answer, request)
    message = message_of(answer, request)
    if message["content"]:
        output[MESSAGE] = message
    for index, call in enumerate(answer.tool_calls):
        output[f"call {index}"] = {
            "id": f"fc_{request.number:08d}{index:04d}",
            "type": "function_call",
            "status": _status(answer),
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
    return output


def reasoning_of(answer: Completion, request: AnswerRequest) -> Item:
    """Return the item of the reasoning; its signature stands in `encrypted_content`."""
    summary = []
    if answer.reasoning:
        summary.append({"type": "summary_text", "text": answer.reasoning})
    item: Item = {
        "id": f"rs_{request.number:08d}",
        "type": "reasoning",
        "summary": summary,
    }
    include = request.body.get("include")
    is_wanted = isinstance(include, list) and "reasoning.encrypted_content" in include
    if answer.signature or (is_wanted and answer.signature is not None):
        item["encrypted_content"] = answer.signature or SIGNATURE
    return item


def commentary_of(answer: Completion, request: AnswerRequest) -> Item:
    """Return the message that holds the commentary."""
    message = message_of(Completion(text=answer.commentary), request)
    return {**message, "id": f"msg_{request.number:08d}c", "phase": COMMENTARY}


def message_of(answer: Completion, request: AnswerRequest) -> Item:
    """Return the item of the message, which always has a part unless others say it all."""
    content: list[Item] = []
    if _final(answer) or not (answer.tool_calls or answer.refusal or answer.reasoning):
        content.append(part_of("output_text", answer))
    if answer.refusal:
        content.append(part_of("refusal", answer))
    message = {
        "id": f"msg_{request.number:08d}",
        "type": "message",
        "status": _status(answer),
    }
    if answer.commentary:
        message["phase"] = "final_answer"
    return {**message, "role": "assistant", "content": content}


def part_of(kind: str, answer: Completion) -> Item:
    """Return a part of the message, as far as it is known."""
    if kind == "refusal":
        return {"type": "refusal", "refusal": answer.refusal}
    return {
        "type": "output_text",
        "annotations": [],
        "logprobs": [],
        "text": _final(answer),
    }


def _final(answer: Completion) -> str:
    """Return the whole text, which may differ from its pieces."""
    return answer.final_message if isinstance(answer.final_message, str) else answer.text


def _status(answer: Completion) -> str:
    """Return the status of an item of an answer that has ended."""
    return "incomplete" if answer.finish_reason in ("length", "content_filter") else "completed"


def _usage(answer: Completion, request: AnswerRequest) -> Item | None:
    """Return the usage of an answer: as it is known, or estimated; None for no report."""
    if answer.usage is not None:
        return dict(answer.usage) or None
    prompt = [request.body.get("input"), request.body.get("instructions")]
    return counts_of(estimated(answer, prompt))

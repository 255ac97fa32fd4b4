"""What the conventions of OpenTelemetry call what a call knows.

The names are those of open-telemetry/semantic-conventions-genai v0.1.0; no package of Python has
them yet. What the conventions have no word for (attempts, rungs, outcomes, cost) begins with
`rungwise.`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.values.usage import Usage

Attributes = dict[str, Any]

_BY_API: Final = {
    "openai": "openai",
    "responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "bedrock": "aws.bedrock",
    "ollama": "ollama",
}
_BY_HOST: Final = {
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "mistral.ai": "mistral_ai",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "x.ai": "x_ai",
    "cohere.ai": "cohere",
    "cohere.com": "cohere",
    "perplexity.ai": "perplexity",
    "moonshot.ai": "moonshot_ai",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
}
_PORTS: Final = {"https": 443, "http": 80}
_NUMBERS: Final = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_WHOLE: Final = ("seed", "top_k")


def of_link(link: Link) -> Attributes:
    """Return the attributes of a backend: its provider, its model, and where it is."""
    origin = urlsplit(link.origin)
    host = origin.hostname or ""
    port = origin.port or _PORTS.get(origin.scheme)
    known = (name for end, name in _BY_HOST.items() if f".{host}".endswith(f".{end}"))
    provider = next(known, _BY_API.get(getattr(link, "API", ""), link.name))
    named = {"gen_ai.provider.name": provider, "gen_ai.request.model": getattr(link, "model", None)}
    place = {"server.address": host or None, "server.port": port}
    return {name: value for name, value in {**named, **place}.items() if value is not None}


def of_request(call: Call) -> Attributes:
    """Return the attributes of what a call asks for."""
    parameters = call.request.parameters
    request = call.request
    found: Attributes = {f"gen_ai.request.{name}": parameters.get(name) for name in _NUMBERS}
    found = {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}
    found |= {
        f"gen_ai.request.{name}": parameters[name]
        for name in _WHOLE
        if isinstance(parameters.get(name), int)
    }
    if request.max_tokens is not None:
        found["gen_ai.request.max_tokens"] = request.max_tokens
    if stop := parameters.get("stop"):
        found["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if level := parameters.get("reasoning_effort"):
        found["gen_ai.request.reasoning.level"] = level
    if call.returns is not None or "response_format" in parameters:
        found["gen_ai.output.type"] = "json"
    if call.is_streaming:
        found["gen_ai.request.stream"] = True
    return found


def of_usage(usage: Usage) -> Attributes:
    """Return the attributes of tokens: cached ones are part of the input, reasoning of the
    output.
    """
    cached = {
        "cache_read.input": usage.cache_read_tokens,
        "cache_write.input": usage.cache_creation_tokens,
    }
    parts = {**cached, "reasoning.output": usage.reasoning_tokens}
    whole = {"input": usage.input_tokens, "output": usage.output_tokens}
    return {
        f"gen_ai.usage.{name}_tokens": count
        for name, count in {**whole, **parts}.items()
        if count or name in whole
    }


def of_result(result: Result) -> Attributes:
    """Return the attributes of how a call ended."""
    found: Attributes = {
        "rungwise.outcome": result.outcome,
        "rungwise.attempts": result.attempts,
        "rungwise.backend": result.backend,
        **of_usage(result.usage),
    }
    if result.cost is not None:
        found["rungwise.cost"] = result.cost
    if (reply := result.reply) is not None:
        known = {
            "model": reply.model,
            "id": reply.raw.get("id") if isinstance(reply.raw, Mapping) else None,
        }
        found |= {
            f"gen_ai.response.{name}": value
            for name, value in known.items()
            if isinstance(value, str)
        }
        found["gen_ai.response.finish_reasons"] = [reply.stop_reason or "error"]
    if not result.is_success:
        found["error.type"] = error_of(result)
    return found


def error_of(result: Result) -> str:
    """Return the kind of error that a call ended in: the reason of its last failure, or its
    outcome.
    """
    reasons = [step.reason for step in result.journal.steps if step.reason is not None]
    return reasons[-1] if reasons and result.outcome == "failed" else result.outcome


def input_of(messages: Iterable[Any]) -> str:
    """Write messages as the conventions do."""
    plain = (dict(message) for message in plain_messages(tuple(messages)))
    written = [{"role": each.get("role", "user"), "parts": _parts_of(each)} for each in plain]
    return json.dumps(written, default=str, ensure_ascii=False)


def output_of(result: Result) -> str:
    """Write the answer of a call as the conventions do."""
    parts = _parts(result.text or None)
    for call in result.tool_calls:
        parts.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        )
    reason = result.reply.stop_reason if result.reply is not None else None
    written = [{"role": "assistant", "parts": parts, "finish_reason": reason or "error"}]
    return json.dumps(written, default=str, ensure_ascii=False)


def _parts_of(message: Attributes) -> list[Attributes]:
    parts = _parts(message.get("content"))
    if "tool_call_id" in message:
        return [
            {
                "type": "tool_call_response",
                "id": message["tool_call_id"],
                "response": message.get("content"),
            }
        ]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        named = {name: function.get(name) for name in ("name", "arguments")}
        parts.append({"type": "tool_call", "id": call.get("id"), **named})
    return parts


def _parts(content: Any) -> list[Attributes]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [
        dict(part) if isinstance(part, Mapping) else {"type": "text", "content": str(part)}
        for part in content
    ]

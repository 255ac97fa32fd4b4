"""What the conventions of OpenTelemetry call what a call knows.

The names are those of open-telemetry/semantic-conventions-genai v0.1.0; no package of Python has
them yet. What the conventions have no word for (attempts, rungs, outcomes, cost) begins with
`rungwise.`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

Attributes = dict[str, Any]

_BY_API: Final = {
    "openai": "openai",
    "responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "interactions": "gcp.gemini",
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
"""The providers that the conventions name: by the protocol of a backend, and by the end of its
host, which counts first.
"""
OTHER: Final = "other"
"""What stands for a name that a provider made up, or that might be a key."""
SHORTEST_SECRET: Final = 8
"""The fewest characters that may be a part of a key: shorter ones are found in most keys."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,100}")
_PORTS: Final = {"https": 443, "http": 80}
"""The ports that a URL without one means."""
_NUMBERS: Final = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_WHOLE: Final = ("seed", "top_k")


def of_link(link: Link) -> Attributes:
    """Return the attributes of a backend: its provider, its model, and where it is."""
    origin = urlsplit(link.origin)
    host = origin.hostname or ""
    attributes = {
        "gen_ai.provider.name": _provider(link, host),
        "gen_ai.request.model": getattr(link, "model", None),
        "server.address": host or None,
        "server.port": origin.port or _PORTS.get(origin.scheme),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _provider(link: Link, host: str) -> str:
    """Return the name of a provider: by its host, else by its protocol, else its own."""
    for end, name in _BY_HOST.items():
        if f".{host}".endswith(f".{end}"):
            return name
    return _BY_API.get(getattr(link, "API", ""), link.name)


def of_request(call: Call) -> Attributes:
    """Return the attributes of what a call asks for."""
    request = call.request
    parameters = request.parameters
    attributes: Attributes = {}
    for name in _NUMBERS:
        value = parameters.get(name)
        if isinstance(value, (int, float)):
            attributes[f"gen_ai.request.{name}"] = float(value)
    for name in _WHOLE:
        value = parameters.get(name)
        if isinstance(value, int):
            attributes[f"gen_ai.request.{name}"] = value
    if request.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = request.max_tokens
    stop = parameters.get("stop")
    if stop:
        sequences = [stop] if isinstance(stop, str) else list(stop)
        attributes["gen_ai.request.stop_sequences"] = sequences
    level = parameters.get("reasoning_effort")
    if level:
        attributes["gen_ai.request.reasoning.level"] = level
    if call.returns is not None or "response_format" in parameters:
        attributes["gen_ai.output.type"] = "json"
    if call.is_streaming:
        attributes["gen_ai.request.stream"] = True
    return attributes


def of_usage(usage: Usage) -> Attributes:
    """Return the attributes of tokens: cached ones are part of the input, reasoning of the
    output.
    """
    attributes: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    parts = {
        "cache_read.input": usage.cache_read_tokens,
        "cache_write.input": usage.cache_creation_tokens,
        "reasoning.output": usage.reasoning_tokens,
    }
    for name, count in parts.items():
        if count:
            attributes[f"gen_ai.usage.{name}_tokens"] = count
    if usage.cache_creation_long_tokens:
        attributes["rungwise.cache_write_long_tokens"] = usage.cache_creation_long_tokens
    for name, count in usage.units.items():
        attributes[f"rungwise.units.{name}"] = count
    return attributes


def shown(word: str, is_secret: Callable[[str], bool]) -> str:
    """Return a provider's name for something, as others may read it: "other" for what is no short
    name, or may be a key.

    Arguments:
        word: the name.
        is_secret: tells whether a word is a key of the backend, or a part of one.
    """
    is_name = _NAME.fullmatch(word) is not None
    is_key = len(word) >= SHORTEST_SECRET and is_secret(word)
    return word if is_name and not is_key else OTHER


def of_result(result: Result, is_secret: Callable[[str], bool]) -> Attributes:
    """Return the attributes of how a call ended.

    Arguments:
        result: of the call.
        is_secret: as for `shown`.
    """
    attributes: Attributes = {
        "rungwise.outcome": result.outcome,
        "rungwise.attempts": result.attempts,
        "rungwise.backend": result.backend,
        **of_usage(result.usage),
    }
    if result.cost is not None:
        attributes["rungwise.cost"] = result.cost
        attributes["rungwise.cost_reported"] = result.cost_reported
    if result.reply is not None:
        attributes |= of_reply(result.reply, is_secret)
    if not result.is_success:
        attributes["error.type"] = error_of(result)
    return attributes


def of_reply(reply: Reply, is_secret: Callable[[str], bool]) -> Attributes:
    """Return the attributes of a reply; a server may leave out either name.

    Arguments:
        reply: the reply.
        is_secret: as for `shown`.
    """
    attributes: Attributes = {}
    if isinstance(reply.model, str):
        attributes["gen_ai.response.model"] = shown(reply.model, is_secret)
    id = reply.raw.get("id") if isinstance(reply.raw, Mapping) else None
    if isinstance(id, str):
        attributes["gen_ai.response.id"] = shown(id, is_secret)
    attributes["gen_ai.response.finish_reasons"] = [reply.stop_reason or "error"]
    return attributes


def of_attempt(last: Observation | None, step: Step, link: Link) -> Attributes:
    """Return the attributes of an attempt that its metrics have, too: whom it asked, and what
    served it.

    Arguments:
        last: what came back; None if nobody waited for it.
        step: the step that it led to.
        link: the backend that was asked.
    """
    attributes = of_link(link)
    if last is None:
        return attributes
    if last.reply is not None:
        attributes |= of_reply(last.reply, link.is_secret)
    if last.failure is not None:
        attributes["error.type"] = step.reason or step.event
    return attributes


def of_received(last: Observation | None, step: Step) -> Attributes:
    """Return what else the span of an attempt says.

    Its tokens have names of our own. Those of the conventions stand on the call, and a sum over all
    spans would count them twice.

    Arguments:
        last, step: as for `of_attempt`.
    """
    attributes = known(
        event=step.event,
        reason=step.reason,
        code=step.code,
        input_tokens=step.usage.input_tokens,
        output_tokens=step.usage.output_tokens,
    )
    status = step.status
    if last is not None and last.failure is None:
        status = 200
    if status is not None:
        attributes["http.response.status_code"] = status
    if step.first_token is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = step.first_token
    return attributes


def known(**values: Any) -> Attributes:
    """Return attributes of our own, without those that are unknown."""
    return {f"rungwise.{name}": value for name, value in values.items() if value is not None}


def error_of(result: Result) -> str:
    """Return the kind of error that a call ended in: the reason of its last failure, or its
    outcome.
    """
    reasons = [step.reason for step in result.journal.steps if step.reason is not None]
    if reasons and result.outcome == "failed":
        return reasons[-1]
    return result.outcome


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
            {
                "type": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    reason = result.reply.stop_reason if result.reply is not None else None
    written = [
        {
            "role": "assistant",
            "parts": parts,
            "finish_reason": reason or "error",
        }
    ]
    return json.dumps(written, default=str, ensure_ascii=False)


def _parts_of(message: Attributes) -> list[Attributes]:
    """Return the parts of a message of chat completions: texts, calls, or the result of a call."""
    content = message.get("content")
    if "tool_call_id" in message:
        id = message["tool_call_id"]
        return [
            {
                "type": "tool_call_response",
                "id": id,
                "response": content,
            }
        ]
    parts = _parts(content)
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        named = {name: function.get(name) for name in ("name", "arguments")}
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                **named,
            }
        )
    return parts


def _parts(content: Any) -> list[Attributes]:
    """Return the parts of a content; what is an object stays as it is."""
    if content is None:
        return []
    if isinstance(content, str):
        content = [content]
    parts = []
    for part in content:
        if isinstance(part, Mapping):
            parts.append(dict(part))
        else:
            parts.append({"type": "text", "content": str(part)})
    return parts

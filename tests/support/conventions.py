"""The names and types of the conventions: open-telemetry/semantic-conventions-genai v0.1.0, core
conventions 1.45.0.
"""

from typing import Any

REQUIRED = {
    "chat": {"gen_ai.operation.name", "gen_ai.provider.name"},
    "invoke_agent": {"gen_ai.operation.name"},
    "execute_tool": {"gen_ai.operation.name", "gen_ai.tool.name"},
}

ATTRIBUTES: dict[str, Any] = {
    **dict.fromkeys(("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"), str),
    "server.address": str,
    "server.port": int,
    "error.type": str,
    "gen_ai.request.stream": bool,
    "gen_ai.output.type": str,
    "gen_ai.request.seed": int,
    "gen_ai.request.top_k": int,
    "gen_ai.request.max_tokens": int,
    **{
        f"gen_ai.request.{name}": float
        for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty")
    },
    "gen_ai.request.stop_sequences": tuple,
    "gen_ai.request.reasoning.level": str,
    "gen_ai.response.id": str,
    "gen_ai.response.model": str,
    "gen_ai.response.finish_reasons": tuple,
    "gen_ai.response.time_to_first_chunk": float,
    **{
        f"gen_ai.usage.{name}_tokens": int
        for name in ("input", "output", "cache_read.input", "cache_write.input")
    },
    "gen_ai.usage.reasoning.output_tokens": int,
    "gen_ai.input.messages": str,
    "gen_ai.output.messages": str,
    **{
        f"gen_ai.tool.{name}": str
        for name in ("name", "type", "description", "call.id", "call.arguments", "call.result")
    },
    "http.request.method": str,
    "http.response.status_code": int,
    "http.request.resend_count": int,
    # our own
    **{
        f"rungwise.{name}": str
        for name in ("outcome", "backend", "rung", "event", "guard", "reason", "code", "row", "why")
    },
    "rungwise.attempts": int,
    "rungwise.input_tokens": int,
    "rungwise.output_tokens": int,
    "tenant": str,  # as a caller may add it
    "rungwise.discarded_tokens": int,
    "rungwise.calls": int,
    "rungwise.cost": float,
    "rungwise.cost_reported": bool,
    "rungwise.cache_write_long_tokens": int,
    "rungwise.wait": float,
}

_OF_CALLS = {"gen_ai.operation.name", "gen_ai.provider.name"}

METRICS = {
    "gen_ai.client.inference.duration": ("s", "histogram", _OF_CALLS),
    "gen_ai.client.inference.time_to_first_chunk": ("s", "histogram", _OF_CALLS),
    **{
        f"gen_ai.client.inference.usage.{name}_tokens": (
            "{token}",
            "counter",
            {*_OF_CALLS, "gen_ai.token.modality"},
        )
        for name in ("input", "output", "cache_read.input", "cache_write.input", "reasoning.output")
    },
    "gen_ai.client.inference.operation.input_tokens": ("{token}", "histogram", _OF_CALLS),
    "gen_ai.client.inference.operation.output_tokens": ("{token}", "histogram", _OF_CALLS),
    "gen_ai.invoke_agent.duration": ("s", "histogram", set[str]()),
    "gen_ai.invoke_agent.inference_calls": ("{call}", "histogram", set[str]()),
    "gen_ai.invoke_agent.tool_calls": ("{call}", "histogram", set[str]()),
    "gen_ai.execute_tool.duration": ("s", "histogram", {"gen_ai.tool.name"}),
    "rungwise.attempts": ("{attempt}", "histogram", {*_OF_CALLS, "rungwise.outcome"}),
    "rungwise.rungs": ("{rung}", "counter", {"rungwise.rung", "rungwise.event"}),
    "rungwise.fallbacks": ("{fallback}", "counter", {"rungwise.backend"}),
    "rungwise.cost": ("1", "counter", _OF_CALLS),
    "rungwise.backend.closed": ("1", "gauge", {"rungwise.backend", "rungwise.health"}),
}

HERE = "tests/support/conventions.py"


def type_of(attribute: str) -> type[Any]:
    """Return the type of a span's attribute.

    Raises:
        AssertionError: nobody has declared the attribute.
    """
    assert attribute in ATTRIBUTES, (
        f"nobody has declared the attribute {attribute!r}: add its name and its type to ATTRIBUTES "
        f"in {HERE}"
    )
    return ATTRIBUTES[attribute]


def declared(metric: str) -> tuple[str, str, set[str]]:
    """Return the unit of a metric, its kind, and the attributes that each of its points has.

    Raises:
        AssertionError: nobody has declared the metric.
    """
    assert metric in METRICS, (
        f"nobody has declared the metric {metric!r}: add its unit, its kind and the attributes of "
        f"its points to METRICS in {HERE}"
    )
    return METRICS[metric]


def required_of(operation: str) -> set[str]:
    """Return the attributes that each span of an operation has.

    Raises:
        AssertionError: nobody has declared the operation.
    """
    assert operation in REQUIRED, (
        f"nobody has declared the operation {operation!r}: add the attributes that each of its "
        f"spans has to REQUIRED in {HERE}"
    )
    return REQUIRED[operation]

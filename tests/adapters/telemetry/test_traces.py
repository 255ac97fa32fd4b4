"""What OpenTelemetry is told of calls and turns, by its own SDK; and that nothing is told that
should not be.
"""

import asyncio
import contextvars
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import rungwise
from rungwise import Client, OpenAIChat, ToolCall
from rungwise.adapters import every_client
from rungwise.adapters.telemetry import meters
from rungwise.adapters.telemetry.names import of_link
from rungwise.adapters.telemetry.tracing import Tracing
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support import modes
from support.command_line import printed_by
from support.conventions import declared, required_of, type_of

SECRET = "herons of the northern marsh"
ANSWER = ScriptedReply(text=SECRET, usage={"prompt_tokens": 12, "completion_tokens": 5})
DOWN = ScriptedReply(status=500, error={"message": SECRET})
BAD_KEY = ScriptedReply(status=401)
CAPTURES = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@attrs.define
class Seen:
    """Keep what the SDK exports."""

    spans_out: InMemorySpanExporter = attrs.Factory(InMemorySpanExporter)
    reader: InMemoryMetricReader = attrs.Factory(InMemoryMetricReader)
    tracers: TracerProvider = attrs.Factory(TracerProvider)
    meters: MeterProvider = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_out))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.spans_out.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.split()[0] == name]

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        found = (
            []
            if data is None
            else [
                each for scope in data.resource_metrics[0].scope_metrics for each in scope.metrics
            ]
        )
        return {metric.name: metric for metric in found}

    def client(
        self,
        *providers: EmbeddedProvider,
        contents: bool = False,
        attributes: Any = None,
        **options: Any,
    ) -> Client:
        chain = [
            OpenAIChat(
                f"gpt-{number}", base_url=each.base_url, api_key="k", prices=rungwise.Prices(1, 2)
            )
            for number, each in enumerate(providers)
        ]
        given = {**modes.waits_into([]), "health": None, **options}
        client = Client(chain, **given)
        kept = {"tracer_provider": self.tracers, "meter_provider": self.meters}
        return rungwise.otel.instrument(client, contents=contents, attributes=attributes, **kept)


@pytest.fixture
def seen() -> Iterator[Seen]:
    kept = Seen()
    yield kept
    for span in kept.spans:
        check(span)
    for name, metric in kept.metrics().items():
        unit, kind, needed = declared(name)
        shown = {
            "Histogram": "histogram",
            "Sum": "counter",
            "Gauge": "gauge",
        }[type(metric.data).__name__]
        assert (metric.unit, shown) == (unit, kind), name
        assert all(needed <= set(point.attributes) for point in metric.data.data_points), name


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def check(span: ReadableSpan) -> None:
    """Check the names and types of a span against the conventions."""
    attributes = attributes_of(span)
    for name, value in [
        *attributes.items(),
        *(pair for each in span.events for pair in (each.attributes or {}).items()),
    ]:
        assert type(value) is type_of(name), (name, value)
    operation = span.name.split()[0]
    if operation != "attempt":
        assert attributes["gen_ai.operation.name"] == operation
        assert required_of(operation) <= set(attributes)
    assert not [each for each in span.events if each.name == "exception"]
    assert span.status.description is None


@pytest.mark.parametrize(
    ("look_up", "name", "table"),
    [
        (type_of, "rungwise.new", "ATTRIBUTES"),
        (declared, "rungwise.new", "METRICS"),
        (required_of, "sing", "REQUIRED"),
    ],
)
def test_what_the_conventions_do_not_have_is_named_with_the_place_to_add_it(
    look_up: Any, name: str, table: str
) -> None:
    with pytest.raises(
        AssertionError, match=rf"{name}'.* {table} in tests/support/conventions\.py"
    ):
        look_up(name)


def serve(*replies: ScriptedReply) -> EmbeddedProvider:
    return EmbeddedProvider(Script(list(replies)))


def told(seen: Seen) -> str:
    return "".join(span.to_json() for span in seen.spans)


# spans


def test_a_call_is_one_span_with_all_its_attempts(seen: Seen) -> None:
    with serve(DOWN, ScriptedReply(text="Half of the", finish="length"), ANSWER) as provider:
        result = seen.client(provider).call(
            "Where?", temperature=0.5, max_tokens=100, stop="end", seed=3
        )
    *attempts, call = seen.spans
    assert (call.name, call.kind, call.status.status_code) == (
        "chat gpt-0",
        SpanKind.CLIENT,
        StatusCode.UNSET,
    )
    attributes = attributes_of(call)
    assert attributes["gen_ai.provider.name"] == "openai"
    assert (attributes["server.address"], attributes["server.port"]) == (
        "127.0.0.1",
        int(provider.base_url.split(":")[2].split("/")[0]),
    )
    asked = ("temperature", "max_tokens", "stop_sequences", "seed")
    assert [attributes[f"gen_ai.request.{name}"] for name in asked] == [0.5, 100, ("end",), 3]
    assert attributes["gen_ai.usage.input_tokens"] == result.usage.input_tokens
    assert attributes["gen_ai.usage.output_tokens"] == result.usage.output_tokens
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    ended = ("outcome", "attempts", "cost", "backend")
    assert [attributes[f"rungwise.{name}"] for name in ended] == [
        "done",
        3,
        result.cost,
        result.backend,
    ]
    assert [event.attributes["rungwise.row"] for event in call.events if event.attributes] == [
        "await --failed_transiently [may_retry]--> retry",
        "await --truncated [may_continue]--> continuation",
        "await --answered--> done",
    ]
    assert [span.parent and span.parent.span_id for span in attempts] == [call.context.span_id] * 3
    assert {span.name for span in attempts} == {"attempt"}
    ways = [attributes_of(span) for span in attempts]
    assert [each["rungwise.rung"] for each in ways] == ["ask", "retry", "continuation"]
    assert [each["http.response.status_code"] for each in ways] == [500, 200, 200]
    assert [each.get("error.type") for each in ways] == ["server_error", None, None]
    assert [each.get("http.request.resend_count") for each in ways] == [None, 1, 2]
    assert [each["rungwise.wait"] > 0 for each in ways] == [False, True, False]
    statuses = [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET]
    assert [span.status.status_code for span in attempts] == statuses
    assert all(
        (call.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0)
        for span in attempts
    )


def test_each_request_continues_the_trace_of_its_attempt_and_carries_no_baggage(seen: Seen) -> None:
    token = attach(baggage.set_baggage("user", SECRET))
    try:
        with serve(DOWN, ANSWER) as provider:
            seen.client(provider).call("Where?", headers={"traceparent": "mine"})
    finally:
        detach(token)
    *attempts, _ = seen.spans
    for span, request in zip(attempts, provider.requests, strict=True):
        assert (
            request.headers["traceparent"]
            == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"
        )
        assert "baggage" not in request.headers


def test_a_fallback_shows_whom_it_left_and_why(seen: Seen) -> None:
    with serve(BAD_KEY) as first, serve(ANSWER) as second:
        result = seen.client(first, second).call("Where?")
    one, other, call = seen.spans
    assert attributes_of(call)["rungwise.backend"] == result.backend
    assert attributes_of(one)["rungwise.reason"] == "auth"
    assert [attributes_of(each)["gen_ai.request.model"] for each in (one, other)] == [
        "gpt-0",
        "gpt-1",
    ]
    metrics = seen.metrics()
    assert [point.value for point in metrics["rungwise.fallbacks"].data.data_points] == [1]


@pytest.mark.parametrize(
    ("reply", "outcome", "error"),
    [
        (DOWN, "failed", "server_error"),
        (ScriptedReply(refusal="No."), "refused", "refused"),
        (ScriptedReply(), "exhausted", "exhausted"),
    ],
)
def test_an_error_has_its_type_and_never_its_words(
    seen: Seen,
    reply: ScriptedReply,
    outcome: str,
    error: str,
) -> None:
    with serve(reply) as provider, pytest.raises(rungwise.CallError):
        seen.client(provider).call(SECRET)
    call = seen.spans[-1]
    assert call.status.status_code == StatusCode.ERROR
    assert attributes_of(call)["rungwise.outcome"] == outcome
    assert attributes_of(call)["error.type"] == error
    assert SECRET not in told(seen)
    duration = seen.metrics()["gen_ai.client.inference.duration"]
    assert [dict(point.attributes)["error.type"] for point in duration.data.data_points] == [error]


def test_a_call_that_is_left_has_ended(seen: Seen) -> None:
    with serve(ANSWER) as provider, seen.client(provider).stream("Where?") as stream:
        next(event for event in stream if isinstance(event, rungwise.Text))
    attempt, call = seen.spans
    assert attributes_of(call)["rungwise.outcome"] == "cancelled"
    assert attributes_of(attempt)["rungwise.event"] == "cancelled"


def test_streams_say_when_their_first_content_came(seen: Seen) -> None:
    with serve(ANSWER) as provider:
        *_, result = seen.client(provider).stream("Where?")
    attempt, call = (attributes_of(span) for span in seen.spans)
    assert call["gen_ai.request.stream"] is True
    assert (
        0
        < attempt["gen_ai.response.time_to_first_chunk"]
        <= call["gen_ai.response.time_to_first_chunk"]
    )
    assert call["gen_ai.response.time_to_first_chunk"] <= result.seconds
    assert "gen_ai.client.inference.time_to_first_chunk" in seen.metrics()


def test_calls_are_children_of_the_span_that_is_current(seen: Seen) -> None:
    tracer = seen.tracers.get_tracer("test")

    async def two(client: Client) -> None:
        with tracer.start_as_current_span(
            "invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}
        ):
            await asyncio.gather(client.acall("Where?"), client.acall("Why?"))
        await client.aclose()

    with serve(ANSWER, ANSWER) as provider:
        asyncio.run(two(seen.client(provider)))
    [outer], calls = seen.named("invoke_agent"), seen.named("chat")
    assert [span.parent and span.parent.span_id for span in calls] == [outer.context.span_id] * 2
    assert len({span.parent.span_id for span in seen.named("attempt") if span.parent}) == 2


@pytest.mark.parametrize(
    ("backend", "provider", "place"),
    [
        (OpenAIChat("m", api_key="k"), "openai", ("api.openai.com", 443)),
        (OpenAIChat("m", base_url="https://api.groq.com/openai/v1"), "groq", ("api.groq.com", 443)),
        (
            OpenAIChat("m", base_url="https://one.openai.azure.com/openai/v1"),
            "azure.ai.openai",
            ("one.openai.azure.com", 443),
        ),
        (OpenAIChat("m", base_url="http://[::1]:8000/v1"), "openai", ("::1", 8000)),
        (OpenAIChat("m", base_url="http://notgroq.com/v1"), "openai", ("notgroq.com", 80)),
        (rungwise.Anthropic("m", api_key="k"), "anthropic", ("api.anthropic.com", 443)),
        (
            rungwise.Gemini("m", api_key="k"),
            "gcp.gemini",
            ("generativelanguage.googleapis.com", 443),
        ),
        (rungwise.Ollama("m"), "ollama", ("localhost", 11434)),
        (rungwise.core.PlainLink("mine"), "mine", (None, None)),
    ],
)
def test_a_backend_has_the_name_and_the_place_of_its_provider(
    backend: Any, provider: str, place: Any
) -> None:
    found = of_link(backend)
    assert (
        found["gen_ai.provider.name"],
        (found.get("server.address"), found.get("server.port")),
    ) == (provider, place)


def test_a_durable_call_is_traced_once_like_any_other(seen: Seen, tmp_path: Path) -> None:
    tracer = seen.tracers.get_tracer("test")
    operation = {"gen_ai.operation.name": "invoke_agent"}
    with (
        serve(DOWN, ANSWER) as provider,
        seen.client(provider) as client,
        rungwise.Durable(client, f"sqlite:///{tmp_path}/calls.sqlite") as durable,
        tracer.start_as_current_span("invoke_agent", attributes=operation),
    ):
        results = [durable.call("one", "Where?") for _ in range(2)]
    assert results[0].journal.started == results[1].journal.started
    [outer], [call], attempts = (
        seen.named("invoke_agent"),
        seen.named("chat"),
        seen.named("attempt"),
    )
    assert [call.parent and call.parent.span_id, len(attempts)] == [outer.context.span_id, 2]
    sent = [request.headers["traceparent"].split("-")[2] for request in provider.requests]
    assert sent == [f"{span.context.span_id:016x}" for span in attempts]


# contents


@pytest.mark.parametrize(
    ("contents", "variable"), [(False, "true"), (True, ""), (True, "EVENT_ONLY"), (True, "true")]
)
def test_messages_are_shown_only_if_two_agree(
    seen: Seen,
    contents: bool,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CAPTURES, variable)
    with serve(ANSWER) as provider:
        seen.client(provider, contents=contents).call([{"role": "user", "content": f"{SECRET}?"}])
    if contents and variable == "true":
        attributes = attributes_of(seen.spans[-1])
        assert json.loads(str(attributes["gen_ai.input.messages"])) == [
            {"role": "user", "parts": [{"type": "text", "content": f"{SECRET}?"}]}
        ]
        [answer] = json.loads(str(attributes["gen_ai.output.messages"]))
        assert answer == {
            "role": "assistant",
            "finish_reason": "stop",
            "parts": [{"type": "text", "content": SECRET}],
        }
    else:
        assert SECRET not in told(seen)


def test_tool_calls_and_their_results_are_among_the_messages(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURES, "SPAN_ONLY")
    with serve(ScriptedReply(tool_calls=[ToolCall("c1", "look", "{}")]), ANSWER) as provider:
        seen.client(provider, contents=True).turn("Where?", tools={"look": lambda: "here"})
    messages = json.loads(str(attributes_of(seen.named("chat")[-1])["gen_ai.input.messages"]))
    assert [part for message in messages for part in message["parts"]] == [
        {"type": "text", "content": "Where?"},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": "{}"},
        {"type": "tool_call_response", "id": "c1", "response": "here"},
    ]
    [tool] = seen.named("execute_tool")
    assert attributes_of(tool)["gen_ai.tool.call.result"] == "here"


# turns


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("way", ["turn", "aturn"])
def test_a_turn_is_a_span_of_its_calls_and_tools(seen: Seen, kind: str, way: str) -> None:
    inner = seen.tracers.get_tracer("test")
    where = contextvars.ContextVar("where", default="nowhere")

    def work(city: str) -> str:
        with inner.start_as_current_span("attempt"):
            return f"{city}: {where.get()}"

    def look(city: str) -> str:
        return work(city)

    async def alook(city: str) -> str:
        await asyncio.sleep(0)
        return work(city)

    def fails(city: str) -> str:
        raise ValueError(SECRET)

    tools = {"look": look if kind == "sync" else alook, "fails": fails}
    calls = [
        ToolCall("1", "look", '{"city": "Malmö"}'),
        ToolCall("2", "fails", '{"city": "Malmö"}'),
    ]
    with serve(ScriptedReply(tool_calls=calls), ANSWER) as provider:
        client = seen.client(provider)

        async def main() -> None:
            await client.aturn("Where?", tools=tools)
            await client.aclose()

        asyncio.run(main()) if way == "aturn" else client.turn("Where?", tools=tools)
    [turn], chats, executed = (
        seen.named("invoke_agent"),
        seen.named("chat"),
        seen.named("execute_tool"),
    )
    assert (turn.kind, turn.parent, len(chats)) == (SpanKind.INTERNAL, None, 2)
    assert {span.parent.span_id for span in (*chats, *executed) if span.parent} == {
        turn.context.span_id
    }
    assert sorted(span.name for span in executed) == ["execute_tool fails", "execute_tool look"]
    by_name = {span.name.split()[1]: span for span in executed}
    [within] = [
        span
        for span in seen.spans
        if span.instrumentation_scope and span.instrumentation_scope.name == "test"
    ]
    assert within.parent is not None
    assert within.parent.span_id == by_name["look"].context.span_id
    assert attributes_of(by_name["fails"])["error.type"] == "tool_error"
    assert attributes_of(turn)["rungwise.outcome"] == "finished"
    assert SECRET not in told(seen)
    metrics = seen.metrics()
    assert metrics["gen_ai.invoke_agent.tool_calls"].data.data_points[0].sum == 2
    assert metrics["gen_ai.execute_tool.duration"].data.data_points


# metrics


def test_the_metrics_count_tokens_attempts_rungs_and_cost(seen: Seen) -> None:
    with serve(DOWN, ANSWER, ANSWER) as provider:
        client = seen.client(provider)
        results = [client.call("Where?"), client.call("Why?")]
    metrics = seen.metrics()
    amounts = {name: metric.data.data_points[0] for name, metric in metrics.items()}
    of_attempts = metrics["gen_ai.client.inference.usage.input_tokens"].data.data_points
    assert {
        (point.attributes.get("error.type"), point.attributes["gen_ai.token.modality"]): point.value
        for point in of_attempts
    } == {
        ("server_error", "unknown"): 0,
        (None, "text"): sum(each.usage.input_tokens for each in results),
    }
    assert amounts["gen_ai.client.inference.operation.output_tokens"].sum == sum(
        each.usage.output_tokens for each in results
    )
    assert (amounts["rungwise.attempts"].sum, amounts["rungwise.attempts"].count) == (3, 2)
    costs = [point.value for point in metrics["rungwise.cost"].data.data_points]
    assert sum(costs) == pytest.approx(sum(each.cost or 0.0 for each in results))
    assert amounts["rungwise.rungs"].value == 1
    assert amounts["gen_ai.client.inference.duration"].explicit_bounds[:2] == (0.01, 0.02)


WAYS = ("call", "stream", "acall", "astream", "turn", "aturn")


def run(client: Client, way: str) -> Any:
    """Run one call or turn in one of the ways, and return its result."""

    async def in_loop() -> Any:
        if way == "astream":
            async with client.astream("Where?") as stream:
                async for _ in stream:
                    pass
            return stream.result
        begun: Any = client.acall("Where?") if way == "acall" else client.aturn("Where?")
        return await begun

    if way in ("acall", "astream", "aturn"):
        return asyncio.run(in_loop())
    if way == "stream":
        *_, result = client.stream("Where?")
        return result
    return client.call("Where?") if way == "call" else client.turn("Where?")


def values_of(metric: Any, *names: str) -> dict[Any, float]:
    """Add up a metric by some of its attributes."""
    values: dict[Any, float] = {}
    for point in metric.data.data_points:
        key = tuple([point.attributes.get(name) for name in names])
        values[key] = values.get(key, 0) + point.value
    return values


CUT = ScriptedReply(
    text="Half of the", finish="length", usage={"prompt_tokens": 20, "completion_tokens": 7}
)
NO = ScriptedReply(
    refusal="No.",
    model="gpt-0-2026",
    usage={
        "prompt_tokens": 30,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
)
SERVED = attrs.evolve(ANSWER, model="gpt-1-2026")


@pytest.mark.parametrize("way", WAYS)
def test_a_sum_over_all_spans_counts_each_token_once(seen: Seen, way: str) -> None:
    with serve(DOWN, CUT, ANSWER) as provider:
        result = run(seen.client(provider), way)
    for kind in ("input", "output"):
        name = f"gen_ai.usage.{kind}_tokens"
        told = [attributes_of(span).get(name) for span in seen.spans]
        assert sum(filter(None, told)) == getattr(result.usage, f"{kind}_tokens")
        assert [span.name for span, count in zip(seen.spans, told, strict=True) if count] == [
            "chat gpt-0"
        ]
        of_attempts = [attributes_of(span) for span in seen.named("attempt")]
        assert sum(each[f"rungwise.{kind}_tokens"] for each in of_attempts) == getattr(
            result.usage, f"{kind}_tokens"
        )


@pytest.mark.parametrize("way", WAYS)
def test_tokens_and_cost_are_those_of_the_model_that_was_asked_and_the_one_that_served(
    seen: Seen, way: str
) -> None:
    with serve(NO) as first, serve(SERVED) as second:
        result = run(seen.client(first, second), way)
    metrics = seen.metrics()
    asked = ("gen_ai.request.model", "gen_ai.response.model")
    one, other = ("gpt-0", "gpt-0-2026"), ("gpt-1", "gpt-1-2026")
    usage = "gen_ai.client.inference.usage"
    assert values_of(metrics[f"{usage}.input_tokens"], *asked) == {one: 30, other: 12}
    assert values_of(metrics[f"{usage}.output_tokens"], *asked) == {one: 9, other: 5}
    assert values_of(metrics[f"{usage}.cache_read.input_tokens"], *asked) == {one: 4}
    costs = values_of(metrics["rungwise.cost"], *asked)
    assert costs == pytest.approx({one: (30 + 2 * 9) / 1e6, other: (12 + 2 * 5) / 1e6})
    assert sum(costs.values()) == pytest.approx(result.cost)
    [duration] = metrics["gen_ai.client.inference.duration"].data.data_points
    [call] = seen.named("chat")
    for told in (dict(duration.attributes), attributes_of(call)):
        assert tuple(told[name] for name in asked) == other
        assert told["server.port"] == int(second.base_url.split(":")[2].split("/")[0])


# what a caller adds

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_function", [False, True])
def test_own_attributes_stand_on_every_span_and_metric(
    way: str, is_function: bool, seen: Seen
) -> None:
    given: Any = {"tenant": "heron", "gen_ai.operation.name": "mine", "rungwise.rung": "mine"}

    def now() -> Any:
        return {**given, "tenant": TENANT.get()}

    with serve(DOWN, NO) as first, serve(ANSWER) as second:
        client = seen.client(first, second, attributes=now if is_function else given)
        token = TENANT.set("heron")
        run(client, way)
        TENANT.reset(token)
    assert {attributes_of(span)["tenant"] for span in seen.spans} == {"heron"}
    for name, metric in seen.metrics().items():
        assert {point.attributes.get("tenant") for point in metric.data.data_points} == {"heron"}, (
            name
        )
    rungs = values_of(seen.metrics()["rungwise.rungs"], "rungwise.rung")
    assert rungs == {("retry",): 1, ("fallback",): 1}


def test_own_attributes_stand_on_tools(seen: Seen) -> None:
    with serve(ScriptedReply(tool_calls=[ToolCall("1", "look", "{}")]), ANSWER) as provider:
        client = seen.client(provider, attributes={"tenant": "heron"})
        client.turn("Where?", tools={"look": lambda: "here"})
    [tool] = seen.named("execute_tool")
    assert attributes_of(tool)["tenant"] == "heron"
    [point] = seen.metrics()["gen_ai.execute_tool.duration"].data.data_points
    assert dict(point.attributes) == {"tenant": "heron", "gen_ai.tool.name": "look"}


@pytest.mark.parametrize("given", [lambda: TENANT.get(), lambda: 5, 5])
def test_own_attributes_that_cannot_be_had_break_no_call(
    given: Any, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(ANSWER) as provider:
        assert seen.client(provider, attributes=given).call("Where?").text == SECRET
    assert len(seen.spans) == 2
    assert [record.getMessage().split(" raised ")[0] for record in caplog.records] == [
        "attributes="
    ]


# a whole process


@pytest.fixture
def _nobody_attached() -> Iterator[None]:
    yield
    every_client._ATTACHED.clear()


@pytest.mark.usefixtures("_nobody_attached")
def test_every_client_of_a_process_is_instrumented(seen: Seen) -> None:
    kept = {"tracer_provider": seen.tracers, "meter_provider": seen.meters}
    with serve(ANSWER, ANSWER, ANSWER) as provider:
        backend = OpenAIChat("gpt-0", base_url=provider.base_url, api_key="k")
        before = Client(backend)
        rungwise.otel.instrument_all(**kept, attributes={"tenant": "heron"})
        rungwise.otel.instrument_all(**kept, attributes={"tenant": "stork"})
        clients = (before, Client(backend), rungwise.otel.instrument(Client(backend)))
        for client in clients:
            client.call("Where?")
    assert [attributes_of(span)["tenant"] for span in seen.named("chat")] == [
        "heron",
        "stork",
        "stork",
    ]
    assert len(seen.named("attempt")) == 3


@pytest.mark.usefixtures("_nobody_attached")
def test_clients_that_others_make_in_other_threads_are_instrumented_too(seen: Seen) -> None:
    rungwise.otel.instrument_all(tracer_provider=seen.tracers, meter_provider=seen.meters)
    with serve(ANSWER) as provider:
        backend = OpenAIChat("gpt-0", base_url=provider.base_url, api_key="k")
        with ThreadPoolExecutor(8) as pool:
            made = [*pool.map(lambda _: Client(backend), range(40))]
        assert all(isinstance(each.runtime.observer, Tracing) for each in made)
        transport = rungwise.Transport(made[0])
        with httpx.Client(transport=transport) as http:
            body = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
            http.post("https://api.openai.com/v1/chat/completions", json=body)
    assert len(seen.named("chat")) == 1


def test_the_health_of_backends_is_a_metric(seen: Seen) -> None:
    with serve(BAD_KEY) as first, serve(ANSWER) as second:
        client = seen.client(first, second, health=rungwise.Health())
        client.call("Where?")
        points = seen.metrics()["rungwise.backend.closed"].data.data_points
    assert {dict(point.attributes)["rungwise.health"]: point.value for point in points} == {
        "open": 0,
        "closed": 1,
    }


def test_the_health_of_all_clients_of_a_process_is_there_until_they_are_gone(seen: Seen) -> None:
    def shown() -> set[str]:
        metric = seen.metrics().get("rungwise.backend.closed")
        return (
            {str(dict(each.attributes)["rungwise.backend"]) for each in metric.data.data_points}
            if metric
            else set()
        )

    with serve(ANSWER) as one, serve(ANSWER) as other:
        clients = [seen.client(each, health=rungwise.Health()) for each in (one, other)]
        names = [client.chain[0].name for client in clients]
        assert shown() == {*names}
        del clients[0]
        gc.collect()
        assert shown() == {names[1]}


# what it must not do


def test_the_client_keeps_its_observer_and_is_instrumented_once(seen: Seen) -> None:
    steps: list[str] = []
    with serve(ANSWER) as provider:
        client = seen.client(provider, observer=lambda step: steps.append(step.event))
        assert rungwise.otel.instrument(client) is client
        client.call("Where?")
    assert steps == ["sent", "answered"]
    assert len(seen.spans) == 2
    with pytest.raises(rungwise.ConfigurationError, match="client must be a Client, not str"):
        rungwise.otel.instrument("client")


def test_a_tracer_that_raises_breaks_no_call(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(SECRET)

    look = {"look": lambda: "here"}
    replies = [ScriptedReply(tool_calls=[ToolCall("1", "look", "{}")]), ANSWER]
    with serve(*replies) as provider:
        client = seen.client(provider)
        tracing = client.runtime.observer
        monkeypatch.setattr(type(tracing.tracer), "start_span", fail)
        assert client.turn("Where?", tools=look).text == SECRET
    assert not seen.spans


def test_without_an_sdk_nothing_is_recorded_and_nothing_changes() -> None:
    script = (
        "import rungwise, rungwise.testing as t\n"
        "with t.EmbeddedProvider(t.Script([t.ScriptedReply('Yes.')])) as p:\n"
        "    client = rungwise.Client(rungwise.OpenAIChat('m', base_url=p.base_url, api_key='k'))\n"
        "    print(rungwise.otel.instrument(client).call('Is it?').text, 'traceparent' in "
        "p.requests[0].headers)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("Yes. False\n", "")


def test_without_the_extra_the_error_names_it() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import rungwise\n"
        "client = rungwise.Client(rungwise.OpenAIChat('m', base_url='http://127.0.0.1:9', "
        "api_key='k'))\n"
        "try:\n    rungwise.otel.instrument(client)\n"
        "except rungwise.ConfigurationError as error:\n    print(error)\n"
    )
    assert printed_by(script) == "traces need OpenTelemetry: pip install 'rungwise[otel]'\n"


def test_spans_of_a_remote_parent_pass_it_on_without_an_sdk() -> None:
    parent = trace.NonRecordingSpan(
        trace.SpanContext(7, 9, is_remote=True, trace_flags=trace.TraceFlags(1))
    )
    token = attach(trace.set_span_in_context(parent))
    try:
        with serve(ANSWER) as provider:
            backend = OpenAIChat("m", base_url=provider.base_url, api_key="k")
            Client(backend, observer=rungwise.otel.observer()).call("Where?")
    finally:
        with suppress(ValueError):
            detach(token)
    assert provider.requests[0].headers["traceparent"].split("-")[1:3] == [f"{7:032x}", f"{9:016x}"]


KEY = "sk-7b1e4c0f9a2d4e63b5c8"


@pytest.mark.parametrize(
    "named",
    [
        KEY,
        f"x-{KEY}",
        KEY[3:],
        "a model with blanks",
        "m" * 101,
        "ünïcode",
        "<script>",
    ],
)
def test_a_name_that_a_provider_makes_up_is_other(named: str, seen: Seen) -> None:
    calls = [ToolCall(named, "look", "{}")]
    script = [ScriptedReply(model=named, tool_calls=calls), ScriptedReply("Grey.", model=named)]
    with EmbeddedProvider(Script(script)) as provider:
        backend = OpenAIChat("gpt-5", base_url=provider.base_url, api_key=KEY)
        client = rungwise.otel.instrument(
            Client(backend), tracer_provider=seen.tracers, meter_provider=seen.meters
        )
        with client:
            client.turn("Look.", tools={"look": lambda: "grey"})
    told = json.dumps([dict(span.attributes or {}) for span in seen.spans])
    told += json.dumps([str(metric) for metric in seen.metrics().values()])
    assert '"gen_ai.response.model": "other"' in told
    assert json.dumps(named)[1:-1] not in told


@pytest.mark.parametrize("named", ["gpt-5-2026-01-01", "meta-llama/Llama-4:free", "a@b+c_d.gguf"])
def test_the_name_of_a_model_is_told_as_it_is(named: str, seen: Seen) -> None:
    script = Script([ScriptedReply("Grey.", model=named)])
    with EmbeddedProvider(script) as provider, seen.client(provider) as client:
        client.call("Look.")
    [call] = seen.named("chat")
    assert call.attributes is not None
    assert call.attributes["gen_ai.response.model"] == named


def test_metrics_tell_a_bounded_number_of_models_apart(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "MOST_MODELS", 3)
    script = Script([ScriptedReply("Grey.", model=f"m-{number}") for number in range(6)])
    with EmbeddedProvider(script) as provider, seen.client(provider) as client:
        for _ in range(6):
            client.call("Look.")
    points = seen.metrics()["rungwise.attempts"].data.data_points
    names = {point.attributes["gen_ai.response.model"] for point in points}
    assert names == {"m-0", "m-1", "m-2", "other"}

"""Spans of calls, attempts, turns and tools, made from the steps as they happen.

A call is one client span, with all its retries, as the conventions ask. Each attempt is a child of
it, and each rung an event. A turn is an internal span; its calls and tools are children of it, also
where they run in other threads and tasks.

Nothing here decides anything: without an SDK, or if it raises, a call runs as it would have run.
What an observer raises is logged by the call itself; what raises beside a tool is caught here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

from attrs import define, field
from opentelemetry.context import Context, attach
from opentelemetry.metrics import NoOpMeter
from opentelemetry.trace import (
    NoOpTracer,
    ProxyTracer,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    get_tracer_provider,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rungwise.adapters.telemetry.meters import Meters
from rungwise.adapters.telemetry.names import (
    Attributes,
    input_of,
    known,
    of_attempt,
    of_link,
    of_received,
    of_request,
    of_result,
    output_of,
    shown,
)
from rungwise.fsm.call.budget.costs import cost_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.run.recording import Follower, Observer, logger, observer_of
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.result import ERRORS
from rungwise.fsm.turn.table import OUTCOMES
from rungwise.fsm.turn.tools import ToolRun
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.values.money import as_money

CAPTURES: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that must agree before a span holds a message."""

_TRACEPARENT: Final = TraceContextTextMapPropagator()  # which never sends baggage


OwnAttributes = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""Attributes that a caller adds, or a function that returns them for each call and turn."""


@define(eq=False)
class Tracing(Follower):
    """An observer of a client that makes spans and metrics of its calls and turns."""

    tracer: Tracer
    meters: Meters
    contents: bool = False  # whether spans may hold messages and the arguments and results of tools
    also: Observer | None = None  # another observer, which is called with each step as well
    own: OwnAttributes = field(factory=dict)  # the caller's, of spans and metrics

    def __call__(self, step: Step) -> None:
        """Pass on a step of which the run is not known."""
        if self.also is not None:
            self.also(step)

    def watch(self, run: Call | Turn) -> Observer | None:
        """Return the observer of a call or a turn; none of ours where nobody records and no trace
        is continued.
        """
        also = self.also and observer_of(self.also, run)
        if self.is_off and not get_current_span().get_span_context().is_valid:
            return also
        own = self.own_attributes()
        if isinstance(run, Turn):
            return TracedTurn(self, also, own, run)
        return TracedCall(self, also, own, run)

    def own_attributes(self) -> Attributes:
        """Return the caller's own attributes, as the context says that is current; what they raise
        harms no call.
        """
        try:
            return dict(self.own() if callable(self.own) else self.own)
        except Exception as error:
            logger.warning("attributes= raised %s; the call goes on", type(error).__name__)
            return {}

    @property
    def is_off(self) -> bool:
        """Tell whether there is no SDK that records anything."""
        meter = self.meters.meter
        if not isinstance(meter, NoOpMeter) and getattr(meter, "_real_meter", meter) is not None:
            return False
        if isinstance(self.tracer, NoOpTracer):
            return True
        # both stand in for what an SDK may still set
        is_proxy = isinstance(self.tracer, ProxyTracer)
        return is_proxy and isinstance(get_tracer_provider(), ProxyTracerProvider)

    @property
    def may_quote(self) -> bool:
        """Tell whether spans may hold contents: two must agree."""
        asked = os.environ.get(CAPTURES, "").lower()
        return self.contents and asked in ("true", "span_only", "span_and_event")


def _harmless(tell: Callable[..., None]) -> Callable[..., None]:
    """Let what a tracer raises harm no tool, as it harms no call."""

    @wraps(tell)
    def guarded(*arguments: Any) -> None:
        try:
            tell(*arguments)
        except Exception as error:
            logger.warning("a tracer raised %s; the tool goes on", type(error).__name__)

    return guarded


@define(eq=False)
class TracedRun(Follower):
    """What the spans of calls and turns have in common."""

    tracing: Tracing
    also: Observer | None
    own: Attributes  # the caller's, of every span and metric of the run
    _span: Span | None = field(default=None, init=False)

    def __call__(self, step: Step) -> None:
        """Take a step."""
        try:
            self._take(step)
        finally:
            if self.also is not None:
                self.also(step)

    def _take(self, step: Step) -> None:
        """Tell of a step."""

    def _start(
        self,
        name: str,
        step: Step,
        kind: SpanKind,
        parent: Context | None,
        attributes: Attributes,
    ) -> Span:
        """Start the span of the run at its first step, dated back to when the run began.

        Arguments:
            name, kind, attributes: of the span.
            step: the step. After a crash it is not the first of the run, and nobody knows when the
                run began.
            parent: the context around the run; None for the current one.
        """
        now = time.time_ns()
        began = now - int(step.at * 1e9) if step.number == 1 else now
        self._span = span = self.tracing.tracer.start_span(
            name, parent, kind, {**self.own, **attributes}, start_time=began
        )
        return span

    @property
    def within(self) -> Context | None:
        """Return the context for what happens within the run."""
        return None if self._span is None else set_span_in_context(self._span)


@define(eq=False)
class TracedCall(TracedRun):
    """The spans of a call."""

    call: Call
    of_turn: Callable[[], Context | None] = lambda: None  # the context of the turn around it
    # the attempt in flight, the wait before it, and when it was sent: seconds of the call
    _attempt: Span | None = field(default=None, init=False)
    _wait: float = field(default=0.0, init=False)
    _sent_at: float = field(default=0.0, init=False)
    _link: Link | None = field(default=None, init=False)  # that was asked; None between attempts
    # when the first content came, in seconds of the call
    _first: float | None = field(default=None, init=False)
    # those of the span from its beginning, which the metrics have, too
    _attributes: Attributes = field(factory=dict, init=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers that let the server continue the trace of the attempt in flight."""
        carrier: dict[str, str] = {}
        span = self._attempt or self._span
        if span is not None and span.get_span_context().is_valid:
            _TRACEPARENT.inject(carrier, set_span_in_context(span))
        return carrier

    def _take(self, step: Step) -> None:
        """Make an event of the step, or begin or end the span of an attempt or of the call."""
        span = self._span or self._begin(step)
        if step.event == SKIPPED:
            span.add_event("rungwise.skipped", known(backend=step.backend, why=step.note))
            return
        if step.event == "sent":
            self._sent_at = step.at
            self._link = self.call.link
            if span.is_recording():
                self._send(step)
            return
        if step.first_token is not None and self._first is None:
            self._first = self._sent_at + step.first_token
        if self._link is not None:
            self._receive(step, self._link)
            self._link = None
        if not self.call.is_over:
            self.tracing.meters.took(step, self.own)
        if span.is_recording():
            self._wait = step.wait
            guard = f" [{step.guard}]" if step.guard else ""
            row = f"{step.source} --{step.event}{guard}--> {step.target}"
            attributes = known(
                event=step.event,
                guard=step.guard,
                rung=step.target,
                wait=step.wait,
                backend=step.backend,
            )
            attributes["rungwise.row"] = row
            span.add_event("rungwise.rung", attributes)
        if self.call.is_over:
            self._end(span)

    def _begin(self, step: Step) -> Span:
        """Start the span of the call."""
        call = self.call
        link = of_link(call.link)
        self._attributes = {
            "gen_ai.operation.name": "chat",
            **link,
            **of_request(call),
        }
        name = " ".join(filter(None, ("chat", link.get("gen_ai.request.model"))))
        span = self._start(name, step, SpanKind.CLIENT, self.of_turn(), self._attributes)
        if self.tracing.may_quote:
            span.set_attribute("gen_ai.input.messages", input_of(call.request.messages))
        return span

    def _send(self, step: Step) -> None:
        """Start the span of an attempt."""
        attributes = {
            **self.own,
            **of_link(self.call.link),
            "http.request.method": "POST",
            **known(rung=step.source, backend=step.backend, wait=self._wait),
        }
        if step.attempts > 1:
            attributes["http.request.resend_count"] = step.attempts - 1
        self._attempt = self.tracing.tracer.start_span(
            "attempt", self.within, SpanKind.CLIENT, attributes
        )

    def _receive(self, step: Step, link: Link) -> None:
        """Count what an attempt at a backend has used, and end its span."""
        last = None if step.event == "cancelled" else self.call.last
        attributes = of_attempt(last, step, link)
        units = cost_of(step.usage, link.prices)
        cost = None if units is None else as_money(units)
        asked = {"gen_ai.operation.name": "chat", **attributes}
        self.tracing.meters.attempted(step.usage, cost, asked, self.own)
        attempt = self._attempt
        if attempt is None:
            return
        attempt.set_attributes(attributes)
        attempt.set_attributes(of_received(last, step))
        if not self.call.is_over and "added_text" not in step.facts:
            attempt.set_attribute("rungwise.discarded_tokens", step.usage.output_tokens)
        if "error.type" in attributes:
            attempt.set_status(Status(StatusCode.ERROR))
        attempt.end()
        self._attempt = None

    def _end(self, span: Span) -> None:
        """End the span of the call, and count the call."""
        result = self.call.result
        link = self.call.link
        attributes = {**self._attributes, **of_link(link), **of_result(result, link.is_secret)}
        if self._first is not None and self.call.is_streaming:
            attributes["gen_ai.response.time_to_first_chunk"] = self._first
        if self.tracing.may_quote:
            attributes["gen_ai.output.messages"] = output_of(result)
        if not result.is_success:
            span.set_status(Status(StatusCode.ERROR))
        if span.is_recording():
            span.set_attributes(attributes)
        span.end()
        first = self._first if self.call.is_streaming else None
        self.tracing.meters.ended(result, attributes, first, self.own)


@define(eq=False)
class TracedTurn(TracedRun):
    """The spans of a turn: its calls and its tools are children of it."""

    turn: Turn
    # the span of each tool that runs, and when it began, by the identity of its call
    _tools: dict[int, tuple[Span, float]] = field(factory=dict, init=False)
    _ran: int = field(default=0, init=False)  # how many tools have ended
    _call: Call | None = field(default=None, init=False)  # that asked for the tools

    def watch(self, call: Call) -> Observer:
        """Return the observer of a call of the turn."""
        self._call = call
        also = self.also and observer_of(self.also, call)
        return TracedCall(self.tracing, also, self.own, call, lambda: self.within)

    def _take(self, step: Step) -> None:
        """Make an event of the step, and end the span with the turn."""
        operation = {"gen_ai.operation.name": "invoke_agent"}
        span = self._span or self._start("invoke_agent", step, SpanKind.INTERNAL, None, operation)
        if step.event != "sent":
            span.add_event(
                "rungwise.step", known(event=step.event, guard=step.guard, rung=step.target)
            )
        if step.target not in OUTCOMES:
            return
        journal = self.turn.journal
        calls = len(journal.calls)
        # the tokens stand on the calls
        span.set_attributes({"rungwise.outcome": step.target, "rungwise.calls": calls})
        if step.target in ERRORS:
            span.set_attribute("error.type", step.target)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        self.tracing.meters.of_turn(step.at, calls, self._ran, self.own)

    @_harmless
    def tool_began(self, run: ToolRun) -> None:
        """Start the span of a tool, or go on with it, and make it the current one of this
        context.
        """
        key = id(run.call)
        if key not in self._tools:
            self._tools[key] = (self._start_tool(run), time.monotonic())
        span, _ = self._tools[key]
        attach(set_span_in_context(span))

    def _start_tool(self, run: ToolRun) -> Span:
        """Start the span of a tool."""
        call = run.call
        attributes: Attributes = {
            **self.own,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
        }
        if self._call is not None:  # else the turn began with tools
            attributes["gen_ai.tool.call.id"] = shown(call.id, self._call.link.is_secret)
        if run.tool.explained:
            attributes["gen_ai.tool.description"] = run.tool.explained
        if self.tracing.may_quote:
            attributes["gen_ai.tool.call.arguments"] = call.arguments
        name = f"execute_tool {call.name}"
        return self.tracing.tracer.start_span(name, self.within, attributes=attributes)

    @_harmless
    def tool_ended(self, run: ToolRun, outcome: ToolOutcome) -> None:
        """End the span of a tool."""
        span, began = self._tools.pop(id(run.call), (None, 0.0))
        if span is None:
            return
        attributes: Attributes = {"gen_ai.tool.name": run.call.name}
        if outcome.fault is not None:
            attributes["error.type"] = "tool_error"
            span.set_status(Status(StatusCode.ERROR))
        elif self.tracing.may_quote:
            attributes["gen_ai.tool.call.result"] = str(outcome.value)
        span.set_attributes(attributes)
        span.end()
        self._ran += 1
        self.tracing.meters.of_tool(time.monotonic() - began, attributes, self.own)

"""One model call: the sans-IO core that a driver asks what to send next.

    call = Call(request, policy)
    send = call.begin()
    while send is not None:
        send = call.receive(reply)
    call.result

The call never sleeps, sends, reads a clock or draws a random number: the driver passes the time and the jitter in.
What comes back is turned into an event and facts (`fsm/call/observe.py`); the table decides
(`fsm/machine/table.py`); the transcript knows what the rung sends (`fsm/call/transcript.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field

from rungwise.fsm.call.budget import Spending
from rungwise.fsm.call.causes import cause_of
from rungwise.fsm.call.chain import Chain
from rungwise.fsm.call.classify import expects_json
from rungwise.fsm.call.delivery import Delivery, correction
from rungwise.fsm.call.estimate import estimate_tokens
from rungwise.fsm.call.events import Discard, Reasoning, Text
from rungwise.fsm.call.journal import Journal, Links, Setting
from rungwise.fsm.call.metering import measured
from rungwise.fsm.call.observe import Attempt, Heard, contents_of, facts_of, observe_cut, observe_failure, observe_reply
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.reply import Reply
from rungwise.fsm.call.request import CAP_PARAMETERS, Link, PlainLink, Request, Send, TurnContext, headers_for
from rungwise.fsm.call.result import Result
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.call.transcript import STAND_IN_TOKENS, Composed, Transcript
from rungwise.fsm.call.waiting import RAISING, is_drawn, wait_of
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.failures.transport import may_be_billed
from rungwise.fsm.journal.record import Evidence, Step
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Row
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.thinking import part_thinking, split_thinking
from rungwise.fsm.tracebacks import built_without_locals, without_locals
from rungwise.fsm.values.usage import NO_USAGE, Usage

logger = logging.getLogger("rungwise")

StreamEvent = Text | Reasoning | Discard | Step
Observer = Callable[[Step], None]


def _no_jitter() -> float:
    return 0.0


@built_without_locals
@define(eq=False, repr=False)
class Call:
    """Run one model call through the machine.

    Arguments:
        request: what the caller asks.
        policy: how the call may recover, and its budget.
        chain: the backends in order; the core needs their names and capabilities only.
        turn: what the call cannot see of the turn around it.
        jitter: returns a number from 0 to 1 for each wait; the default places none.
        observer: is given each step as it happens; what it raises is logged and goes no further.
        contents: whether the journal may hold texts and tool calls.
        has_compactor: whether the driver can shorten messages that do not fit.
        is_streaming: whether the driver passes deltas to `hear` and hands on what `drain` returns.
        estimate: counts the input tokens of messages or tools, where the request does not say.
        prompts: the tokens of each prompt as a journal recorded them, for a replay; None counts them.

    Raises:
        ConfigurationError: no backend of the chain is usable, or the budget names money and a backend has no prices.
    """

    request: Request
    policy: Policy = DEFAULT_POLICY
    chain: Sequence[Link] = field(factory=lambda: (PlainLink(),))
    turn: TurnContext = field(factory=TurnContext)
    jitter: Callable[[], float] = _no_jitter
    observer: Observer | None = None
    contents: bool = False
    has_compactor: bool = False
    is_streaming: bool = False
    estimate: Callable[[Any], int] = estimate_tokens
    prompts: Iterator[int] | None = None

    run: Run = field(init=False)
    journal: Journal = field(init=False)
    spending: Spending = field(init=False)
    _result: Result | None = field(default=None, init=False)
    _chain: Chain = field(init=False)
    _transcript: Transcript = field(init=False)
    _attempt: Attempt | None = field(default=None, init=False)
    _delivery: Delivery | None = field(default=None, init=False)
    _shown: str = field(default="", init=False)
    _outbox: list[StreamEvent] = field(factory=list, init=False)
    _origin: float | None = field(default=None, init=False)
    _send: Send | None = field(default=None, init=False)
    _alike: dict[str, int] | None = field(default=None, init=False)
    _failures: dict[int, Failure] | None = field(default=None, init=False)
    _last: Heard | None = field(default=None, init=False)
    _draw: float | None = field(default=None, init=False)
    _prompt: int | None = field(default=None, init=False)
    _base: int | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        for name, value, kind in (
            ("request", self.request, Request),
            ("policy", self.policy, Policy),
            ("turn", self.turn, TurnContext),
        ):
            if not isinstance(value, kind):
                raise ConfigurationError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        policy, table = self.policy, self.policy.table
        self._chain = Chain.of(self.chain, needs_prices=policy.budget.money is not None)
        request, chain = self.request, self._chain.links
        self.run = Run.at_start(table, policy.limits.bounded(table.limits, len(chain)))
        self.spending = Spending(policy.budget)
        needs_cap = policy.budget.output_tokens is not None or policy.budget.money is not None
        self._transcript = Transcript(request.messages, policy.hints, needs_cap=needs_cap)
        setting = Setting(policy, Links(chain), request.max_tokens, request.input_tokens, self.has_compactor)
        self.journal = Journal(table=table.name, counters=table.counters, contents=self.contents, setting=setting)

    def __repr__(self) -> str:
        run = getattr(self, "run", None)  # tracebacks show what is only half made, too
        return f"Call(state={run.state!r}, attempts={run.attempts})" if run is not None else "Call()"

    # what a driver calls

    @property
    def link(self) -> Link:
        """Return the current backend."""
        return self._chain.link

    @property
    def backend(self) -> int:
        """Return the index of the current backend in the chain."""
        return self._chain.index

    @property
    def result(self) -> Result:
        """Return the end of the call.

        Raises:
            IllegalEvent: the call has not ended.
        """
        if self._result is None:
            raise IllegalEvent(f"the call has not ended; it is in state {self.run.state!r}")
        return self._result

    @property
    def is_over(self) -> bool:
        """Tell whether the call has ended."""
        return self._result is not None

    @without_locals
    def begin(self, now: float = 0.0) -> Send | None:
        """Start the call and return the first thing to send; None if the budget allows nothing.

        Arguments:
            now: seconds on any clock that only goes forward.

        Raises:
            IllegalEvent: the call has begun already.
        """
        if self._origin is not None:
            raise IllegalEvent("the call has begun already")
        if not isinstance(now, (int, float)):
            raise ConfigurationError(f"now must be seconds, a number, not {type(now).__name__}")
        self._origin = now
        while (problem := self.link.problem) is not None:
            self._record(Row("skipped", self.run.state, None, self.run.state), None, note=problem)
            self._chain.move_to(self.backend + 1)
        return self._propose(0.0)

    @without_locals
    def sending(self, now: float | None = None) -> bool:
        """Say that the wait is over and the request goes out now; False if it can no longer be afforded.

        A driver that does not call this is taken to have sent at once.
        """
        self._pass_time(now)
        send = self._send
        if self._result is not None or send is None:
            return False
        if send.needs_compaction:  # nobody has shortened anything
            self._compose(send)
        lacking = self.spending.lacking(self.run.attempts, 0.0, send.max_tokens)
        if lacking is not None:
            self._run_out(lacking)
            return False
        self._send = None
        row = self.run.fire("sent")
        self._record(row, None, cap=send.max_tokens)
        return True

    @without_locals
    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight and return what the consumer may be shown.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither text nor reasoning.
        """
        if not isinstance(delta, (Text, Reasoning)):
            raise ConfigurationError(f"delta must be Text or Reasoning, not {type(delta).__name__}")
        if self._delivery is None:
            self._ensure_sent()
            attempt = self._attempt
            assert attempt is not None
            self._delivery = Delivery(attempt.composed, self._transcript.gathered, attempt.echoes)
        return self._delivery.feed(delta)

    @without_locals
    def receive(self, reply: Reply | Failure, now: float | None = None) -> Send | None:
        """Take what came back and return the next thing to send; None when the call has ended.

        Arguments:
            reply: a reply, or why there is none.
            now: the time; left out, the wait took as long as it should and the attempt no time.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither a reply nor a failure.
        """
        if not isinstance(reply, (Reply, Failure)):
            raise ConfigurationError(f"reply must be a Reply or a Failure, not {type(reply).__name__}")
        self._ensure_sent()
        self._pass_time(now)
        return self._advance(self._observe(reply))

    @without_locals
    def take(self, heard: Heard, now: float) -> Send | None:
        """Take what was observed before, as a replay does, and return the next thing to send."""
        self._ensure_sent()
        self._pass_time(now)
        self._gather(heard)
        return self._advance(heard)

    @without_locals
    def compacted(self, messages: Sequence[Any]) -> Send:
        """Take what the compactor made of the messages and return the send that was waiting for it.

        Raises:
            IllegalEvent: no send waits for a compaction.
            ConfigurationError: these are no messages.
        """
        send = self._send
        if send is None or not send.needs_compaction:
            raise IllegalEvent("no send waits for a compaction")
        self._transcript.messages, self._base = Request(messages).messages, None
        self._compose(send)
        return send

    def cancel(self, now: float | None = None, partial: Reply | None = None, *, delivered: str | None = None) -> Result:
        """End the call; what was delivered stays in the result. A call that has ended is left as it is.

        Arguments:
            partial: what had arrived of the reply in flight: its tokens are counted, and its text is kept.
            delivered: the text that is kept, for a replay, which has been read already.
        """
        row = self.run.row
        if self._result is None and row is not None and row.target in self.policy.table.outcomes:
            # An observer was interrupted on the very last step: the call had ended by then.
            self._settle(
                row, cause_of(self.policy.table, row, self._last.evidence if self._last else Evidence(row.event))
            )
        if self._result is None:
            if self._origin is None:
                self._origin = now or 0.0
            self._pass_time(now)
            usage = partial.usage if partial is not None else NO_USAGE
            if delivered is None:
                if self._attempt is not None and self._send is None:  # it is in flight
                    usage, _ = self._counted(usage, partial, None, self._attempt, was_cancelled=True)
                delivered = self._arrived(partial)
            self._send = None
            if delivered:
                self._transcript.gather(delivered, delivered)
                self._shown, self._delivery = self._shown + self._delivered, None
            evidence = Evidence("cancelled", usage=usage)
            evidence.content = {"delivered": delivered} if self.contents else None
            self.spending.pay(evidence.usage, self.link.prices)
            row = self.run.fire("cancelled")
            self._record(row, evidence)
            self._settle(row, cause_of(self.policy.table, row, evidence))
        return self.result

    def drain(self) -> list[StreamEvent]:
        """Return what a consumer of the stream must be given now, and forget it."""
        events, self._outbox = self._outbox, []
        return events

    # what happens inside

    @property
    def _delivered(self) -> str:
        return self._delivery.delivered if self._delivery is not None else ""

    def _arrived(self, partial: Reply | None) -> str:
        """Return the visible text of a reply in flight."""
        if partial is None or self.is_streaming:
            return self._delivered
        composed = self._attempt.composed if self._attempt is not None else Composed(())
        parted = part_thinking(
            partial.text, composed.before, after_block=composed.after_block, is_new_turn=composed.is_new_turn
        )
        return parted.visible

    def _pass_time(self, now: float | None) -> None:
        if self._origin is None:
            raise IllegalEvent("the call has not begun")
        if now is None:
            return
        try:
            self.spending.elapsed = max(self.spending.elapsed, now - self._origin)
        except TypeError:
            raise ConfigurationError(f"now must be seconds, a number, not {type(now).__name__}") from None

    def _ensure_sent(self) -> None:
        send = self._send
        if send is not None:
            self.spending.elapsed += send.wait
            self.sending()
        if self._result is not None or self._attempt is None:
            raise IllegalEvent(f"nothing is in flight in state {self.run.state!r}")

    def _observe(self, reply: Reply | Failure) -> Heard:
        if self._delivery is not None:
            self._outbox.extend(self._delivery.close())
        delivered = self._delivered
        attempt = self._attempt
        assert attempt is not None
        if isinstance(reply, Failure) and not is_blank(delivered):
            heard = observe_cut(delivered, reply, attempt, self._transcript)
        elif isinstance(reply, Failure):
            heard = observe_failure(reply, attempt, self._transcript, self.backend)
        else:
            heard = observe_reply(reply, attempt, self._transcript, self.request, self.backend)
        heard.delivered = delivered
        came = reply if isinstance(reply, Reply) else heard.reply
        heard.evidence.usage, overran = self._counted(heard.evidence.usage, came, heard.failure, attempt)
        self._gather(heard)
        if heard.evidence.event not in self.run.machine.unguarded:
            self._find_facts(heard, overran=overran)
        elif overran:
            heard.evidence.facts = ("overran",)
        if self.contents:
            heard.evidence.content = contents_of(heard, self.turn)
        return heard

    def _gather(self, heard: Heard) -> None:
        transcript = self._transcript
        if heard.unsays:
            if self.is_streaming:
                self._outbox.append(Reasoning(transcript.gathered))
            transcript.unsay()
        if heard.part:
            cap = self._attempt.cap if self._attempt is not None else None
            transcript.gather(heard.part, heard.new, cap, thinks_inline=heard.cue.thinks_inline)
        elif not transcript.gathered:
            transcript.spare = max(transcript.spare, heard.spare, key=len)

    def _counted(
        self,
        usage: Usage,
        reply: Reply | None,
        failure: Failure | None,
        attempt: Attempt,
        *,
        was_cancelled: bool = False,
    ) -> tuple[Usage, bool]:
        """Count what the provider did not, and tell whether the reply is longer than what was reserved for it."""
        reserves = self._transcript.needs_cap
        if not reserves and self.link.prices is None:
            return usage, False
        silence, overran = attempt.cap, False
        if silence is not None and self.request.max_tokens is None and self.link.max_tokens is None:
            silence = min(silence, self.policy.base_cap)  # one silence does not use up a budget that nobody split
        if reply is not None:
            is_free = was_cancelled or (failure is not None and not may_be_billed(failure))
            usage, overran = measured(usage, reply, attempt.cap, None if is_free else silence)
        if not usage.input_tokens:
            nothing = failure if reply is None else None
            usage = self.spending.charge(usage, nothing, silence, lambda: self._count(attempt.composed))
        return usage, overran and reserves

    def _count(self, composed: Composed) -> int:
        """Return the tokens of a prompt: by the caller's own count as far as it goes, else by an estimate."""
        if self.prompts is not None:
            return next(self.prompts, 0)
        if self._base is None:
            self._base = self._count_base()
        added = composed.added_tokens
        if self._transcript.restore_reasoning:
            added += STAND_IN_TOKENS * sum(message.get("role") == "assistant" for message in composed.messages)
        return self._base + added

    def _count_base(self) -> int:
        """Return the tokens of the caller's messages and tools, also of those that a compactor has made."""
        request, messages = self.request, self._transcript.messages
        known = request.messages
        if request.input_tokens is not None and messages[: len(known)] == known:  # a compactor may have added to them
            return request.input_tokens + (self.estimate(messages[len(known) :]) if len(messages) > len(known) else 0)
        own = getattr(self.link, "parameters", ())  # a backend may send tools or a schema of its own
        return sum(map(self.estimate, (messages, request.tools, request.parameters, own)))

    def _find_facts(self, heard: Heard, *, overran: bool) -> None:
        evidence, previous = heard.evidence, self._last
        if evidence.reason is not None and not (heard.failure is not None and heard.failure.is_stale):
            alike = self._alike = self._alike or {}
            alike[evidence.reason] = alike.get(evidence.reason, 0) + 1
        facts = facts_of(
            heard,
            self._transcript,
            self.policy,
            self.turn,
            wait_fits=self._fits(evidence.asked_wait),
            failures_alike=(self._alike or {}).get(evidence.reason or "", 0),
            same_empty_again=self.policy.skip_identical_empties and _same_empty(heard, previous),
            has_compactor=self.has_compactor,
            has_next_backend=self._chain.next_usable() is not None,
            asks_for_little=self._asks_for_little,
            overran=overran,
        )
        evidence.facts = tuple(name for name, held in facts.items() if held)

    def _advance(self, heard: Heard) -> Send | None:
        """Fire the event and go where the table leads."""
        evidence = heard.evidence
        self.spending.pay(evidence.usage, self.link.prices)
        if "overran" in evidence.facts and self._attempt is not None:
            self.spending.overran = self._attempt.cap
        self._last = heard
        if heard.failure is not None:
            self._failures = {**(self._failures or {}), self.backend: heard.failure}
        row = self.run.fire(evidence.event, evidence.facts)
        self._attempt = None
        if row.target in self.policy.table.outcomes:
            if row.target in _LAST_RESORTS and self._chain.next_usable() is None:
                self._skip(None, row.source)
            self._record(row, evidence)
            self._settle(row, cause_of(self.policy.table, row, evidence))
            return None
        wait = self._wait(heard)
        self._record(row, evidence, wait=wait, draw=self._draw)
        rung = self.policy.table.rung(row.target)
        assert rung is not None
        self._transcript.prepare(rung, heard.cue)
        if row.target == "fallback":
            self._move_on()
        if self.is_streaming:
            self._correct(self._transcript.gathered)
        self._delivery = None
        return self._propose(wait)

    def _fits(self, asked: float | None) -> bool:
        return asked is None or (asked <= self.policy.waits.longest_asked and self.spending.allows_wait(asked))

    def _wait(self, heard: Heard) -> float:
        self._draw, evidence, rung = None, heard.evidence, self.policy.table.rung(self.run.state)
        assert rung is not None
        asked = evidence.asked_wait is not None and keeps_asked_wait(evidence.event, rung.name)
        if rung.at_once_on in evidence.facts and not asked:
            return 0.0
        if is_drawn(rung, evidence.event, evidence.asked_wait):
            self._draw = min(1.0, max(0.0, self.jitter()))
        number = self.run.spent_of(rung.counter)
        return wait_of(self.policy.waits, rung, number, evidence.event, heard.failure, self._draw or 0.0)

    def _move_on(self) -> None:
        """Take the next usable backend of the chain; what is passed over goes into the journal."""
        following = self._chain.next_usable()
        assert following is not None
        self._skip(following, self.run.state)
        self._chain.move_to(following)
        self._alike = self._base = None

    def _skip(self, following: int | None, state: str) -> None:
        for link, why in self._chain.passed_over(following):
            self._record(Row("skipped", state, None, state), None, backend=link.name, note=why)

    # what goes out

    @property
    def _asks_for_little(self) -> bool:
        asked = self.request.max_tokens or self.link.max_tokens
        return asked is not None and asked <= self.policy.handful

    def _compose(self, send: Send) -> None:
        """Put together what goes out: the messages, and the cap that the budget has for them."""
        link, transcript, request = self.link, self._transcript, self.request
        prefills = link.prefills and self.backend not in transcript.without_prefill
        composed = Composed(transcript.messages) if transcript.is_plain else transcript.compose(prefills)
        self._prompt = self._count(composed) if self.policy.budget.money is not None else None
        cap = self.spending.cap(self.policy, sum(map(self.run.spent_of, RAISING)), request, link, self._prompt or 0)
        available = transcript.available_tokens
        if available is not None:
            cap = available if cap is None else min(cap, available)
        if transcript.dropped.issuperset(CAP_PARAMETERS):
            cap = None  # the provider takes it by no name, so none goes out
        asks = expects_json(request.parameters) if request.parameters else None
        attempt = Attempt(
            composed, cap, link.echoes, link.expects_json if asks is None else asks, self._asks_for_little
        )
        self._attempt = attempt
        send.messages, send.max_tokens, send.prefill = composed.messages, cap, composed.prefill
        send.added_tokens, send.needs_compaction = composed.added_tokens, False

    def _propose(self, wait: float) -> Send | None:
        """Return what the rung sends, or None when the budget does not allow it."""
        transcript, seconds = self._transcript, self.policy.budget.seconds
        send = Send(
            self.run.state,
            self.backend,
            wait,
            transcript.messages,
            None,
            self.request,
            dropped=transcript.dropped,
            lower_reasoning=transcript.lower_reasoning,
            portable=transcript.portable,
            restore_reasoning=transcript.restore_reasoning,
            deadline=None if seconds is None else (self._origin or 0.0) + seconds,
            needs_compaction=self.run.state == "compact",
            must_cut=transcript.needs_cap,
            headers=headers_for(self.request, self._chain.links[0], self.link),
        )
        if send.needs_compaction:
            self._prompt = None  # what it will cost is known when the compactor has run
        else:
            self._compose(send)
        lacking = self.spending.lacking(self.run.attempts, wait, send.max_tokens)
        if lacking is not None:
            self._run_out(lacking)
            return None
        self._send = send
        return send

    def _run_out(self, lacking: str) -> None:
        self._send = self._attempt = None
        row = self.run.fire("ran_out")
        self._record(row, None, note=lacking)
        self._settle(row, lacking)

    # the end, and the record

    def _settle(self, row: Row, cause: str | None) -> None:
        text, parts, heard = self._transcript.gathered, self._transcript.parts, self._last
        if self._transcript.spare and row.target not in ("done", "salvaged"):
            text = self._transcript.spare
            parts = (text,)
        reply = heard.reply if heard is not None else None
        if row.target == "salvaged":
            text = self._salvaged(row, text)
            parts = (*parts, text)
        if self.is_streaming:
            self._correct(text)
        handed_out = reply is not None and row.event == "called_tools"
        self.journal.outcome = row.target
        failures = self._failures or {}
        self._result = Result(
            row.target,
            text,
            _final_text(text, reply, parts) if row.target == "done" else text,
            reply.tool_calls if reply is not None and handed_out else (),
            heard.reasoning if heard is not None else "",
            parts,
            self.spending.usage,
            self.spending.cost if self.link.prices is not None else None,
            self.spending.elapsed,
            self.run.attempts,
            self.link.name,
            cause,
            tuple((self.chain[index].name, failures[index]) for index in sorted(failures)),
            reply,
            self.journal,
            self.spending.overran is not None,
        )

    def _salvaged(self, row: Row, gathered: str) -> str:
        if row.effect == "keep_delivered" and self._last is not None:
            return gathered + self._last.delivered
        return split_thinking(self.turn.prior_answer or "")[0]

    def _correct(self, target: str) -> None:
        self._outbox.extend(correction(self._shown + self._delivered, target))
        self._shown = target

    def _record(
        self,
        row: Row,
        evidence: Evidence | None,
        *,
        wait: float = 0.0,
        cap: int | None = None,
        draw: float | None = None,
        backend: str | None = None,
        note: str | None = None,
    ) -> None:
        run, journal = self.run, self.journal
        journal.record(
            row,
            evidence,
            at=self.spending.elapsed,
            spent=tuple(run.spent),
            attempts=run.attempts,
            backend=backend if backend is not None else self.link.name,
            wait=wait,
            cap=cap,
            draw=draw,
            input_tokens=self._prompt if row.event in ("sent", "ran_out") else None,
            note=note,
        )
        if self.is_streaming:
            self._outbox.append(journal.last)
        if self.observer is not None:
            try:
                self.observer(journal.last)
            except Exception as error:
                logger.warning("the observer raised %s; the call goes on", type(error).__name__)
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", journal.last)


_LAST_RESORTS = frozenset({"partial", "refused", "exhausted", "failed"})
"""The outcomes that a usable backend further down the chain might have prevented."""


def _same_empty(heard: Heard, previous: Heard | None) -> bool:
    """Tell whether two empty replies in a row are alike: same finish, no output tokens."""
    if previous is None or heard.evidence.event != "came_empty" or previous.evidence.event != "came_empty":
        return False
    one, other = heard.evidence, previous.evidence
    return one.stop_raw == other.stop_raw and one.usage.output_tokens == other.usage.output_tokens == 0


def _final_text(text: str, reply: Reply | None, parts: tuple[str, ...]) -> str:
    """Return the last text block; text that was stitched from several parts is one block unless the last was split."""
    if reply is None or reply.final_text is None or (len(parts) > 1 and reply.final_text == reply.text):
        return text
    return split_thinking(reply.final_text)[0]

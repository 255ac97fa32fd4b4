"""One model call: the sans-IO core that a driver asks what to send next.

    call = Call(request, policy)
    send = call.begin()
    while send is not None:
        send = call.receive(reply)
    call.result

The call never sleeps, sends, reads a clock or draws a random number: the driver passes the time and
the jitter in. Each round observes what came back (`run/observe.py`), fires the event with its facts
(`run/facts.py`, `run/context.py`), records the step (`run/recording.py`), and proposes the next
send (`run/sending.py`) or settles the call (`run/outcome.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.clocks.silence import AttemptClocks, clocks_of
from rungwise.fsm.call.conversation.observation import Finding, Judged, Observation, Verdict
from rungwise.fsm.call.conversation.reading import TextWatch
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.rounds import CallRounds
from rungwise.fsm.call.run.cancelled import observe_cancel
from rungwise.fsm.call.run.delivery import StreamEvent, check_delta
from rungwise.fsm.call.run.facts import own_facts_of
from rungwise.fsm.call.run.judging import with_finding
from rungwise.fsm.call.run.recording import Follower
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.run.sending import UNSHORTENED, Needs
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text


class Call(CallRounds):
    """Run one model call through the machine.

    Arguments:
        request: what the caller asks.
        policy: how the call may recover, and its budget; None for `rungwise.Policy()`.
        chain: the backends in order; the core needs their names and capabilities only. None for a
            single one.
        turn: what the call cannot see of the turn around it, if there is one.
        jitter: returns a number from 0 to 1 for each wait; the default returns 0.
        observer: called with each step as it happens; what it raises is logged and goes no further.
        contents: whether the journal may hold texts and tool calls.
        has_compactor: whether the driver can shorten messages that do not fit.
        is_streaming: whether the driver passes deltas to `hear` and hands on what `drain` returns.
        estimate: counts the input tokens of messages or tools if the request does not; None counts
            by length.
        prompts: the tokens of each prompt from a recorded journal, for a replay; None counts them.
        within: a budget shared with other calls, beside the call's own; the driver must then call
            `sending`.
        deadline: when the call must have ended, on the driver's clock, beside the seconds of its
            budget.
        lessons: what was remembered of each backend, for a replay; None asks each backend for its
            `lessons` once, now.
        returns: what the answer must be: a type that pydantic can read, or a JSON schema.
        verdict: one function or several that judge each reply; the driver calls them, see
            `judging`.

    Raises:
        ConfigurationError: no backend of the chain is usable, or a budget names money and a backend
            has no prices.
    """

    __slots__ = ()

    @property
    def link(self) -> Link:
        """Return the current backend."""
        return self._context.chain.link

    @property
    def backend(self) -> int:
        """Return the index of the current backend in the chain."""
        return self._context.chain.index

    @property
    def place(self) -> tuple[int, int]:
        """Return the indices of the current backend and of its key."""
        chain = self._context.chain
        return chain.index, chain.key

    @property
    def returns(self) -> Any:
        """Return the schema of the answer; None for any."""
        return self._context.judge.returns

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return the functions that judge its replies."""
        return self._context.judge.verdicts

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers by which the observer follows the attempt in flight."""
        observer = self._recorder.observer
        return observer.headers if isinstance(observer, Follower) else {}

    @property
    def is_over(self) -> bool:
        """Tell whether the call has ended."""
        return self._outcome.result is not None

    @property
    def last(self) -> Observation | None:
        """Return what came back last, if anything did."""
        return self._outcome.last

    @property
    def result(self) -> Result:
        """Return the end of the call.

        Raises:
            IllegalEvent: the call has not ended.
        """
        if self._outcome.result is None:
            raise IllegalEvent(f"the call has not ended; it is in state {self.position.state!r}")
        return self._outcome.result

    def begin(self, now: float = 0.0, throttle: RetryThrottle | None = None) -> Send | None:
        """Start the call and return the first thing to send; None if the budget allows nothing.

        Arguments:
            now: seconds on any clock that only goes forward.
            throttle: what the retries of many calls are drawn from; None for no limit.

        Raises:
            IllegalEvent: the call has begun already.
        """
        spending = self.spending
        chain = self._context.chain
        spending.begin(now)
        self._context.retries = None if throttle is None else throttle.begin()
        if spending.share is not None:
            spending.share.shared.begin(now)
        self.journal.setting.note_deadline(spending)
        if not chain.is_at_end:
            chain.learn(self.journal.setting.lessons)
        self._recorder.skip(self.position.state, chain.leave_unusable())
        self._context.apply_lessons()
        return self._sender.propose(0.0)

    def reserve(self, wake: Callable[[], None], now: float | None = None) -> bool:
        """Reserve what the proposed send may use of a shared budget. Return whether it may go out
        now.

        Otherwise other calls hold what it needs, and it waits for them in turn: call `sending` when
        `wake` is called, or when the time is up.

        Arguments:
            wake: called, in any thread, when there is nothing to wait for any more.
            now: the time, as for `sending`.
        """
        self.spending.pass_time(now)
        return self._sender.reserve(wake)

    @property
    def arrivals(self) -> tuple[tuple[int, int], ...]:
        """Return where the proposed send may go, each a backend and one of its keys, by index: the
        current one first.

        Whoever remembers their health chooses one, leaves each backend before it with `found_open`,
        and says `arrive` there. It is empty where the call has used its key there before: its own
        retries ask nobody.
        """
        return self._sender.arrivals

    def needs(self) -> Needs:
        """Return what the proposed send needs of the quota of its backend.

        Raises:
            IllegalEvent: nothing waits to be sent.
        """
        return self._sender.needs()

    def found_open(
        self, why: str, now: float | None = None, *, has_text: bool | None = None
    ) -> Send | None:
        """Leave the current backend, which is not to be asked now, and return what another is sent;
        None at the end.

        Arguments:
            why: the reason, for the journal.
            now: the time, as for `sending`.
            has_text: whether text of an answer has come, where nobody has kept it; None for what
                the call holds.

        Raises:
            IllegalEvent: nothing waits to be sent.
        """
        self.spending.pass_time(now)
        return self._sender.found_open(why, has_text=has_text)

    def arrive(self, keys: Sequence[int] = (0,), *, is_probe: bool) -> None:
        """Note that the current backend may be asked.

        Arguments:
            keys: the indices of the keys that may be used, the first of them now.
            is_probe: whether it was not asked for a while: if the attempt fails, the call leaves it
                at once.
        """
        self._sender.arrive(keys, is_probe=is_probe)

    def sending(self, now: float | None = None, waited: float = 0.0) -> Send | None:
        """Note that the wait is over, and return what goes out now; None if it can no longer be
        afforded.

        A driver that does not call this is taken to have sent at once. Under a shared budget it
        must, and send what this returns, which may have a smaller cap. What other calls hold
        meanwhile cannot be afforded; see `reserve`.

        Arguments:
            now: the time.
            waited: the seconds that the quota of the backend took of it, for the journal.
        """
        self.spending.pass_time(now)
        return self._sender.send_out(waited)

    def clocks(self, *, streams: bool = True) -> AttemptClocks:
        """Return the clocks of the attempt in flight, for a driver that keeps them; only in streams
        silence counts.

        Raises:
            IllegalEvent: nothing is in flight.
        """
        return clocks_of(self._context, self._sender.ensure_sent(), self._facts, streams=streams)

    def text_watch(self) -> TextWatch:
        """Return what detects the first visible text of the attempt in flight; see
        `AttemptClocks`.

        Raises:
            IllegalEvent: nothing is in flight.
        """
        return TextWatch(
            self._sender.ensure_sent().reading, self._context.transcript.answer.gathered
        )

    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight and return what the consumer may be shown.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither text nor reasoning.
        """
        check_delta(delta)
        return self._delivery.feed(
            delta, self._sender.ensure_sent().reading, self._context.transcript.answer.gathered
        )

    def drain(self) -> list[StreamEvent]:
        """Return what a consumer of the stream must be given now, and forget it."""
        return self._delivery.drain()

    def settle(self, reply: Reply | Failure) -> Observation:
        """Pay the shared budgets for what came back, and return what it shows before anybody judges
        it.

        A driver calls this as soon as a reply is in, and then gives back what else the attempt
        held: a check of the caller's may make calls that need it. `receive` does it otherwise.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither a reply nor a failure.
        """
        observation = self._reader.observe(reply, self._sender)
        failure = observation.failure
        if failure is None or failure.generation is None:
            self._settle(observation)
        return observation

    def judging(self, reply: Reply | Failure) -> Judged | None:
        """Read what came back, and return what verdicts must judge; None for nothing.

        A driver calls this before `receive`, calls the verdicts, and passes on what they found.
        Without verdicts of the caller's it need not: schemas and tool calls are checked anyway.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither a reply nor a failure.
        """
        self._reader.observe(reply, self._sender)
        gathered = self._context.transcript.answer.gathered
        return self._context.judge.judged(self._reader.checked(), gathered)

    def receive(
        self, reply: Reply | Failure, now: float | None = None, finding: Finding | None = None
    ) -> Send | None:
        """Take what came back and return the next thing to send; None when the call has ended.

        Arguments:
            reply: a reply, or why there is none.
            now: the time; without it, the wait took as long as planned and the attempt no time.
            finding: what the verdicts have found of the reply; None for nothing.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither a reply nor a failure, or a fact of your own is no
                bool or raises; the call is as it was.
        """
        self.settle(reply)
        observation = self._reader.checked()
        proposal = self._sender.in_flight
        gathered = self._context.transcript.answer.gathered
        assert proposal is not None  # or nothing could have been read
        self.spending.pass_time(now)
        if finding is not None and observation.is_answer:
            observation = with_finding(observation, finding, gathered)
        own_facts = own_facts_of(self.position.table, observation, gathered)
        self._reader.forget()
        self._gather(observation)
        return self._advance(
            observation, self._facts.find(observation, self._outcome.last, proposal) + own_facts
        )

    def observed(self, observation: Observation, facts: tuple[str, ...], now: float) -> Send | None:
        """Take a recorded observation with the facts that held, as a replay does. Return the next
        thing to send.
        """
        if observation.event != "cancelled":
            self._sender.ensure_sent()
        self.spending.pass_time(now)
        self._gather(observation)
        return self._advance(observation, facts)

    def settled_facts(self, observation: Observation, *, adds_text: bool) -> Mapping[str, bool]:
        """Count what came back, and whether it added text; return the facts that follow from the
        policy and the counts.

        A replay under another policy needs these; it passes the same observation to `observed`
        next.
        """
        return self._facts.settled(
            observation, self._outcome.last, self._sender.ensure_sent(), adds_text=adds_text
        )

    def compacted(self, messages: Sequence[Any], now: float | None = None) -> Send | None:
        """Take the messages as the compactor has shortened them and return the send that was
        waiting for it.

        If nothing was left out, or the rest of the budget does not cover it, the call asks another
        backend, or ends and returns None.

        Arguments:
            now: the time; without it, the compactor took none.

        Raises:
            IllegalEvent: no send waits for a compaction.
            ConfigurationError: these are no messages.
        """
        if not self._sender.waits_for_compaction:
            raise IllegalEvent("no send waits for a compaction")
        is_shorter = self._context.transcript.shorten(Request(messages).messages)
        self.spending.pass_time(now)
        return self._sender.compacted() if is_shorter else self._sender.found_open(UNSHORTENED)

    def cancel(self, now: float | None = None, partial: Reply | None = None) -> Result:
        """End the call; what was delivered stays in the result. A call that has ended is left as it
        is.

        Arguments:
            now: the time; without it, none has passed.
            partial: what had arrived of the reply in flight: its tokens are counted, and its text
                is kept.
        """
        if not self.is_over:
            if self.spending.began is None:
                self.spending.begin(now or 0.0)
            self.spending.pass_time(now)
            in_flight = self._sender.in_flight
            delivered = None
            if partial is None or self.is_streaming:
                delivered = self._delivery.delivered
            observation = observe_cancel(
                partial,
                proposal=in_flight or self._sender.proposed,
                is_sent=in_flight is not None,
                counter=self._counter,
                delivered=delivered,
            )
            self._gather(observation)
            self._advance(observation, ())
        return self.result

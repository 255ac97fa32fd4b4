"""The tape of a call: what it was told, and how it is told so again.

The theory stands in `recorded.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from attrs import evolve

from rungwise.adapters.durable.forms import (
    Plain,
    plain_finding,
    plain_reply,
    read_finding,
    read_reply,
)
from rungwise.adapters.durable.recorded import Entry, Recorded
from rungwise.fsm.analysis.replay.calls import recorded_budget
from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.conversation.observation import Finding, Observation
from rungwise.fsm.call.conversation.plain import stored
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.play import partial_reply
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import REATTACH
from rungwise.fsm.errors import JournalMismatch
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage

CRASHED: Final = Failure("crashed")
"""What is known of an attempt that was in flight when its process ended."""


class SharedDecision(NamedTuple):
    """What a step says of the decisions of a shared budget, which depend on other calls.

    The members are those of a `Step`.
    """

    event: str
    at: float
    input_tokens: int | None
    cap: int | None
    note: str | None
    facts: Sequence[str]

    @classmethod
    def of(cls, step: Any) -> SharedDecision:
        """Return what a step says."""
        return cls(*[getattr(step, name) for name in cls._fields])


class RecordedCall(Recorded, Call):
    """A call that records what it is told. The arguments are those of `Call`."""

    __slots__ = (
        "_decided",
        "_draws",
        "_held",
        "_is_restored",
        "_own_jitter",
        "_repeated",
        "_retold",
        "_waiting",
        "generation",
        "heard",
        "sent",
        "tape",
    )

    def __init__(
        self, request: Request, *args: Any, jitter: Callable[[], float], **kwargs: Any
    ) -> None:
        self.tape: list[Entry] = []
        self._is_restored = False
        self._waiting: Send | None = None  # what it waits to send, once it was restored
        self._draws: list[float] = []  # those of the last reply
        self._held: tuple[str, ...] = ()  # the facts that held then
        self._own_jitter = jitter
        self._retold: Entry | None = None  # the entry that the call is being told again
        self.sent: Send | None = None  # what went out last
        # The id under which the provider goes on with the reply in flight and keeps it, if it does.
        self.generation: str | None = None
        self.heard: list[Text | Reasoning] = []  # of the reply in flight, if the call streams
        # The letters of each kind that another process was told, and that come again.
        self._repeated: dict[type, int] = {Text: 0, Reasoning: 0}
        # how many of its steps are on the tape, for what a shared budget has decided
        self._decided = 0
        super().__init__(request, *args, jitter=self._draw, **kwargs)

    def restore(self, tape: Iterable[Entry]) -> None:
        """Tell a new call what is on a tape; see `Recorded`."""
        super().restore(tape)
        self.drain()  # which another process has handed on

    @staticmethod
    def setting_of(tape: Sequence[Entry]) -> Plain:
        """Return the arguments that a call had which began as a tape says."""
        lessons = [Lessons.from_mapping(each, "lessons") for each in tape[0]["lessons"]]
        return {"deadline": tape[0]["deadline"], "lessons": lessons or None}

    @staticmethod
    def within_of(tape: Sequence[Entry], within: SharedBudget) -> SharedBudget:
        """Return a budget that grants a call what a shared budget granted it then.

        Arguments:
            tape: of the call; the times of its decisions count from its beginning.
            within: the shared budget, for its ceilings.
        """
        began = tape[0]["now"]
        decided: Any = []
        for entry in tape:
            for values in entry.get("decided", ()):
                decision = SharedDecision(*values)
                decided.append(decision._replace(at=began + decision.at))
        recorded = recorded_budget(within.budgets, tuple(decided), None)
        assert recorded is not None
        return recorded

    def go_on_within(self, within: SharedBudget) -> None:
        """Draw on a shared budget again, once the call was restored."""
        self.spending.share = within.share()
        self._decided = self.journal.size  # what that decided so far is on the tape

    @property
    def spent(self) -> Plain:
        """Return what is spent of its budget; an attempt in flight counts as if it were cut off
        now.
        """
        spending = self.spending
        in_flight = self._sender.in_flight
        prices = self.link.prices
        tokens = spending.charged_tokens
        money = spending.charged_money
        if in_flight is not None:
            usage, _ = self._counter.usage_of(in_flight, None, CRASHED)
            tokens += usage.output_tokens
            if prices:
                money += price_of(usage, prices)
        return {
            "attempts": self.position.attempts,
            "seconds": spending.elapsed,
            "output_tokens": tokens,
            "money": as_money(money),
        }

    def begin(self, now: float = 0.0, throttle: RetryThrottle | None = None) -> Send | None:
        """Start the call, or go on with one that was restored; see `Call`."""
        if self._is_restored:
            return self._waiting
        send = super().begin(now, throttle)
        self._note(
            "begin",
            now,
            started=self.journal.started,
            deadline=self.spending.given_deadline,
            lessons=[each.to_mapping() for each in self.journal.setting.lessons],
        )
        return send

    def resume(
        self,
        now: float,
        deadline: float | None,
        gone: float,
    ) -> None:
        """Go on with a call that was restored. If an attempt was in flight, it was cut off.

        Arguments:
            now: seconds on the clock of this process.
            deadline: when the call must have ended, on the same clock; None for no deadline.
            gone: the seconds since the last record, in which a wait has gone on.
        """
        if not self._is_restored:  # it has not begun
            return
        self.spending.given_deadline = deadline
        self._note("resume", now, deadline=deadline)
        for delta in self.heard:
            self._repeated[_kind_of(delta)] += len(delta.text)
        if self._sender.in_flight is not None:
            self._waiting = self.receive(self._cut_off(), now)
        elif self._waiting is not None:
            self._waiting = evolve(self._waiting, wait=max(self._waiting.wait - gone, 0.0))

    def found_open(
        self, why: str, now: float | None = None, *, has_text: bool | None = None
    ) -> Send | None:
        """Leave a backend; see `Call`."""
        send = super().found_open(why, now, has_text=has_text)
        self._note("open", now, why=why)
        return send

    def arrive(self, keys: Sequence[int] = (0,), *, is_probe: bool) -> None:
        """Note that the backend may be asked; see `Call`."""
        super().arrive(keys, is_probe=is_probe)
        self._note("arrive", None, keys=list(keys), is_probe=is_probe)

    def sending(self, now: float | None = None, waited: float = 0.0) -> Send | None:
        """Let what waits go out; see `Call`."""
        send = super().sending(now, waited)
        self._note("send", now, waited=waited, sent=_sent(send))
        self._go_out(send)
        return send

    def _go_out(self, send: Send | None) -> None:
        """Note what goes out. Unless it fetches the rest of the last reply, it begins another."""
        self.sent = send
        if send is None or send.rung != REATTACH.name:
            self.generation = None
            self.heard = []
            self._repeated = {Text: 0, Reasoning: 0}

    def keep(self, generation: str | None) -> None:
        """Take the id under which the provider goes on with the reply in flight."""
        self.generation = generation
        self._note("keep", None, generation=generation)

    def _cut_off(self) -> Reply | Failure:
        """Return what came of the attempt in flight when its process ended: the text that was kept
        goes on.
        """
        crashed = evolve(CRASHED, generation=self.generation)
        heard = partial_reply(self.heard)
        if heard is None:
            return crashed
        return evolve(heard, failure=crashed, usage=Usage(lost=True))

    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight, less what another process was told of it; see
        `Call`.
        """
        kind = _kind_of(delta)
        repeated = self._repeated[kind]
        if repeated:
            self._repeated[kind] = max(0, repeated - len(delta.text))
            delta = evolve(delta, text=delta.text[repeated:])
            if not delta.text:
                return ()
        events = super().hear(delta)
        self.heard.append(delta)
        self._note("hear", None, text=delta.text, is_reasoning=kind is Reasoning)
        return events

    def receive(
        self,
        reply: Reply | Failure,
        now: float | None = None,
        finding: Finding | None = None,
    ) -> Send | None:
        """Take what came back; see `Call`."""
        self._draws = []
        first = self.journal.first_token
        send = super().receive(reply, now, finding)
        self.generation = _generation_of(reply)
        self._note(
            "receive",
            now,
            reply=plain_reply(reply),
            finding=plain_finding(finding),
            first=first,
            facts=list(self._held),
            draws=self._draws,
        )
        return send

    def compacted(self, messages: Sequence[Any], now: float | None = None) -> Send | None:
        """Take the messages of the compactor; see `Call`."""
        send = super().compacted(messages, now)
        plain = [stored(message) for message in Request(messages).messages]
        self._note("compact", now, messages=plain)
        return send

    def cancel(self, now: float | None = None, partial: Reply | None = None) -> Result:
        """End the call; see `Call`."""
        was_over = self.is_over
        result = super().cancel(now, partial)
        if not was_over:
            reply = None if partial is None else plain_reply(partial)
            self._note("cancel", now, reply=reply)
        return result

    def _note(self, did: str, now: float | None, **values: Any) -> None:
        share = self.spending.share
        if share is not None and share.is_stored:
            steps = self.journal.steps_from(self._decided + 1)
            self._decided += len(steps)
            values["decided"] = [list(SharedDecision.of(step)) for step in steps]
        super()._note(did, now, **values)

    def _draw(self) -> float:
        if self._retold is not None:
            number: float = self._retold["draws"].pop(0)
            return number
        self._draws.append(self._own_jitter())
        return self._draws[-1]

    def _advance(self, observation: Observation, facts: tuple[str, ...]) -> Send | None:
        self._held = facts if self._retold is None else tuple(self._retold["facts"])
        return super()._advance(observation, self._held)

    def retell(self, entry: Entry) -> None:
        """Tell the call one entry again, without recording that.

        Raises:
            JournalMismatch: the call would send something else.
            ValueError: no call writes such an entry.
        """
        now = entry["now"]
        self._is_restored = True
        match entry["did"]:
            case "begin":
                self.journal.started = entry.get("started")
                self._waiting = super().begin(now)
            case "resume":
                self.spending.given_deadline = entry["deadline"]
            case "open":
                self._waiting = super().found_open(entry["why"], now)
            case "arrive":
                super().arrive(entry["keys"], is_probe=entry["is_probe"])
            case "send":
                self._waiting = super().sending(now, entry["waited"])
                self._check_sent(entry["sent"])
                self._go_out(self._waiting)
            case "keep":
                self.generation = entry["generation"]
            case "hear":
                kind = Reasoning if entry["is_reasoning"] else Text
                delta = kind(entry["text"])
                self.heard.append(delta)
                super().hear(delta)
            case "receive":
                self._waiting = self._receive_again(entry)
            case "compact":
                self._waiting = super().compacted(entry["messages"], now)
            case "cancel":
                self._cancel_again(entry)
                self._waiting = None
            case other:
                raise ValueError(f"no call writes {other!r}")

    def _check_sent(self, recorded: Any) -> None:
        """Raise a JournalMismatch if what waits to be sent is not what was sent."""
        sent = _sent(self._waiting)
        if sent != recorded:
            raise JournalMismatch(
                f"the record says that {recorded} was sent, and now it would be {sent}"
            )

    def _receive_again(self, entry: Entry) -> Send | None:
        """Tell the call what came back, with the draws and facts of then; see `_draw` and
        `_advance`.
        """
        self.journal.first_token = entry.get("first")
        reply = read_reply(entry["reply"])
        finding = read_finding(entry["finding"])
        self.generation = _generation_of(reply)
        self._retold = {"facts": entry["facts"], "draws": list(entry["draws"])}
        try:
            return super().receive(reply, entry["now"], finding)
        finally:
            self._retold = None

    def _cancel_again(self, entry: Entry) -> None:
        """Tell the call that it was cancelled, with what had come of the reply."""
        partial = None
        if entry["reply"] is not None:
            partial = read_reply(entry["reply"])
        super().cancel(entry["now"], partial)  # type: ignore[arg-type]


def _kind_of(delta: Text | Reasoning) -> type[Text] | type[Reasoning]:
    return Reasoning if isinstance(delta, Reasoning) else Text


def _generation_of(reply: Reply | Failure) -> str | None:
    """Return the id of a reply that broke off and goes on at its provider; None for any other."""
    failure = reply if isinstance(reply, Failure) else reply.failure
    return None if failure is None else failure.generation


def _sent(send: Send | None) -> Any:
    """Return what a tape holds of a send, to be compared."""
    return None if send is None else [send.rung, send.backend, send.key, send.max_tokens]

"""What a call was told, recorded so that another process can take the call to where it was.

The core is pure: a call that is told the same again is in the same state again. So the record of a
call, its tape, is the list of what its driver told it, each entry with the time. What the driver
drew or found out beside that (jitter, facts that depend on other calls) is recorded with it. Two
things follow. Nothing is decided anew after a crash. And an attempt whose end is not on the tape
was cut off by a crash, for an attempt is recorded before it is sent: the call is told so once, as
`crashed`, which is charged like any attempt that nobody heard of again. It counts as an attempt, so
what the certificate says holds over any number of crashes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from rungwise.fsm.analysis.replay.calls import recorded_budget
from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.conversation.observation import Finding, Observation
from rungwise.fsm.call.conversation.plain import stored
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.recording import Observer, silent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import JournalMismatch
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage

CRASHED: Final = Failure("crashed")
"""What is known of an attempt that was in flight when its process ended."""

Entry = Plain
"""One thing that a call was told: `did` names the method, `now` is the time on the clock of the
call.
"""


class SharedDecision(NamedTuple):
    """What a step says of the decisions of a shared budget, which depend on other calls; see
    `Step`.
    """

    event: str
    at: float
    input_tokens: int | None
    cap: int | None
    note: str | None
    facts: Sequence[str]


class Recorded(ABC):
    """A call or a turn that records what it is told."""

    __slots__ = ()

    tape: list[Entry]
    _recorder: Any

    def restore(self, tape: Iterable[Entry]) -> None:
        """Tell a new one what is on a tape; a JournalMismatch if it does not do that again."""
        # another process has told it of all this
        observer, self._recorder.observer = self._recorder.observer, silent
        for number, entry in enumerate(tape, start=1):
            try:
                self.retell(entry)
            except JournalMismatch:
                raise
            except Exception as error:
                what = (
                    f"entry {number} ({entry.get('did')!r}) of its record is not what this "
                    f"call can be told"
                )
                raise JournalMismatch(f"{what}: {type(error).__name__}") from error
            self.tape.append(entry)
        self._recorder.observer = observer

    def observe(self, observer: Observer | None) -> None:
        """Call an observer with each step from now on, or nobody."""
        self._recorder.observer = observer

    @abstractmethod
    def retell(self, entry: Entry) -> None:
        """Tell it one entry again, without recording that."""

    def _note(self, did: str, now: float | None, **values: Any) -> None:
        self.tape.append({"did": did, "now": now, **values})


class RecordedCall(Recorded, Call):
    """A call that records what it is told. The arguments are those of `Call`."""

    __slots__ = (
        "_decided",
        "_draws",
        "_held",
        "_is_restored",
        "_own_jitter",
        "_retold",
        "_waiting",
        "heard",
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
        self.heard: list[Text | Reasoning] = []  # of the attempt in flight, if the call streams
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
        """Return what grants a call, as it is told its tape, what a shared budget has granted
        it.
        """
        steps = [SharedDecision(*each) for entry in tape for each in entry.get("decided", ())]
        decided: Any = tuple([each._replace(at=tape[0]["now"] + each.at) for each in steps])
        recorded = recorded_budget(within.budgets, decided, None)
        assert recorded is not None
        return recorded

    def go_on_within(self, within: SharedBudget) -> None:
        """Draw on a shared budget again, once the call was restored."""
        self.spending.share, self._decided = within.share(), self.journal.size

    @property
    def spent(self) -> Plain:
        """Return what is spent of its budget; an attempt in flight counts as if it were cut off
        now.
        """
        spending = self.spending
        flying = self._sender.in_flight
        prices = self.link.prices
        tokens = spending.charged_tokens
        money = spending.charged_money
        if flying is not None:
            usage, _ = self._counter.usage_of(flying, None, CRASHED)
            tokens = tokens + usage.output_tokens
            money = money + (price_of(usage, prices) if prices else 0)
        amounts = {"attempts": self.position.attempts, "seconds": spending.elapsed}
        return {**amounts, "output_tokens": tokens, "money": as_money(money)}

    def begin(self, now: float = 0.0, throttle: RetryThrottle | None = None) -> Send | None:
        """Start the call, or go on with one that was restored; see `Call`."""
        if self._is_restored:
            return self._waiting
        send = super().begin(now, throttle)
        lessons = [each.to_mapping() for each in self.journal.setting.lessons]
        begun = {
            "started": self.journal.started,
            "deadline": self.spending.given_deadline,
            "lessons": lessons,
        }
        self._note("begin", now, **begun)
        return send

    def resume(self, now: float, deadline: float | None, gone: float) -> None:
        """Go on with a call that was restored; an attempt in flight was cut off.

        The deadline is on the clock of this process; of a wait the seconds since the last entry are
        `gone`.
        """
        if not self._is_restored:  # it has not begun
            return
        self.spending.given_deadline = deadline
        self._note("resume", now, deadline=deadline)
        if self._sender.in_flight is not None:
            self._waiting = self.receive(self._cut_off(), now)
        elif self._waiting is not None:
            self._waiting = evolve(self._waiting, wait=max(self._waiting.wait - gone, 0.0))

    def found_open(self, why: str, now: float | None = None) -> Send | None:
        """Leave a backend; see `Call`."""
        send = super().found_open(why, now)
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
        return send

    def _cut_off(self) -> Reply | Failure:
        """Return what came of the attempt in flight when its process ended: the text that was kept
        goes on.
        """
        if not self.heard:
            return CRASHED
        text, reasoning = (
            "".join(each.text for each in self.heard if isinstance(each, kind))
            for kind in (Text, Reasoning)
        )
        return Reply(
            text, reasoning=reasoning, interrupted=True, failure=CRASHED, usage=Usage(lost=True)
        )

    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight; see `Call`."""
        events = super().hear(delta)
        self.heard.append(delta)
        self._note("hear", None, text=delta.text, is_reasoning=isinstance(delta, Reasoning))
        return events

    def receive(
        self, reply: Reply | Failure, now: float | None = None, finding: Finding | None = None
    ) -> Send | None:
        """Take what came back; see `Call`."""
        self._draws = []
        self.heard = []
        first = self.journal.first_token
        send = super().receive(reply, now, finding)
        held = {"facts": list(self._held), "draws": self._draws}
        self._note(
            "receive",
            now,
            reply=plain_reply(reply),
            finding=plain_finding(finding),
            first=first,
            **held,
        )
        return send

    def compacted(self, messages: Sequence[Any], now: float | None = None) -> Send | None:
        """Take the messages of the compactor; see `Call`."""
        send = super().compacted(messages, now)
        self._note(
            "compact", now, messages=[stored(message) for message in Request(messages).messages]
        )
        return send

    def cancel(self, now: float | None = None, partial: Reply | None = None) -> Result:
        """End the call; see `Call`."""
        was_over = self.is_over
        result = super().cancel(now, partial)
        if not was_over:
            self._note("cancel", now, reply=None if partial is None else plain_reply(partial))
        return result

    def _note(self, did: str, now: float | None, **values: Any) -> None:
        share = self.spending.share
        if share is not None and share.is_stored:
            steps = self.journal.steps_from(self._decided + 1)
            self._decided += len(steps)
            values["decided"] = [
                [getattr(step, name) for name in SharedDecision._fields] for step in steps
            ]
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
        """Tell the call one entry again, without recording that."""
        did = entry["did"]
        now = entry["now"]
        self._is_restored = True
        if did == "begin":
            self.journal.started = entry.get("started")
            self._waiting = super().begin(now)
        elif did == "open":
            self._waiting = super().found_open(entry["why"], now)
        elif did == "resume":
            self.spending.given_deadline = entry["deadline"]
        elif did == "arrive":
            super().arrive(entry["keys"], is_probe=entry["is_probe"])
        elif did == "send":
            self._waiting = super().sending(now, entry["waited"])
            if (sent := _sent(self._waiting)) != entry["sent"]:
                raise JournalMismatch(
                    f"the record says that {entry['sent']} was sent, and now it would be {sent}"
                )
        elif did == "hear":
            self.heard.append((Reasoning if entry["is_reasoning"] else Text)(entry["text"]))
            super().hear(self.heard[-1])
        elif did == "compact":
            self._waiting = super().compacted(entry["messages"], now)
        elif did == "cancel":
            super().cancel(now, None if entry["reply"] is None else read_reply(entry["reply"]))  # type: ignore[arg-type]
            self._waiting = None
        else:
            self.journal.first_token = entry.get("first")
            self._retold = {"facts": entry["facts"], "draws": [*entry["draws"]]}
            self.heard = []
            try:
                self._waiting = super().receive(
                    read_reply(entry["reply"]), now, read_finding(entry["finding"])
                )
            finally:
                self._retold = None


def _sent(send: Send | None) -> Any:
    """Return what a tape holds of a send, to be compared."""
    return None if send is None else [send.rung, send.backend, send.key, send.max_tokens]

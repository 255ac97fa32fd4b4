"""The journal of a turn with those of its calls, and recording it: its observer, and what the turn
has used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import define, field, frozen

from rungwise.fsm.call.budget.costs import MOST_NAMED
from rungwise.fsm.call.displayable import Displayable
from rungwise.fsm.call.policy_values import from_mapping
from rungwise.fsm.call.run.call_journal import Journal, read_policy
from rungwise.fsm.call.run.recording import Observer, announce
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.forms import FLAG, NUMBER, OBJECT, OBJECTS, Forms, list_of
from rungwise.fsm.engine.journal.record import Evidence, Record, RecordedStep, Step
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.parts import ToolResult
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS
from rungwise.fsm.values.checks import is_flag, is_text
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from rungwise.fsm.engine.journal.digest import Digest


@frozen(kw_only=True)
class TurnStep(Step):
    """Hold one step of a turn; the steps of its calls are plain `Step`s."""


@define(eq=False)
class TurnSetting:
    """Hold the arguments of a turn, without its messages and tools."""

    policy: TurnPolicy
    has_compactor: bool = False
    deadline: float | None = None  # of the caller, in seconds from the start of the turn
    # read: the calls' policy as recorded, with fields of rungs of your own
    recorded: Mapping[str, Any] | None = None


def _is_result(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return list_of(is_text, 3)(value[:3]) and list_of(is_flag, 1)(value[3:])


@define(eq=False, kw_only=True, repr=False)
class TurnJournal(Displayable, Record):
    """Record one turn.

    Arguments:
        setting: the arguments of the turn.
        calls: the journals of its calls, in order.
        table, counters: the name of the table, and the names of its counters.
        contents: whether texts and tool calls are recorded.
        outcome: how the turn ended; None until then.
    """

    forms: ClassVar[Forms] = {
        **Record.forms,
        "policy": OBJECT,
        "has_compactor": FLAG,
        "calls": OBJECTS,
    }
    optional_forms: ClassVar[Forms] = {**Record.optional_forms, "deadline": NUMBER}
    content_forms: ClassVar[Forms] = {
        "results": (
            list_of(_is_result),
            "a list of results, each of which is a list of id, name, text and is_fault",
        ),
        **dict.fromkeys(("ids", "handed_off"), (list_of(is_text), "a list of the ids of calls")),
    }
    step_type: ClassVar[type[Step]] = TurnStep

    setting: TurnSetting
    calls: list[Journal] = field(factory=list)

    def _digest(self) -> Digest | None:
        # loaded when somebody looks at a journal
        from rungwise.fsm.turn.turn_digest import digest_of_turn_journal

        return digest_of_turn_journal(self, self.calls)

    @property
    def made(self) -> int:
        """Count the calls that its steps made; it has a journal for each of them."""
        return sum(step.event == "sent" and step.source in CALLS for step in self.steps)

    def _setting_document(self) -> dict[str, Any]:
        policy = self.setting.policy.to_mapping()
        if self.setting.recorded is not None:
            policy["call"] = self.setting.recorded
        document = {"policy": policy, "has_compactor": self.setting.has_compactor}
        if self.setting.deadline is not None:
            document["deadline"] = self.setting.deadline
        document["calls"] = [call.to_document() for call in self.calls]
        return document

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a record from plain values."""
        record = super().from_document(document)
        if record.made != len(document["calls"]):
            raise ConfigurationError(
                f"it holds {len(document['calls'])} calls, but its steps made {record.made}"
            )
        for number, call in enumerate(document["calls"], start=1):
            try:
                record.calls.append(Journal.from_document(call))
            except ConfigurationError as error:
                raise ConfigurationError(f"call {number}: {error}") from None
        return record

    @classmethod
    def _read_setting(cls, document: Mapping[str, Any]) -> TurnSetting:
        policy, recorded = read_turn_policy(document["policy"])
        return TurnSetting(policy, document["has_compactor"], document.get("deadline"), recorded)


def read_turn_policy(values: Mapping[str, Any]) -> tuple[TurnPolicy, Mapping[str, Any] | None]:
    """Read what `TurnPolicy.to_mapping` wrote, or raise a ConfigurationError; the calls' as
    `read_policy` does.
    """
    if "call" not in values:
        return from_mapping(TurnPolicy, values), None
    limits: Any = ()
    if isinstance(values["call"], Mapping):
        limits = values["call"].get("limits")
    counters = limits if isinstance(limits, Mapping) else ()
    call, recorded = read_policy(values["call"], counters)
    others = {name: value for name, value in values.items() if name != "call"}
    return from_mapping(TurnPolicy, others, call=call), recorded


@define(eq=False)
class Tally:
    """Add up what a turn uses."""

    began: float | None = None
    elapsed: float = 0.0
    usage: Usage = NO_USAGE
    cost: int | None = 0  # of its calls, in units; None once a backend has no prices
    attempts: int = 0
    cost_reported: bool = False
    unpriced: tuple[str, ...] = ()

    @property
    def stated(self) -> dict[str, Any]:
        """Return the fields of a result that say how its cost is known."""
        return {
            "cost_reported": self.cost_reported,
            "unpriced": self.unpriced,
        }

    @property
    def money(self) -> float | None:
        """Return the cost as people read it."""
        return None if self.cost is None else as_money(self.cost)

    @property
    def now(self) -> float:
        """Return the time on the driver's clock."""
        return (self.began or 0.0) + self.elapsed

    def begin(self, now: float) -> None:
        """Start the clock of the turn."""
        if self.began is not None:
            raise IllegalEvent("the turn has begun already")
        self.began = now

    def pass_time(self, now: float | None, seconds: float = 0.0) -> None:
        """Move the clock to `now`, but never back; if that is None, by some seconds."""
        if self.began is None:
            raise IllegalEvent("the turn has not begun")
        if now is None:
            self.elapsed += seconds
        else:
            self.elapsed = max(self.elapsed, now - self.began)

    def add(self, result: Result) -> None:
        """Add what a call used."""
        self.usage += result.usage
        self.attempts += result.attempts
        self.cost_reported = self.cost_reported or result.cost_reported
        self.unpriced = tuple(dict.fromkeys([*self.unpriced, *result.unpriced]))[:MOST_NAMED]
        if self.cost is None or result.cost is None:
            self.cost = None
        else:
            self.cost += units_of(result.cost)


@define(eq=False, repr=False)
class TurnRecorder:
    """Record each step, and report it to the observer and the log."""

    journal: TurnJournal
    position: Run
    tally: Tally
    observer: Observer | None

    def record(
        self,
        row: Row,
        facts: tuple[str, ...] = (),
        *,
        result: Result | None = None,
        note: str | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a row was taken.

        Arguments:
            row, facts: the row, and the facts that held.
            result: the result of the call that came back.
            note: what the journal says of it.
            content: its texts, if the journal may hold them.
        """
        evidence = None
        backend = ""
        if result is not None:
            evidence = Evidence(event=row.event, usage=result.usage)
            backend = result.backend
        if not self.journal.contents:
            content = None
        self.journal.record(
            RecordedStep(
                row=row,
                evidence=evidence,
                at=self.tally.elapsed,
                backend=backend,
                facts=facts,
                spent=tuple(self.position.spent),
                attempts=self.position.attempts,
                note=note,
                content=content,
            )
        )
        announce(self.journal, self.observer)


def results_content(results: Sequence[ToolResult]) -> dict[str, Any]:
    """Return the results of tools as a step records them."""
    return {"results": [[each.id, each.name, each.text, each.is_fault] for each in results]}

"""The journal of a turn: the record of its steps, and the journals of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import define, field, frozen

from rungwise.fsm.call.policy import from_mapping
from rungwise.fsm.call.run.displayable import Displayable
from rungwise.fsm.call.run.journal import Journal, read_policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import FLAG, NUMBER, OBJECT, OBJECTS, Forms, list_of
from rungwise.fsm.journal.record import Record, Step
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS
from rungwise.fsm.values.checks import is_flag, is_text
from rungwise.fsm.values.usage import Usage  # noqa: F401 # the type of an inherited field, for who reads signatures

if TYPE_CHECKING:
    from rungwise.fsm.journal.digest import Digest


@frozen(kw_only=True)
class TurnStep(Step):
    """Hold one step of a turn; the steps of its calls are plain `Step`s."""


@define(eq=False)
class TurnSetting:
    """Hold the arguments of a turn, without its messages and tools.

    Arguments:
        deadline: seconds from the start of the turn to the caller's deadline; None without one.
        recorded: after reading, the policy of the calls as recorded, including the fields of rungs of your own.
    """

    policy: TurnPolicy
    has_compactor: bool = False
    deadline: float | None = None
    recorded: Mapping[str, Any] | None = None


def _is_result(value: Any) -> bool:
    return list_of(is_text, 3)(value[:3]) and list_of(is_flag, 1)(value[3:]) if isinstance(value, list) else False


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

    forms: ClassVar[Forms] = {**Record.forms, "policy": OBJECT, "has_compactor": FLAG, "calls": OBJECTS}
    optional_forms: ClassVar[Forms] = {"deadline": NUMBER}
    content_forms: ClassVar[Forms] = {
        "results": (list_of(_is_result), "a list of results, each of which is a list of id, name, text and is_fault"),
        **dict.fromkeys(("ids", "handed_off"), (list_of(is_text), "a list of the ids of calls")),
    }
    step_type: ClassVar[type[Step]] = TurnStep

    setting: TurnSetting
    calls: list[Journal] = field(factory=list)

    def _digest(self) -> Digest | None:
        from rungwise.fsm.turn.digest import digest_of_turn_journal  # loaded when somebody looks at a journal

        return digest_of_turn_journal(self, self.calls)

    @property
    def made(self) -> int:
        """Count the calls that its steps made; it has a journal for each of them."""
        return sum(step.event == "sent" and step.source in CALLS for step in self.steps)

    def _setting_document(self) -> dict[str, Any]:
        policy = self.setting.policy.to_mapping()
        if self.setting.recorded is not None:
            policy["call"] = self.setting.recorded
        return {
            "policy": policy,
            "has_compactor": self.setting.has_compactor,
            **({"deadline": self.setting.deadline} if self.setting.deadline is not None else {}),
            "calls": [call.to_document() for call in self.calls],
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a record from plain values."""
        record = super().from_document(document)
        if record.made != len(document["calls"]):
            raise ConfigurationError(f"it holds {len(document['calls'])} calls, but its steps made {record.made}")
        for number, call in enumerate(document["calls"], start=1):
            try:
                record.calls.append(Journal.from_document(call))
            except ConfigurationError as error:
                raise ConfigurationError(f"call {number}: {error}") from None
        return record

    @classmethod
    def _read_setting(cls, document: Mapping[str, Any]) -> TurnSetting:
        values, others = dict(document["policy"]), (document["has_compactor"], document.get("deadline"))
        if "call" not in values:
            return TurnSetting(from_mapping(TurnPolicy, values), *others)
        limits = values["call"].get("limits") if isinstance(values["call"], Mapping) else None
        call, recorded = read_policy(values.pop("call"), limits if isinstance(limits, Mapping) else ())
        return TurnSetting(from_mapping(TurnPolicy, values, call=call), *others, recorded)

"""The journal of a call: its settings and the record of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs import define

from rungwise.fsm.call.budget.budget import Spending
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.chain.link import Link, PlainLink
from rungwise.fsm.call.chain.prices import Prices, prices_of
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.displayable import Displayable
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.call.limits import LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import SWITCH_AFTER, Budget, Policy
from rungwise.fsm.call.policy_values import from_mapping
from rungwise.fsm.engine.journal.forms import (
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    OBJECTS,
    TEXT,
    Forms,
    check_object,
    forms_of,
    list_of,
    or_null,
)
from rungwise.fsm.engine.journal.record import Record
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_text
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from rungwise.fsm.engine.journal.digest import Digest

_DEADLINES = ("deadline", "within_deadline")


class Links:
    """Hide the backends of a call, which hold keys, from anything that writes attrs objects
    down.
    """

    __slots__ = ("live", "losses")

    def __init__(self, live: tuple[Link, ...]) -> None:
        self.live = live
        # what each left out; None if it was not asked
        self.losses: list[tuple[str, ...] | None] = [None] * len(live)

    @property
    def plain(self) -> tuple[PlainLink, ...]:
        """Return what a journal may record of them."""
        names = [attribute.name for attribute in attrs.fields(PlainLink)]
        plain = []
        for link, losses in zip(self.live, self.losses, strict=True):
            known: dict[str, Any] = {name: getattr(link, name) for name in names}
            if losses is not None:
                known["losses"] = losses
            plain.append(PlainLink(**known))
        return tuple(plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return Links, (self.plain,)


@define(eq=False)
class Setting:
    """Hold the arguments of a call, without its messages."""

    policy: Policy
    links: Links
    max_tokens: int | None = None
    input_tokens: int | None = None
    has_compactor: bool = False
    # the ceilings of the shared budgets around the call, the innermost first
    within: tuple[Budget, ...] = ()
    lessons: tuple[Lessons, ...] = ()  # of each backend, when the call began
    deadline: float | None = None  # the caller's, in seconds from the beginning of the call
    within_deadline: float | None = None  # that of the shared budgets, likewise
    caller: str | None = None  # who asked, where a gateway or proxy tells them apart
    # after reading: the policy with limits and hints of rungs of one's own
    recorded: Mapping[str, Any] | None = None

    @property
    def chain(self) -> tuple[PlainLink, ...]:
        """Return what the journal records of the backends."""
        return self.links.plain

    def to_mapping(self) -> dict[str, Any]:
        """Return the setting as plain values."""
        policy = self.recorded or self.policy.to_mapping()
        chain = [attrs.asdict(link) for link in self.chain]
        plain: dict[str, Any] = {
            "policy": policy,
            "chain": chain,
            "max_tokens": self.max_tokens,
            "input_tokens": self.input_tokens,
            "has_compactor": self.has_compactor,
        }
        if self.within:
            plain["within"] = [attrs.asdict(budget) for budget in self.within]
        for name in _DEADLINES:
            deadline = getattr(self, name)
            if deadline is not None:
                plain[name] = deadline
        if self.caller is not None:
            plain["caller"] = self.caller
        lessons = [each.to_mapping() for each in self.lessons]
        if any(lessons):
            plain["lessons"] = lessons
        return plain

    def note_deadline(self, spending: Spending) -> None:
        """Record the deadlines beside the budget of a call that begins."""
        began = spending.began or 0.0
        if spending.given_deadline is not None:
            self.deadline = spending.given_deadline - began
        if spending.share is not None and (shared := spending.share.shared.deadline) is not None:
            self.within_deadline = shared - began

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Setting:
        """Read a setting back, or raise a ConfigurationError if no call can have had it."""
        chain = tuple(_link(link, f"chain[{index}]") for index, link in enumerate(values["chain"]))
        policy, recorded = read_policy(values["policy"], values["counters"])
        if not chain:
            raise ConfigurationError("its chain is empty")
        if all(link.problem is not None for link in chain):
            raise ConfigurationError("no backend of its chain can be used")
        within = tuple([from_mapping(Budget, budget) for budget in values.get("within", ())])
        counts_money = any(budget.money is not None for budget in (policy.budget, *within))
        if counts_money and any(link.prices is None for link in chain):
            raise ConfigurationError(
                "its budget of money needs prices on every backend of its chain"
            )
        tokens = {name: values[name] for name in ("max_tokens", "input_tokens")}
        Request("(not recorded)", **tokens)  # which refuses other numbers of tokens
        plain_lessons = values.get("lessons", ())
        if len(plain_lessons) not in (0, len(chain)):
            raise ConfigurationError("its lessons are not one for each backend of its chain")
        lessons = []
        for index, plain in enumerate(plain_lessons):
            lessons.append(Lessons.from_mapping(plain, f"lessons[{index}]"))
        links = Links(chain)
        return cls(
            policy,
            links,
            **tokens,
            has_compactor=values["has_compactor"],
            within=within,
            deadline=values.get("deadline"),
            within_deadline=values.get("within_deadline"),
            lessons=tuple(lessons),
            caller=values.get("caller"),
            recorded=recorded,
        )


@define(eq=False, kw_only=True, repr=False)
class Journal(Displayable, Record):
    """Record one call.

    Arguments:
        setting: the arguments of the call.
        table, counters: the name of the table, and the names of its counters.
        contents: whether texts and tool calls are recorded.
        outcome: how the call ended; None until then.
    """

    forms: ClassVar[Forms] = {
        **Record.forms,
        "policy": (lambda value: True, ""),  # which has a reader of its own
        "chain": OBJECTS,
        **dict.fromkeys(("max_tokens", "input_tokens"), or_null(COUNT)),
        "has_compactor": FLAG,
    }
    optional_forms: ClassVar[Forms] = {
        **Record.optional_forms,
        "within": OBJECTS,
        "lessons": OBJECTS,
        "caller": TEXT,
        **dict.fromkeys(_DEADLINES, NUMBER),
    }
    content_forms: ClassVar[Forms] = {
        **dict.fromkeys(("part", "new", "delivered", "reasoning", "gathered", "provider"), TEXT),
        **dict.fromkeys(("final_text", "prior_answer"), or_null(TEXT)),
        "reasons": (list_of(is_text), "a list of texts"),
        "tool_calls": (
            list_of(list_of(is_text, 3)),
            "a list of calls, each of which is a list of id, name and arguments",
        ),
    }

    setting: Setting

    def _digest(self) -> Digest | None:
        # digests are for who looks at a journal
        from rungwise.fsm.call.run.call_digest import digest_of_journal

        return digest_of_journal(self)

    def _setting_document(self) -> dict[str, Any]:
        return self.setting.to_mapping()

    @classmethod
    def _read_setting(cls, document: Mapping[str, Any]) -> Setting:
        return Setting.from_mapping(document)


_LINK = forms_of(
    PlainLink,
    prices=or_null(OBJECT),
    identities=(list_of(list_of(is_text, 2)), "a list of pairs of texts"),
)
_PRICES = forms_of(Prices, **dict.fromkeys(("models", "tiers", "units"), OBJECT))


_LATER = (
    "expects_json",
    "streams",
    "first_token",
    "thinks_for",
    "stall",
    "losses",
    "keys",
    "background",
    "stands_in",
    "model",
)
"""What journals of earlier releases do not tell of a backend."""


def _link(values: Mapping[str, Any], where: str) -> PlainLink:
    if not isinstance(values.get("name", ""), str):
        raise ConfigurationError(
            f"a backend of its chain is named {short(values['name'])}, which is no text"
        )
    check_object(values, _LINK, [name for name in _LINK if name not in _LATER], where)
    prices = values["prices"]
    if prices is not None:
        check_object(prices, _PRICES, ("input", "output"), f"{where}: 'prices'")
        prices = prices_of(prices)
    identities = frozenset((kind, name) for kind, name in values["identities"])
    return PlainLink(**{**values, "prices": prices, "identities": identities})


def read_policy(values: Any, counters: Iterable[str]) -> tuple[Policy, Mapping[str, Any]]:
    """Read a recorded policy, without the limits and hints of your own rungs, and return it with
    its plain values.

    A ConfigurationError says that they are none of a policy.
    """
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"Policy must be a table of keys, not {short(values)}")
    own = set(counters).difference(Limits())
    limits = values.get("limits", {})
    hints = values.get("hints", {})
    rungs = hints.get("rungs", {}) if isinstance(hints, Mapping) else {}
    if isinstance(limits, Mapping):
        for name in own.intersection(limits):
            Limits(retries=limits[name])  # of the form of any other
        limits = {name: limit for name, limit in limits.items() if name not in own}
    if isinstance(hints, Mapping):
        Hints(rungs=rungs)  # likewise
        hints = {**hints, "rungs": {}}
    switch_after = values.get("switch_after", {})
    # a policy fills in its defaults, and the call of this one had none but these
    if isinstance(switch_after, Mapping):
        switch_after = {**dict.fromkeys(SWITCH_AFTER, LARGEST_LIMIT), **switch_after}
    policy: Policy = from_mapping(
        Policy, {**values, "limits": limits, "hints": hints, "switch_after": switch_after}
    )
    return policy, values

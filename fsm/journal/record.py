"""The journal: the append-only record of one call, which the trace, the replay and the pictures read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import orjson
from attrs import define, field, frozen

from rungwise.fsm.call.policy import LARGEST_LIMIT, SWITCH_AFTER, Hints, Limits, Policy, from_mapping
from rungwise.fsm.call.reply import NO_USAGE, Usage
from rungwise.fsm.call.request import Link, PlainLink, Prices, Request
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import JOURNAL, LINK, check_forms, check_step, known_only, short
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy
from rungwise.fsm.values.label import label, note
from rungwise.fsm.values.records import record

if TYPE_CHECKING:
    from rungwise.fsm.machine.table import Row

VERSION = 1


@frozen(kw_only=True)
class Step:
    """Hold one step of a call.

    Arguments:
        number: counted from 1.
        at: seconds since the call began, as the driver gave them.
        event, source, guard, effect, target: the row that was taken; `skipped` marks a backend of the chain that was
            passed over, which is no row.
        backend: the name of the backend that the step is about.
        wait: seconds to wait in the rung that was entered.
        cap: the output cap that was sent, in tokens.
        input_tokens: the tokens that the prompt to be sent was counted as, for a budget of money.
        usage: what the reply cost.
        stop_raw: the provider's own finish reason; this and every other text is a `label`, so a step is one line.
        status, reason, code: the failure, as far as the provider told it.
        asked_wait: seconds that the service asked us to wait.
        draw: the random number that placed the jitter.
        facts: the facts that held when the event was fired.
        spent: what is spent of each counter after the step.
        attempts: requests sent so far.
        note: what is worth knowing besides, such as why a backend was skipped or which budget ran out.
        content: texts and tool calls, only where the caller asked for them.
    """

    number: int
    at: float
    event: str = field(converter=note)
    source: str = field(converter=note)
    guard: str | None = field(default=None, converter=note)
    effect: str | None = field(default=None, converter=note)
    target: str = field(converter=note)
    backend: str = field(default="", converter=note)
    wait: float = 0.0
    cap: int | None = None
    input_tokens: int | None = None
    usage: Usage = NO_USAGE
    stop_raw: str | None = field(default=None, converter=label)
    status: int | None = None
    reason: str | None = field(default=None, converter=label)
    code: str | None = field(default=None, converter=label)
    asked_wait: float | None = None
    draw: float | None = None
    facts: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(factory=dict, hash=False)
    attempts: int = 0
    note: str | None = field(default=None, converter=note)
    content: Mapping[str, Any] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        guard = f" [{self.guard}]" if self.guard else ""
        told = [str(value) for value in (self.status, self.reason, self.stop_raw, self.note) if value is not None]
        wait = f" after {self.wait:.1f} s" if self.wait else ""
        return f"{self.event}{guard} -> {self.target}{wait} ({', '.join([self.backend, *told])})"

    def to_mapping(self) -> dict[str, Any]:
        """Return the step as plain values, without what is empty."""
        plain = {
            attribute.name: getattr(self, attribute.name)
            for attribute in attrs.fields(Step)
            if attribute.default is attrs.NOTHING or getattr(self, attribute.name) != attribute.default
        }
        if "usage" in plain:
            plain["usage"] = {key: value for key, value in attrs.asdict(self.usage).items() if value}
        return plain


@record(kw_only=True)
class Evidence:
    """Hold what a journal may tell of what came back; `repair` names the one thing that the rung is to fix."""

    event: str
    usage: Usage = NO_USAGE
    stop_raw: str | None = None
    status: int | None = None
    reason: str | None = None
    code: str | None = None
    asked_wait: float | None = None
    repair: str | None = None


@record(kw_only=True)
class Entry:
    """Hold one step as a call records it; `spent` is in the order of the journal's counters, the rest as in `Step`."""

    row: Row
    evidence: Evidence | None = None
    at: float
    backend: str
    wait: float = 0.0
    draw: float | None = None
    cap: int | None = None
    input_tokens: int | None = None
    facts: tuple[str, ...] = ()
    spent: tuple[int, ...]
    attempts: int
    note: str | None = None
    content: Mapping[str, Any] | None = field(default=None, repr=False)


class Links:
    """Hold the backends of a call out of reach of whatever writes attrs objects down: they hold keys."""

    __slots__ = ("live",)

    def __init__(self, live: tuple[Link, ...]) -> None:
        self.live = live

    @property
    def plain(self) -> tuple[PlainLink, ...]:
        """Return what a journal may tell of them."""
        names = [attribute.name for attribute in attrs.fields(PlainLink)]
        return tuple(PlainLink(**{name: getattr(link, name) for name in names}) for link in self.live)

    def __reduce__(self) -> tuple[Any, ...]:
        return Links, (self.plain,)


@define(eq=False)
class Setting:
    """Hold what a call was given, without its messages.

    Arguments:
        policy: as the call got it.
        links: the backends.
        max_tokens, input_tokens: as in `Request`.
        has_compactor: whether the driver could shorten messages.
    """

    policy: Policy
    links: Links
    max_tokens: int | None = None
    input_tokens: int | None = None
    has_compactor: bool = False
    # Known after reading: the name of the table, and the policy with the limits and hints of rungs of one's own.
    table: str | None = None
    recorded: Mapping[str, Any] | None = None

    @property
    def chain(self) -> tuple[PlainLink, ...]:
        """Return the backends as far as a journal tells of them."""
        return self.links.plain

    def to_mapping(self) -> dict[str, Any]:
        """Return the setting as plain values."""
        return {
            "table": self.table or self.policy.table.name,
            "policy": self.recorded or self.policy.to_mapping(),
            "chain": [attrs.asdict(link) for link in self.chain],
            "max_tokens": self.max_tokens,
            "input_tokens": self.input_tokens,
            "has_compactor": self.has_compactor,
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Setting:
        """Read a setting back.

        Raises:
            ConfigurationError: a call cannot have been given this.
        """
        chain = tuple(_link(link, f"chain[{index}]") for index, link in enumerate(values["chain"]))
        policy, recorded = _policy(values["policy"], values["counters"])
        if not chain:
            raise ConfigurationError("its chain is empty")
        if all(link.problem is not None for link in chain):
            raise ConfigurationError("no backend of its chain can be used")
        if policy.budget.money is not None and any(link.prices is None for link in chain):
            raise ConfigurationError("its budget of money needs prices on every backend of its chain")
        names = ("max_tokens", "input_tokens")
        Request("(not recorded)", **{name: values[name] for name in names})
        given = {name: values[name] for name in (*names, "has_compactor", "table")}
        return cls(policy, Links(chain), **given, recorded=recorded)


@define(eq=False)
class Journal:
    """Record one call.

    Arguments:
        setting: what a replay needs to know besides the steps.
        counters: the names of the machine's counters.
        contents: whether texts and tool calls are recorded.
    """

    setting: Setting
    counters: tuple[str, ...]
    contents: bool = False
    outcome: str | None = None
    _rows: list[Entry | Step] = field(factory=list, repr=False)

    def record(self, entry: Entry) -> None:
        """Append a step; it is put into words only when somebody reads it."""
        self._rows.append(entry)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return every step so far."""
        return self.steps_from(1)

    @property
    def size(self) -> int:
        """Count the steps so far."""
        return len(self._rows)

    def steps_from(self, number: int) -> tuple[Step, ...]:
        """Return every step from this one on; the first is number 1."""
        return tuple(self._step(later) for later in range(number, len(self._rows) + 1))

    @property
    def last(self) -> Step:
        """Return the newest step."""
        return self._step(len(self._rows))

    def _step(self, number: int) -> Step:
        recorded = self._rows[number - 1]
        if isinstance(recorded, Step):
            return recorded
        row = recorded.row
        evidence = recorded.evidence or Evidence(event=row.event)
        step = Step(
            number=number,
            at=recorded.at,
            event=row.event,
            source=row.source,
            guard=row.guard,
            effect=row.effect,
            target=row.target,
            backend=recorded.backend,
            wait=recorded.wait,
            cap=recorded.cap,
            input_tokens=recorded.input_tokens,
            usage=evidence.usage,
            stop_raw=evidence.stop_raw,
            status=evidence.status,
            reason=evidence.reason,
            code=evidence.code,
            asked_wait=evidence.asked_wait,
            draw=recorded.draw,
            facts=recorded.facts,
            spent=FrozenMap(zip(self.counters, recorded.spent, strict=True)),
            attempts=recorded.attempts,
            note=recorded.note or evidence.repair,
            content=frozen_copy(recorded.content, "content"),
        )
        self._rows[number - 1] = step
        return step

    def to_json(self) -> str:
        """Write the journal as JSON."""
        document = {
            "version": VERSION,
            "contents": self.contents,
            **self.setting.to_mapping(),
            "counters": self.counters,
            "steps": [step.to_mapping() for step in self.steps],
            "outcome": self.outcome,
        }
        try:
            return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=_plain).decode()
        except orjson.JSONEncodeError:  # a lone surrogate, which no JSON can hold
            return orjson.dumps(_mended(document), option=orjson.OPT_INDENT_2, default=_plain).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Journal:
        """Read a journal back.

        Raises:
            ConfigurationError: the text is no journal; the message says where.
        """
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"journal: no JSON ({error})") from None
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise ConfigurationError(f"journal: 'version' must be {VERSION}")
        try:
            check_forms(document, JOURNAL)
            setting = Setting.from_mapping(document)
            journal = cls(setting, tuple(document["counters"]), document["contents"], document["outcome"])
            journal._rows.extend(_steps(document["steps"], journal.counters))
        except ConfigurationError as error:
            raise ConfigurationError(f"journal: {str(error).removeprefix('journal: ')}") from None
        return journal


def _link(values: Mapping[str, Any], where: str) -> PlainLink:
    known_only(values, _names(PlainLink), where)
    if not isinstance(values.get("name", ""), str):
        raise ConfigurationError(f"journal: a backend of its chain is named {short(values['name'])}, which is no text")
    check_forms(values, LINK, f"{where}: ")
    prices = values["prices"]
    if prices is not None:
        known_only(prices, _names(Prices), f"{where}: 'prices'")
        missing = [name for name in ("input", "output") if name not in prices]
        if missing:
            raise ConfigurationError(f"journal: {where}: 'prices' lacks {missing[0]!r}")
        prices = Prices(**prices)
    identities = frozenset((kind, name) for kind, name in values["identities"])
    return PlainLink(**{**values, "prices": prices, "identities": identities})


def _policy(values: Any, counters: Iterable[str]) -> tuple[Policy, Mapping[str, Any]]:
    """Read a recorded policy, but for the limits and hints of rungs of one's own: a replay is given those."""
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"Policy must be a table of keys, not {short(values)}")
    own = set(counters).difference(_names(Limits))
    limits, hints = values.get("limits", {}), values.get("hints", {})
    rungs = hints.get("rungs", {}) if isinstance(hints, Mapping) else {}
    if isinstance(limits, Mapping):
        for name in own.intersection(limits):
            Limits(retries=limits[name])  # of the form of any other
        limits = {name: limit for name, limit in limits.items() if name not in own}
    if isinstance(hints, Mapping):
        Hints(rungs=rungs)  # likewise
        hints = {**hints, "rungs": {}}
    switch_after = values.get("switch_after", {})
    if isinstance(switch_after, Mapping):  # a policy fills in its defaults, and the call of this one had none but these
        switch_after = {**dict.fromkeys(SWITCH_AFTER, LARGEST_LIMIT), **switch_after}
    policy: Policy = from_mapping(Policy, {**values, "limits": limits, "hints": hints, "switch_after": switch_after})
    return policy, values


def _names(kind: type[Any]) -> list[str]:
    return [attribute.name for attribute in attrs.fields(kind)]


def _steps(documents: Iterable[Mapping[str, Any]], counters: tuple[str, ...]) -> Iterable[Step]:
    for number, document in enumerate(documents, start=1):
        where = f"step {number}"
        known_only(document, _names(Step), where)
        for name in _NEEDED:
            if name not in document:
                raise ConfigurationError(f"journal: {where}: {name!r} is missing")
        if type(document["number"]) is not int or document["number"] != number:
            raise ConfigurationError(f"journal: {where} is numbered {short(document['number'])}")
        usage = document.get("usage", {})
        if not isinstance(usage, Mapping):
            raise ConfigurationError(f"journal: {where}: 'usage' must be an object, not {short(usage)}")
        known_only(usage, _names(Usage), f"{where}: 'usage'")
        facts = document.get("facts", [])
        content = frozen_copy(document.get("content"), f"journal: {where}: 'content'")
        step = Step(
            **{
                **document,
                "usage": Usage(**usage),
                "facts": tuple(facts) if isinstance(facts, list) else facts,
                "content": content,
            }
        )
        check_step(step, counters)
        yield step


_NEEDED = tuple(attribute.name for attribute in attrs.fields(Step) if attribute.default is attrs.NOTHING)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, (list, tuple)) else value


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if attrs.has(type(value)):
        return attrs.asdict(value)  # type: ignore[arg-type]
    raise TypeError(f"a journal cannot hold a {type(value).__name__}")

"""The journal: the append-only record of one call, which the trace, the replay and the pictures read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import orjson
from attrs import define, field, frozen

from fsm.errors import ConfigurationError
from fsm.journal_forms import check_step
from fsm.label import label, note
from fsm.policy import Limits, Policy, from_mapping
from fsm.reply import NO_USAGE, Usage
from fsm.request import Link, PlainLink, Prices

if TYPE_CHECKING:
    from fsm.table import Row

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


@define(eq=False)
class Evidence:
    """Hold what one step was decided on; everything but the last line may stand in a journal."""

    event: str
    facts: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    stop_raw: str | None = None
    status: int | None = None
    reason: str | None = None
    code: str | None = None
    asked_wait: float | None = None
    repair: str | None = None
    content: dict[str, Any] | None = field(default=None, repr=False)


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
    table: str | None = None  # the name of the recorded table, known after reading

    @property
    def chain(self) -> tuple[PlainLink, ...]:
        """Return the backends as far as a journal tells of them."""
        return self.links.plain

    def to_mapping(self) -> dict[str, Any]:
        """Return the setting as plain values."""
        return {
            "table": self.policy.table.name,
            "policy": self.policy.to_mapping(),
            "chain": [attrs.asdict(link) for link in self.chain],
            "max_tokens": self.max_tokens,
            "input_tokens": self.input_tokens,
            "has_compactor": self.has_compactor,
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Setting:
        """Read a setting back."""
        chain = []
        for link in values["chain"]:
            prices = Prices(**link["prices"]) if link["prices"] else None
            identities = frozenset((kind, name) for kind, name in link["identities"])
            chain.append(PlainLink(**{**link, "prices": prices, "identities": identities}))
        policy, links = _policy(values["policy"], values["counters"]), Links(tuple(chain))
        names = ("max_tokens", "input_tokens", "has_compactor", "table")
        return cls(policy, links, *(values[name] for name in names))


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
    _rows: list[Any] = field(factory=list, repr=False)

    def record(self, row: Row | None, evidence: Evidence | None, details: tuple[Any, ...]) -> None:
        """Append a step; it is put into words only when somebody reads it."""
        self._rows.append((row, evidence, details))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return every step so far."""
        return tuple(self._step(number) for number in range(1, len(self._rows) + 1))

    @property
    def last(self) -> Step:
        """Return the newest step."""
        return self._step(len(self._rows))

    def _step(self, number: int) -> Step:
        recorded = self._rows[number - 1]
        if isinstance(recorded, Step):
            return recorded
        row, evidence, (at, backend, wait, cap, draw, spent, attempts, note, prompt) = recorded
        seen = evidence or Evidence(row.event)
        step = Step(
            number=number,
            at=at,
            event=row.event,
            source=row.source,
            guard=row.guard,
            effect=row.effect,
            target=row.target,
            backend=backend,
            wait=wait,
            cap=cap,
            input_tokens=prompt,
            usage=seen.usage,
            stop_raw=seen.stop_raw,
            status=seen.status,
            reason=seen.reason,
            code=seen.code,
            asked_wait=seen.asked_wait,
            draw=draw,
            facts=seen.facts,
            spent=dict(zip(self.counters, spent, strict=True)),
            attempts=attempts,
            note=note or seen.repair,
            content=seen.content if self.contents else None,
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
            setting = Setting.from_mapping(document)
            journal = cls(setting, tuple(document["counters"]), bool(document["contents"]), document["outcome"])
            journal._rows.extend(_steps(document["steps"], journal.counters))
        except ConfigurationError as error:
            raise ConfigurationError(f"journal: {str(error).removeprefix('journal: ')}") from None
        except KeyError as error:
            raise ConfigurationError(f"journal: {error} is missing") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"journal: {error}") from None
        return journal


def _policy(values: Mapping[str, Any], counters: Iterable[str]) -> Policy:
    """Read a recorded policy, but for the limits and hints of rungs of one's own: a replay is given those."""
    known = {attribute.name for attribute in attrs.fields(Limits)}
    own = [name for name in counters if name not in known]
    if isinstance(values, Mapping) and isinstance(values.get("limits"), Mapping):
        values = {**values, "limits": {name: limit for name, limit in values["limits"].items() if name not in own}}
    if isinstance(values, Mapping) and isinstance(values.get("hints"), Mapping):
        values = {**values, "hints": {**values["hints"], "rungs": {}}}
    policy: Policy = from_mapping(Policy, values)
    return policy


def _steps(documents: Iterable[Mapping[str, Any]], counters: tuple[str, ...]) -> Iterable[Step]:
    for number, document in enumerate(documents, start=1):
        values = dict(document)
        values["usage"] = Usage(**values.get("usage", {}))
        values["facts"] = tuple(values.get("facts", ()))
        if values.get("number") != number:
            raise ConfigurationError(f"journal: step {number} is numbered {values.get('number')!r}")
        try:
            step = Step(**values)
        except TypeError as error:
            raise ConfigurationError(f"journal: step {number}: {error}") from None
        check_step(step, counters)
        yield step


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

"""The append-only record of one run through a table. Traces, replay and pictures read it.

A run appends to it at every step, and most of that is never read. So a step is recorded as it
comes, as a `RecordedStep`, and becomes a `Step` when somebody reads it.

A journal that is read may come from anybody and contain anything, so the form of each value is
checked (`forms.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import attrs
from attrs import define, field, frozen

from rungwise.fsm.engine.journal.forms import (
    FLAG,
    NAMES,
    NUMBER,
    OBJECT,
    OBJECTS,
    TEXT,
    Forms,
    check_object,
    forms_of,
    or_null,
)
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_text
from rungwise.fsm.values.files import check_size, without_mark
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy
from rungwise.fsm.values.label import label, note, short
from rungwise.fsm.values.usage import NO_USAGE, Usage

VERSION = 1


@frozen(kw_only=True)
class Step:
    """Describe one step of a run through a table.

    Arguments:
        number: counted from 1.
        at: seconds since the run began, by the driver's clock.
        event, source, guard, effect, target: the row that was taken; the event `skipped`, which is
            no row, marks a backend that was skipped.
        backend: the name of the backend that the step is about.
        wait: seconds to wait in the rung that was entered.
        cap: the output cap that was sent, in tokens.
        input_tokens: the tokens counted in the prompt, for a budget of money.
        first_token: the seconds from the request to the first content of its stream; a replay does
            not compare it.
        usage: the tokens of the reply.
        stop_raw: the provider's own finish reason; every text of a step is shortened to one line.
        status, reason, code: the failure, as far as the provider described it. Of a finish reason
            or code that is no short identifier, or repeats a secret or a part of the prompt, only
            the length is recorded.
        asked_wait: the seconds of a `Retry-After`.
        draw: the random number that placed the jitter.
        facts: the facts that held when the event fired.
        spent: the units spent of each counter after the step.
        attempts: requests sent so far.
        note: a remark, such as why a backend was skipped or which budget ran out.
        content: texts and tool calls, if the caller asked to record them.
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
    first_token: float | None = field(default=None, eq=False)
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
        text = f"{self.event}{guard} -> {self.target}"
        if self.wait:
            text += f" after {self.wait:.1f} s"
        details = []
        for value in (self.backend, self.status, self.reason, self.stop_raw, self.note):
            if value is not None and value != "":
                details.append(str(value))
        if details:
            text += f" ({', '.join(details)})"
        return text

    def to_mapping(self) -> dict[str, Any]:
        """Return the step as plain values, without defaults."""
        plain = {}
        for attribute in attrs.fields(Step):
            value = getattr(self, attribute.name)
            if attribute.default is attrs.NOTHING or value != attribute.default:
                plain[attribute.name] = value
        if "usage" in plain:
            counts = attrs.asdict(self.usage)
            known = {name: each for name, each in counts.items() if each or type(each) is float}
            plain["usage"] = known
        return plain


@frozen
class Evidence:
    """Hold what a journal records of a reply or failure.

    `repair` names the one thing that the rung must fix.
    """

    event: str
    usage: Usage = NO_USAGE
    stop_raw: str | None = None
    status: int | None = None
    reason: str | None = None
    code: str | None = None
    asked_wait: float | None = None
    repair: str | None = None


@frozen(eq=False)
class RecordedStep:
    """Hold a step as a call records it.

    The fields are those of `Step`, but `spent` is in the order of the journal's counters.
    """

    row: Row
    at: float
    spent: tuple[int, ...]
    attempts: int
    backend: str = ""
    evidence: Evidence | None = None
    facts: tuple[str, ...] = ()
    wait: float = 0.0
    draw: float | None = None
    cap: int | None = None
    input_tokens: int | None = None
    first_token: float | None = None
    note: str | None = None
    content: Mapping[str, Any] | None = field(default=None, repr=False)


_OF_ROW = ("event", "source", "guard", "effect", "target")
OF_EVIDENCE = ("usage", "stop_raw", "status", "reason", "code", "asked_wait")
_AS_RECORDED = (
    "at",
    "backend",
    "wait",
    "cap",
    "input_tokens",
    "first_token",
    "draw",
    "facts",
    "attempts",
)


@define(eq=False, kw_only=True, repr=False)
class Record:
    """Record one run through a table.

    Arguments:
        table, counters: the name of the table, and the names of its counters.
        contents: whether texts and tool calls are recorded.
        outcome: how the run ended; None until then.
        setting: what else a replay needs.
        started: when it began, in seconds since 1970, if the driver said it.
        first_token: the seconds to the content of the next reply.
    """

    forms: ClassVar[Forms] = {
        "contents": FLAG,
        "table": (is_text, "the name of a table"),
        "counters": NAMES,
        "steps": OBJECTS,
        "outcome": or_null(TEXT),
    }
    """The forms of the top-level fields of its JSON."""
    optional_forms: ClassVar[Forms] = {"started": NUMBER}  # of other top-level fields
    content_forms: ClassVar[Forms] = {}  # of those contents of a step that are read back
    step_type: ClassVar[type[Step]] = Step

    table: str
    counters: tuple[str, ...]
    contents: bool = False
    outcome: str | None = None
    setting: Any = None
    started: float | None = field(default=None, init=False)
    first_token: float | None = field(default=None, init=False)
    _rows: list[RecordedStep | Step] = field(factory=list, repr=False, init=False)

    def __repr__(self) -> str:
        steps = "1 step" if self.size == 1 else f"{self.size} steps"
        end = f", {self.outcome}" if self.outcome else ""
        return f"<{type(self).__name__} of a {self.table}, {steps}{end}>"

    def record(self, recorded: RecordedStep) -> None:
        """Append a step; it becomes a `Step` when somebody reads it."""
        self._rows.append(recorded)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return every step so far."""
        return self.steps_from(1)

    @property
    def size(self) -> int:
        """Count the steps so far."""
        return len(self._rows)

    def steps_from(self, number: int) -> tuple[Step, ...]:
        """Return the steps from a number on; the first is 1."""
        return tuple(self._step(later) for later in range(number, len(self._rows) + 1))

    @property
    def last(self) -> Step:
        """Return the newest step."""
        return self._step(len(self._rows))

    def _step(self, number: int) -> Step:
        recorded = self._rows[number - 1]
        if isinstance(recorded, Step):
            return recorded
        evidence = recorded.evidence or Evidence(event=recorded.row.event)
        values: dict[str, Any] = {}
        for name in _OF_ROW:
            values[name] = getattr(recorded.row, name)
        for name in OF_EVIDENCE:
            values[name] = getattr(evidence, name)
        for name in _AS_RECORDED:
            values[name] = getattr(recorded, name)
        step = self.step_type(
            number=number,
            spent=FrozenMap(zip(self.counters, recorded.spent, strict=True)),
            note=recorded.note or evidence.repair,
            content=frozen_copy(recorded.content, "content"),
            **values,
        )
        self._rows[number - 1] = step
        return step

    def to_document(self) -> dict[str, Any]:
        """Return the record as plain values."""
        document = {
            "version": VERSION,
            "contents": self.contents,
            "table": self.table,
            **self._setting_document(),
        }
        if self.started is not None:
            document["started"] = self.started
        document["counters"] = self.counters
        document["steps"] = [step.to_mapping() for step in self.steps]
        document["outcome"] = self.outcome
        return document

    def to_json(self) -> str:
        """Write the record as JSON."""
        return json_of(self.to_document(), is_indented=True)

    def _setting_document(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a record from JSON.

        Raises:
            ConfigurationError: the text is no record; the message says where.
        """
        import orjson

        try:
            check_size(text)
            return cls.from_document(orjson.loads(without_mark(text)))
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"journal: no JSON ({error})") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"journal: {error}") from None

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a record from plain values.

        Raises:
            ConfigurationError: the values are no record; the message says where.
        """
        if not isinstance(document, dict) or "version" not in document:
            raise ConfigurationError("this is not a journal ('version' is missing)")
        if document["version"] != VERSION:
            raise ConfigurationError(f"'version' must be {VERSION}")
        check_object(document, {**cls.forms, **cls.optional_forms}, cls.forms)
        counters = tuple(document["counters"])
        record = cls(
            table=document["table"],
            counters=counters,
            contents=document["contents"],
            outcome=document["outcome"],
            setting=cls._read_setting(document),
        )
        record.started = document.get("started")
        record._rows.extend(cls._read_steps(document["steps"], counters))
        return record

    @classmethod
    def _read_setting(cls, document: Mapping[str, Any]) -> Any:
        return None

    @classmethod
    def _read_steps(
        cls, documents: list[dict[str, Any]], counters: tuple[str, ...]
    ) -> Iterator[Step]:
        """Yield the steps; one of another form raises a ConfigurationError."""
        for number, document in enumerate(documents, start=1):
            where = f"step {number}"
            check_object(document, _STEP, _NEEDED, where)
            if document["number"] != number:
                raise ConfigurationError(f"{where} is numbered {short(document['number'])}")
            usage = document.get("usage", {})
            check_object(usage, _USAGE, (), f"{where}: 'usage'")
            for share in usage.get("shares", ()):
                check_object(share, _SHARE, (), f"{where}: 'usage.shares'")
            spent = document.get("spent")
            if spent and set(spent) != {*counters}:
                raise ConfigurationError(f"{where}: 'spent' must have the counters of the journal")
            content = frozen_copy(document.get("content"), f"{where}: 'content'")
            cls._check_content(content or {}, where)
            values = dict(document)
            values["usage"] = Usage.from_plain(usage)
            values["facts"] = tuple(document.get("facts", ()))
            values["content"] = content
            yield cls.step_type(**values)

    @classmethod
    def _check_content(cls, content: Mapping[str, Any], where: str) -> None:
        """Refuse contents that are read back and have another form; the message never quotes."""
        for name, (check, form) in cls.content_forms.items():
            if name in content and not check(content[name]):
                raise ConfigurationError(f"{where}: {name!r} of its content must be {form}")


_STEP = forms_of(Step, usage=OBJECT)
_NEEDED = tuple(each.name for each in attrs.fields(Step) if each.default is attrs.NOTHING)
_USAGE = forms_of(Usage, shares=OBJECTS)
_SHARE = forms_of(Usage, shares=(lambda value: value == [], "an empty list"))


def json_of(document: Any, *, is_indented: bool = False) -> str:
    """Write what journals hold as JSON.

    A lone surrogate, which JSON cannot hold, becomes a question mark.
    """
    import orjson  # only written and read journals need it

    option = orjson.OPT_INDENT_2 if is_indented else 0
    try:
        return orjson.dumps(document, option=option, default=_plain).decode()
    except orjson.JSONEncodeError:
        return orjson.dumps(_mended(document), option=option, default=_plain).decode()


def _mended(value: Any) -> Any:
    """Return a value without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mended(item) for item in value]
    return value


def _plain(value: object) -> Any:
    """Return what orjson does not know as what it knows."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if attrs.has(type(value)):
        return attrs.asdict(value)  # type: ignore[arg-type]
    raise TypeError(f"a journal cannot hold a {type(value).__name__}")

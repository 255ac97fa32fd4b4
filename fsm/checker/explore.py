"""Run guards and effects along every path they can take, as they are, with nothing modelled a second time.

A class is derived from the model's: a fact that is read there asks a question ("is it set?"), and the run is made again
with the other answer, until every answer was given. With symbols for the counters and the limits a comparison asks as
well, so that one set of runs speaks for all limits at once; with a real model, counters are what they are there.

This is path enumeration by symbolic execution (King 1976) over linear comparisons of whole numbers; anything that it
does not understand is refused, never guessed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from attrs import fields

from rungwise.fsm.call.ladder import COUNTER, FACT, Ladder, names_of

T = TypeVar("T")
Terms = tuple[tuple[str, int], ...]
"""A sum of multiples of counters and limits, sorted by name; a limit is named as its counter behind a dot."""

ATTEMPTS = "attempts"
WRITABLE = ("kept", ATTEMPTS)
"""What an effect may write besides counters."""

MOST_QUESTIONS = 60
MOST_PATHS = 20_000


class Refusal(Exception):
    """Say what the run cannot understand or must not happen."""


class Path(ABC):
    """Be one run: the answers that were given, what they say of facts and counters, and what was changed."""

    def __init__(self, answers: tuple[bool, ...], model: type[Ladder], state: str) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.model = model
        self.state = state
        self.facts: dict[str, bool] = {}
        self.changed: dict[str, Any] = {}
        self.in_guard = False
        self.refused: str | None = None
        self._known = frozenset(names_of(model, FACT))

    def ask(self) -> bool:
        """Answer a question that nothing known decides: as told, and yes where nothing is told."""
        if self.asked == len(self.answers):
            self.answers.append(True)
        if self.asked == MOST_QUESTIONS:
            raise self.refuse(f"asks more than {MOST_QUESTIONS} questions")
        self.asked += 1
        return self.answers[self.asked - 1]

    def refuse(self, why: str) -> Refusal:
        """Return what stops the run; it is kept too, for code that catches every exception."""
        self.refused = self.refused or why
        return Refusal(why)

    def read(self, name: str) -> Any:
        """Return a field of the model as this run sees it."""
        if name in self.changed:
            return self.changed[name]
        if name in self._known:
            if name not in self.facts:
                self.facts[name] = self.ask()
            return self.facts[name]
        if name == "rung":
            return self.state
        return self.look_up(name)

    @abstractmethod
    def look_up(self, name: str) -> Any:
        """Return a field that is no fact."""

    def write(self, name: str, value: Any) -> None:
        """Take a new value for a field of the model."""
        self.changed[name] = value


class RealPath(Path):
    """Be a run on the counters of a real model; what is read of it is remembered."""

    def __init__(self, answers: tuple[bool, ...], real: Ladder) -> None:
        super().__init__(answers, type(real), real.rung)
        self.real = real
        self.reads: set[str] = set()

    def look_up(self, name: str) -> Any:
        """Return what the real model holds."""
        if name != "limits":
            self.reads.add(name)
        return getattr(self.real, name)


class SymbolicPath(Path):
    """Be a run for all limits: counters and limits are symbols, and comparing them asks."""

    def __init__(self, answers: tuple[bool, ...], model: type[Ladder], state: str) -> None:
        super().__init__(answers, model, state)
        self.bounds: dict[Terms, tuple[int | None, int | None]] = {}
        self.counters = names_of(model, COUNTER)

    def look_up(self, name: str) -> Any:
        """Return a symbol for a counter; refuse what is no part of a configuration."""
        if name in self.counters or (name == ATTEMPTS and not self.in_guard):
            return Symbol(self, ((name, 1),), 0)
        if name == "limits":
            return _Limits(self)
        raise self.refuse(f"reads {name!r}, which is neither a counter nor a fact")

    def write(self, name: str, value: Any) -> None:
        """Refuse every change by a guard, and a change to anything but counters by an effect."""
        if self.in_guard:
            raise self.refuse(f"changes {name!r}, and a guard changes nothing")
        if name not in self.counters and name not in WRITABLE:
            raise self.refuse(f"changes {name!r}, which no effect may touch")
        super().write(name, value)

    def at_most(self, terms: Terms, most: int) -> bool:
        """Tell whether a sum is `most` or less: known from before, or asked."""
        if not terms:
            return most >= 0
        if terms[0][1] < 0:
            return not self.at_most(tuple((name, -times) for name, times in terms), -most - 1)
        low, high = self.range_of(terms)
        if high is not None and high <= most:
            return True
        if low is not None and low > most:
            return False
        answer = self.ask()
        self.bounds[terms] = (low, most) if answer else (most + 1, high)
        return answer

    def range_of(self, terms: Terms) -> tuple[int | None, int | None]:
        """Return what is known of a sum: no counter or limit is below 0, and no counter above its own limit."""
        if terms in self.bounds:
            return self.bounds[terms]
        natural = (len(terms) == 1 and terms[0][1] == 1) or terms in map(left_of, self.counters)
        return (0 if natural else None), None

    def left(self, counter: str) -> bool | None:
        """Tell whether this run found a unit left of a counter, found none, or did not look."""
        low, high = self.range_of(left_of(counter))
        return True if low is not None and low >= 1 else False if high == 0 else None


def left_of(counter: str) -> Terms:
    """Return the sum that says how much is left of a counter."""
    return ((f".{counter}", 1), (counter, -1))


class Symbol:
    """Be a whole number that is not known: a sum of multiples of counters and limits, and a constant."""

    __slots__ = ("constant", "path", "terms")
    __hash__ = None  # type: ignore[assignment]  # what looks it up in a set would compare by chance

    def __init__(self, path: SymbolicPath, terms: Terms, constant: int) -> None:
        self.path = path
        self.terms = terms
        self.constant = constant

    def _plus(self, other: object, times: int) -> Symbol:
        if isinstance(other, int):
            return Symbol(self.path, self.terms, self.constant + times * other)
        if not isinstance(other, Symbol):
            raise self.path.refuse(f"compares or adds a counter and a {type(other).__name__}")
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total.get(name, 0) + times * factor
        terms = tuple(sorted((name, factor) for name, factor in total.items() if factor))
        return Symbol(self.path, terms, self.constant + times * other.constant)

    def __add__(self, other: object) -> Symbol:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> Symbol:
        return self._plus(other, -1)

    def __neg__(self) -> Symbol:
        return Symbol(self.path, tuple((name, -factor) for name, factor in self.terms), -self.constant)

    def __rsub__(self, other: object) -> Symbol:
        return -self + other

    def __le__(self, other: object) -> bool:
        difference = self - other
        return self.path.at_most(difference.terms, -difference.constant)

    def __lt__(self, other: object) -> bool:
        return self + 1 <= other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __gt__(self, other: object) -> bool:
        return not self <= other

    def __eq__(self, other: object) -> bool:
        return self <= other and self >= other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        raise self.path.refuse("turns a counter into text")

    __repr__ = __str__


class _Limits:
    """Be the limits: a symbol for each counter."""

    def __init__(self, path: SymbolicPath) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Symbol:
        if name not in self._path.counters:
            raise self._path.refuse(f"reads the limit {name!r}, which no counter has")
        return Symbol(self._path, ((f".{name}", 1),), 0)


P = TypeVar("P", bound=Path)


_probes: dict[type[Ladder], type[Any]] = {}


def probe_of(model: type[Ladder]) -> type[Any]:
    """Return a class that runs a model's own code and asks a `Path` for every field."""
    if model not in _probes:
        _probes[model] = _derive(model)
    return _probes[model]


def _derive(model: type[Ladder]) -> type[Any]:
    own = frozenset(attribute.name for attribute in fields(model))

    def read(self: Any, name: str) -> Any:
        if name in own:
            return object.__getattribute__(self, "_path").read(name)
        return model.__getattribute__(self, name)

    def write(self: Any, name: str, value: Any) -> None:
        object.__getattribute__(self, "_path").write(name, value)

    parts = {"__slots__": ("_path",), "__getattribute__": read, "__setattr__": write}
    return type(f"Probe{model.__name__}", (model,), parts)


def explore(start: Callable[[tuple[bool, ...]], P], body: Callable[[Any, P], T]) -> Iterator[tuple[P, T]]:
    """Run `body` on a probe once for each path, and yield each path with what came of it.

    Arguments:
        start: makes a path that gives the answers it is told.
        body: is run on the probe; it must ask the same questions whenever the answers are the same.

    Raises:
        Refusal: the code under the body did what no guard or effect may do, or cannot be followed.
    """
    todo: list[tuple[bool, ...]] = [()]
    for _ in range(MOST_PATHS):
        told = todo.pop()
        path = start(told)
        probe = object.__new__(probe_of(path.model))
        object.__setattr__(probe, "_path", path)
        result = body(probe, path)
        if path.refused is not None:
            raise Refusal(path.refused)
        answers = tuple(path.answers)
        if path.asked < len(told):
            raise Refusal("asks other questions when it is run again")
        todo += [(*answers[:index], False) for index in range(len(told), len(answers))]
        yield path, result
        if not todo:
            return
    raise Refusal(f"has more than {MOST_PATHS} paths")


def value_of(probe: Any, guard: str | None) -> bool:
    """Evaluate a guard as the machine does: a bool, or a method that returns one.

    Raises:
        Refusal: it is no bool, or it raises.
    """
    if guard is None:
        return True
    value = _quietly(guard, lambda: getattr(probe, guard))
    if callable(value):
        value = _quietly(guard, value)
    if type(value) is not bool:
        raise Refusal(f"the guard {guard!r} returns {_named(value)}, which is no bool")
    return value


def apply(probe: Any, effect: str | None) -> None:
    """Run an effect.

    Raises:
        Refusal: it raises.
    """
    if effect is not None:
        _quietly(effect, lambda: getattr(probe, effect)())


def _quietly(name: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Refusal as refusal:
        raise Refusal(f"{name!r} {refusal}") from None
    except Exception as error:
        raise Refusal(f"{name!r} raises {type(error).__name__}: {error}") from None


def _named(value: object) -> str:
    return "a number" if isinstance(value, Symbol) else repr(value)

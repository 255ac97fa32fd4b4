"""Tracebacks that keep their lines and lose their variables, which hold keys and prompts.

The variables of every frame hang on an exception for as long as it lives, and many things print them: pytest with
`--showlocals`, `rich`, error trackers. A key stands in the frames of the HTTP client as plain bytes, which no type of
ours can hide. So what leaves a public method has stand-ins for its frames: the same lines of the same files, and no
variables. (To clear the frames themselves would do the same, but `cgitb` cannot read those.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from functools import wraps
from inspect import iscoroutinefunction
from types import FrameType, FunctionType, GeneratorType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=type)

_ENDS: Final = (StopIteration, StopAsyncIteration)


def _stand_in() -> Generator[None]:
    yield


def _no_locations(units: int) -> bytes:
    """Return the location table of so many units of code that stand nowhere: entries of kind 15, 8 units at most."""
    return bytes(0x80 | 15 << 3 | min(8, units - done) - 1 for done in range(0, units, 8))


_CODE: Final = _stand_in.__code__.replace(co_linetable=_no_locations(len(_stand_in.__code__.co_code) // 2))
_READ_BY_PRINTERS: Final = ("__name__", "__file__", "__loader__", "__spec__")


def _frame_like(frame: FrameType) -> FrameType:
    """Return a frame that has the names of another one and no variable.

    It is a generator's that never ran: a frame that has run holds the one that called it, and that one's variables.
    """
    code = frame.f_code
    named = _CODE.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )
    known: dict[str, Any] = {name: frame.f_globals.get(name) for name in _READ_BY_PRINTERS}
    made: GeneratorType[None, None, None] = FunctionType(named, known)()
    return cast("FrameType", made.gi_frame)  # it has one until it has run


def _without_variables(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        line = trace.tb_lineno or trace.tb_frame.f_lineno or 1  # a signal may come at an instruction of no line
        entries.append((_frame_like(trace.tb_frame), line))
        trace = trace.tb_next
    made = None
    for frame, line in reversed(entries):
        made = TracebackType(made, frame, 0, line)
    return made


def forget_locals(error: BaseException, outer: BaseException | None = None) -> None:
    """Take the variables off the traceback of an exception, and off those of what it was raised from.

    Arguments:
        error: the exception.
        outer: what the caller was handling already; that, and what lies behind it, is the caller's own.
    """
    seen, waiting = {id(outer)}, [error]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _without_variables(each.__traceback__)
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def without_locals(function: Callable[P, R]) -> Callable[P, R]:
    """Let no variable of a function, or of what it calls, leave with the exceptions that it raises."""
    if iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            outer = sys.exception()
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                if not isinstance(error, _ENDS):
                    forget_locals(error, outer)
                raise

        return cast("Callable[P, R]", awaited)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        outer = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not isinstance(error, _ENDS):
                forget_locals(error, outer)
            raise

    return called


def built_without_locals(kind: K) -> K:
    """Let no argument of a class leave with the exceptions that its construction raises."""
    kind.__init__ = without_locals(kind.__init__)  # type: ignore[misc]
    return kind

"""What a process holds: memory, objects, descriptors, threads, tasks, and the size of every cache
of the library.
"""

import asyncio
import ctypes
import gc
import os
import sys
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from attrs import define, field

HOLDERS = (dict, set, list, deque, OrderedDict, WeakSet, WeakKeyDictionary, WeakValueDictionary)
RUNNING = {
    "tasks": asyncio.Task,
    "generators": GeneratorType,
    "async generators": AsyncGeneratorType,
    "coroutines": CoroutineType,
    "frames": FrameType,
    "exceptions": BaseException,
}


def memory() -> int:
    """Return the bytes that the process has resident."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")
    ] + [(name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use() -> int:
    """Return the bytes that glibc has given out and not taken back, beside Python's own blocks;
    elsewhere 0.
    """
    try:
        told = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return 0
    told.restype = _Mallinfo
    found: _Mallinfo = told()
    return int(found.uordblks + found.hblkhd)


def descriptors() -> int:
    """Count the open descriptors, but for the one that lists them."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        if Path(folder).exists():
            return len(os.listdir(folder)) - 1
    return 0


def caches() -> dict[str, int]:
    """Return the size of every cache and registry that a module of the library holds."""
    return {name: size for name, (size, _) in sorted(_caches())}


def largest() -> dict[str, int | None]:
    """Return how many entries each of them may have; None where that is said nowhere, and must not
    grow.
    """
    return {name: most for name, (_, most) in sorted(_caches())}


def _caches() -> Iterator[tuple[str, tuple[int, int | None]]]:
    from rungwise.adapters.wires.learned import LEARNED, MOST_PLACES

    yield "learned: lessons", (len(LEARNED._known), MOST_PLACES)
    yield "learned: servers", (len(LEARNED._servers), MOST_PLACES)
    yield "weakref.finalize", (len(weakref.finalize._registry), None)  # type: ignore[attr-defined]
    seen = set()  # a name that several modules import
    for name, module in list(sys.modules.items()):
        if not name.startswith("rungwise"):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in seen or not (hasattr(value, "cache_info") or type(value) in HOLDERS):
                continue
            seen.add(id(value))
            named = sys.intern(f"{name}.{attribute}")  # so that samples take no memory for it
            if hasattr(value, "cache_info"):
                found = value.cache_info()
                yield named, (found.currsize, found.maxsize)
            elif not attribute.startswith("__"):
                yield named, (len(value), None)


@define
class Garbage:
    """Count what the collector of cycles frees, from now on."""

    objects: int = field(default=0, init=False)
    passes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            self.objects += info["collected"]
            self.passes += 1


def counted() -> dict[str, Any]:
    """Collect garbage, and count everything."""
    for _ in range(3):  # what one pass lets go of may hold more
        gc.collect()
    objects = gc.get_objects()
    return {
        "memory": memory(),
        "in use": in_use(),
        "objects": len(objects),
        "blocks": sys.getallocatedblocks(),
        "descriptors": descriptors(),
        "threads": threading.active_count(),
        **{name: sum(isinstance(each, kind) for each in objects) for name, kind in RUNNING.items()},
    }


def types() -> Counter[str]:
    """Count the objects that the collector knows by their types."""
    gc.collect()
    return Counter(
        f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
    )

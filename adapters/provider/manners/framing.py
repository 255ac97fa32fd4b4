"""Manners of framing events, and of sending the bytes of a reply."""

from __future__ import annotations

import gzip
from typing import Final

FRAME: Final = b"data: "
MARK: Final = b"\xef\xbb\xbf"
PROCESSING: Final = b"data: : PROCESSING\n\n"
Frames = list[bytes]


def twice(frames: Frames) -> Frames:
    """Frame each event once more."""
    return [frame.replace(FRAME, FRAME + FRAME, 1) for frame in frames]


def bare(frames: Frames) -> Frames:
    """Send each object as a line, and nothing else."""
    lines = [frame.rstrip().rpartition(FRAME)[2] + b"\n" for frame in frames]
    return [line for line in lines if line.startswith(b"{")]


def close(frames: Frames) -> Frames:
    """Leave out the blank lines between events."""
    return [frame.rstrip() + b"\n" for frame in frames]


def alive(frames: Frames) -> Frames:
    """Send comments as data before the events."""
    return [PROCESSING, *frames]


def marked(frames: Frames) -> Frames:
    """Begin with a byte order mark."""
    return [MARK, *frames]


def spaced(frames: Frames) -> Frames:
    """Begin with blank lines."""
    return [b"\r\n \n", *frames]


def packed(frames: Frames) -> Frames:
    """Pack the body with gzip."""
    return [gzip.compress(b"".join(frames), mtime=0)]


def listed(frames: Frames) -> Frames:
    """Send the objects as one list."""
    lines = [frame.removeprefix(FRAME).rstrip() for frame in frames]
    return [b"[" + lines[0], *[b",\r\n" + line for line in lines[1:]], b"]"]

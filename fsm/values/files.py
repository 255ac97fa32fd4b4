"""Files from strangers, read up to a size; and TOML, read from outside and written here."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from os import PathLike
from typing import Any, BinaryIO, Final, TypeVar

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import short
from rungwise.fsm.values.patterns import Pattern

T = TypeVar("T", str, bytes, str | bytes)

LARGEST: Final = 32_000_000
"""The most bytes that are read of a journal or another file in JSON; a turn of 1,000 calls has a
tenth of that.
"""

BARE_KEY: Final = Pattern(r"[A-Za-z0-9_-]+")
"""A key that needs no quotes."""

LARGEST_TOML: Final = 2_000_000
"""The most characters of TOML that are read, which takes two seconds; a script of hostile replies
has a million.
"""

_UNSAFE: Final = Pattern(r"[^ -~]")


def check_size(text: str | bytes, largest: int = LARGEST) -> None:
    """Raise a ConfigurationError if a text is none, or is too large to be read."""
    if not isinstance(text, str | bytes):
        kind = type(text).__name__
        raise ConfigurationError(f"give its text, as path.read_text() returns it, not a {kind}")
    if len(text) > largest:
        raise ConfigurationError(
            f"larger than {largest // 1_000_000} MB, which is the most that is read of it"
        )


def without_mark(content: T) -> T:
    """Return a text, as one or as bytes in UTF-8, without the byte order mark that some editors
    write.

    Raises:
        ConfigurationError: the mark is that of another encoding.
    """
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        raise ConfigurationError("UTF-16 or UTF-32 text: convert it to UTF-8 first")
    return content.removeprefix(b"\xef\xbb\xbf")


def bytes_of_file(path: str | PathLike[str], largest: int = LARGEST) -> bytes:
    """Return the content of a file in UTF-8, without reading more than that much of it, and without
    a byte order mark.

    Raises:
        ConfigurationError: the file is larger, or its mark says that it is no UTF-8.
        OSError: it cannot be read.
    """
    with opened(path) as file:
        content = file.read(largest + 1)
    check_size(content, largest)
    return without_mark(content)


def opened(path: str | PathLike[str]) -> BinaryIO:
    """Open a file that somebody named, which may be a pipe, to read it once.

    A pipe that nobody writes to is at its end: one must not wait for a writer for ever. A terminal
    is read, too, and so is the null device.

    Raises:
        OSError: it cannot be opened; or it is a device, which may have no end, or a socket.
    """
    from pathlib import Path  # which most programs do without

    # `Path`, for a number is no path
    file = open(Path(path), "rb", opener=_without_waiting)  # noqa: SIM115  (the caller closes it)
    mode = os.fstat(file.fileno()).st_mode
    is_file = stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or file.isatty()
    if not is_file and not os.path.samefile(file.fileno(), os.devnull):
        file.close()
        raise OSError(errno.EINVAL, "it is a device or a socket, and no file", str(path))
    if stat.S_ISFIFO(mode):
        os.set_blocking(file.fileno(), True)
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # which Windows does not have


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ConfigurationError: the text is not TOML, too large, or nested too deeply, or has too long a
            number.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"TOML must be a text, not {type(text).__name__}")
    check_size(text, LARGEST_TOML)
    import tomllib  # which most programs do without

    try:
        # a byte order mark, which some editors write
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError("not readable TOML: it is nested too deeply") from None
    except ValueError:  # the only other fault: a number with more digits than Python reads
        raise ConfigurationError("not readable TOML: a number in it has too many digits") from None


def toml_in(package: str, name: str) -> dict[str, Any]:
    """Read a file of TOML that ships in a package of ours."""
    from importlib.resources import files  # likewise

    return read_toml(files(package).joinpath(name).read_text(encoding="utf-8"))


def text_of_file(path: str | PathLike[str]) -> str:
    """Return the text of a file in UTF-8.

    Raises:
        ConfigurationError: the file cannot be read or is too large; the message names it.
    """
    try:
        return bytes_of_file(path, LARGEST_TOML).decode("utf-8")
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path}: not UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except (ValueError, TypeError):  # a path can hold what no path may
        raise ConfigurationError(f"{short(path)} is not a path of a file") from None


def toml_of_file(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a file of TOML.

    Raises:
        ConfigurationError: the file cannot be read, or is no TOML; the message names it.
    """
    text = text_of_file(path)
    try:
        return read_toml(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def toml_value(value: object) -> str:
    """Write a text, a flag, a number, or a list or mapping of these as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = [f"{_toml_key(key)} = {toml_value(item)}" for key, item in value.items()]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)


def _toml_key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else toml_value(key)


def ascii_toml(value: object) -> str:
    """Write the same as `toml_value`, in ASCII, so that no terminal or editor can misread it."""
    return _UNSAFE.sub(_escaped, toml_value(value))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"

"""TOML as strangers write it."""

from __future__ import annotations

import tomllib
from typing import Any

from rungwise.fsm.errors import ConfigurationError


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ConfigurationError: it is none, or more than can be read.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"TOML must be a text, not {type(text).__name__}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError("not readable TOML: it is nested too deeply") from None
    except ValueError:  # of what is no fault of form, a number that Python does not read is all there is
        raise ConfigurationError("not readable TOML: a number in it has too many digits") from None

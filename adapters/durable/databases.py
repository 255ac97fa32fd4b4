"""The URL of a database of durable calls: a file of SQLite, or Postgres."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rungwise.fsm.errors import ConfigurationError


def need_dbos() -> None:
    """Raise a ConfigurationError that names the extra if DBOS is not installed."""
    if find_spec("dbos") is None:
        raise ConfigurationError("this needs DBOS: pip install 'rungwise[durable]'")


def is_postgres(url: str) -> bool:
    """Tell whether a database is one of Postgres."""
    return urlsplit(url).scheme in ("postgresql", "postgres")


def path_of_file(url: str) -> Path:
    """Return the file of a database of SQLite.

    Raises:
        ConfigurationError: the URL is of neither kind.
    """
    parts = urlsplit(url)
    path = Path(unquote(parts.path.removeprefix("/")))
    if parts.scheme != "sqlite" or parts.netloc or not path.name or path.name == ":memory:":
        raise ConfigurationError("database must be a URL such as sqlite:///rungwise.sqlite or postgresql://host/name")
    return path


def check_exists(url: str) -> None:
    """Raise a ConfigurationError if the file of a database is not there; reading it would make an empty one."""
    if not is_postgres(url) and not path_of_file(url).is_file():
        raise ConfigurationError(f"database: there is no file {path_of_file(url)}")

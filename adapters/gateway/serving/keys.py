"""The keys of the proxy's clients: one from the environment, those of its own file, and those of
files and folders that are read again when they change.

Theory
------

Only hashes of keys are held. A request finds its key in a dictionary whose index is a hash keyed
with a secret of this process: how long the search takes says nothing of the keys that there are,
for nobody outside can tell what he compares. What is found is compared in constant time.

A file that changed is read with the first request a second later, before that is answered. So who
is no longer in a file is refused at once, and no task runs beside the requests. A file with a
mistake keeps the keys that it had; the others of its folder count as they are.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Any, Final

from attrs import evolve, field, frozen

from rungwise.adapters.gateway.serving.callers import Caller
from rungwise.adapters.gateway.writing import LOGGER
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Budget
from rungwise.fsm.call.policy_values import from_mapping, unknown
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import toml_of_file
from rungwise.fsm.values.label import label
from rungwise.fsm.values.secret import Secret

SHORTEST: Final = 16
"""The fewest characters of a key that stands in a file."""
EVERY: Final = 1.0
"""The seconds after which the files of a folder are looked at again."""

_FIELDS: Final = ("key", "key_env", "chains", "budget", "admin")
_SHA256: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_HEADERS: Final = ("x-api-key", "x-goog-api-key")


@frozen(eq=False)
class ClientKey:
    """Hold whom a key stands for; of the key itself, and of others for the same, only the hashes.

    Arguments:
        caller: whose calls it makes.
        hashes: the SHA-256 of each key.
        is_admin: whether it may read metrics and reload the chains.
    """

    caller: Caller
    hashes: tuple[bytes, ...] = field(repr=False)
    is_admin: bool = False


def keys_in(document: Mapping[str, Any], source: str) -> list[ClientKey]:
    """Read the tables `[key.NAME]` of a file.

    Arguments:
        document: the file, as TOML was read.
        source: its name, for errors, which never hold a key.

    Raises:
        ConfigurationError: one of them is malformed.
    """
    tables = document.get("key", {})
    if not isinstance(tables, Mapping):
        raise ConfigurationError(f"{source}: key must be tables, as in [key.team-a]")
    found = []
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{source}: a key is a table with a name, as in [key.team-a]")
        try:
            found.append(_key_in(name, table))
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: key.{label(name)}: {error}") from None
    return found


def _key_in(name: str, table: Mapping[str, Any]) -> ClientKey:
    """Read one table."""
    for each in table:
        if each not in _FIELDS:
            raise ConfigurationError(unknown("key", each, _FIELDS))
    hashes = [_hash_of(each) for each in _texts(table, "key")]
    for variable in _texts(table, "key_env"):
        value = os.environ.get(variable, "")
        if not value.strip():
            raise ConfigurationError("key_env must name environment variables that hold a key")
        hashes.append(_digest(value))
    is_admin = table.get("admin", False)
    if not isinstance(is_admin, bool):
        raise ConfigurationError("admin must be true or false")
    if not hashes:
        raise ConfigurationError('it needs a key: key = "sha256:..." or key_env = "NAME"')
    within = None
    if "budget" in table:
        within = _budget_in(name, table["budget"])
    caller = Caller(name, chains=table.get("chains"), within=within)
    return ClientKey(caller, tuple(hashes), is_admin)


def _texts(table: Mapping[str, Any], name: str) -> list[str]:
    """Return the text, or the list of texts, under a name; errors do not show it."""
    value = table.get(name, [])
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        raise ConfigurationError(f"{name} must be a text, or a list of texts")
    return texts


def _hash_of(key: str) -> bytes:
    hashed = _SHA256.fullmatch(key)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if key.startswith("sha256:") or len(key) < SHORTEST:
        raise ConfigurationError(
            f"key must be sha256: and 64 hexadecimal digits, or itself of {SHORTEST} or more "
            "characters"
        )
    return _digest(key)


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def _budget_in(name: str, table: Any) -> SharedBudget:
    """Read the budget of a key."""
    if not isinstance(table, Mapping) or "per" not in table:
        raise ConfigurationError(
            'budget must be a table with its period, as in {money = 50, per = "day"}'
        )
    ceilings = {"attempts": MOST_ATTEMPTS, "seconds": None, **table}
    options = {}
    for each in ("per", "without_store"):
        if each in ceilings:
            options[each] = ceilings.pop(each)
    return SharedBudget(from_mapping(Budget, ceilings), name=f"key {name}", **options)


Check = Callable[[ClientKey], object]
"""Raises a ConfigurationError for a key that cannot be used."""
Tell = Callable[[str], object]
_Read = tuple[int, list[ClientKey]]
"""The time of a file, and the keys that stand in it."""


class Keys:
    """Find whose key a request shows.

    Arguments:
        folder: holds files that end in `.toml`, with tables `[key.NAME]`; None for no such folder.
        one: a key beside these, with every right but that of an administrator.
        clock: returns seconds.
        tell: called with what is wrong with a file that has changed.

    Raises:
        ConfigurationError: a file is malformed, or two keys have one name or are the same.
        OSError: the folder cannot be read.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        one: Secret | None = None,
        clock: Callable[[], float] = time.monotonic,
        tell: Tell = LOGGER.warning,
    ) -> None:
        self.is_wanted = folder is not None or one is not None  # whether requests must show a key
        self._folder = folder
        self._clock = clock
        self._tell = tell
        self._check: Check = bool
        self._one: list[ClientKey] = []
        if one is not None:
            self._one.append(ClientKey(Caller(), (_digest(one.reveal()),)))
        self._listed: list[ClientKey] = []  # those of the proxy's own file
        self._files: dict[str, _Read] = {}
        self._budgets: dict[tuple[str, str | None], SharedBudget] = {}
        self._salt = secrets.token_bytes(32)
        self._found: dict[bytes, ClientKey] = {}
        self._looked = clock()
        self._read_files(_refuse)
        self.take([], bool)

    @property
    def are_named(self) -> bool:
        """Tell whether keys have names, so that not everybody who has one is trusted alike."""
        return self._folder is not None or bool(self._listed)

    def take(self, listed: list[ClientKey], check: Check) -> None:
        """Replace the keys of the proxy's own file, and what checks every key.

        Raises:
            ConfigurationError: a key is wrong, in whichever file; then nothing is replaced.
        """
        found = self._index(listed, _refuse)
        for key in found.values():
            check(key)
        self._found = self._with_budgets(found)
        self._listed = listed
        self._check = check
        self.is_wanted = self.is_wanted or bool(listed)

    def find(self, headers: Mapping[str, str]) -> ClientKey | None:
        """Return the key that a request shows; None if it shows none that is known.

        Arguments:
            headers: with names in lower case.
        """
        now = self._clock()
        if self._folder is not None and now - self._looked >= EVERY:
            self._looked = now
            self._look_again()
        shown = [headers.get("authorization", "").partition(" ")[2]]
        shown += [headers.get(name, "") for name in _HEADERS]
        for digest in map(_digest, filter(None, shown)):
            key = self._found.get(self._place(digest))
            if key is not None and any(compare_digest(digest, each) for each in key.hashes):
                return key
        return None

    def _place(self, digest: bytes) -> bytes:
        return blake2b(digest, key=self._salt).digest()

    def _look_again(self) -> None:
        try:
            if self._read_files(self._tell):
                self._found = self._with_budgets(self._index(self._listed, self._tell))
        except OSError as error:
            self._tell(f"{self._folder}: {error.strerror}; all keys are as before")

    def _read_files(self, tell: Tell) -> bool:
        """Read the files that have changed; tell whether any has."""
        if self._folder is None:
            return False
        files: dict[str, _Read] = {}
        for name in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, name)
            if not name.endswith(".toml"):
                continue
            changed = os.stat(path).st_mtime_ns
            known: _Read | None = self._files.get(path)
            files[path] = (changed, [] if known is None else known[1])
            if known is None or changed != known[0]:
                try:
                    files[path] = (changed, self._keys_of_file(path))
                except ConfigurationError as error:
                    tell(f"{error}; the keys of this file are as before")
        is_same = files == self._files
        self._files = files
        return not is_same

    def _keys_of_file(self, path: str) -> list[ClientKey]:
        document = toml_of_file(path)
        if document.keys() - {"key"}:
            raise ConfigurationError(f"{path}: a file of keys holds tables [key.NAME] alone")
        keys = keys_in(document, path)
        for key in keys:
            self._check(key)
        return keys

    def _index(self, listed: list[ClientKey], tell: Tell) -> dict[bytes, ClientKey]:
        """Return the keys by the places of their hashes; of two that are alike, the first."""
        found: dict[bytes, ClientKey] = {}
        names: set[str] = set()
        in_files = [key for _, keys in self._files.values() for key in keys]
        for key in [*self._one, *listed, *in_files]:
            name = key.caller.name
            places = [self._place(each) for each in key.hashes]
            if name in names or not found.keys().isdisjoint(places):
                tell(f"key.{name}: the same name or key is there twice, and the first one counts")
                continue
            names.add(name)
            found |= dict.fromkeys(places, key)
        return found

    def _with_budgets(self, found: dict[bytes, ClientKey]) -> dict[bytes, ClientKey]:
        """Return keys, each with the budget of its name and period that knows what is spent."""
        for place, key in found.items():
            within = key.caller.within
            if within is None:
                continue
            kept = self._budgets.setdefault((within.name, within.per), within)
            if kept is not within:
                kept.adopt(within)
                found[place] = evolve(key, caller=evolve(key.caller, within=kept))
        return found


def _refuse(what: str) -> None:
    """Take what is wrong with a file for an error."""
    raise ConfigurationError(what)

"""`rungwise proxy` in this process, as its command makes it, with files and clocks of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from attrs import define, field

from rungwise.adapters.cli.backends import clients_in
from rungwise.adapters.cli.proxy import _app
from rungwise.adapters.gateway.serving.keys import Keys, keys_in
from rungwise.adapters.gateway.serving.reload import Reloading
from rungwise.fsm.values.files import toml_of_file
from rungwise.testing import Clocks
from support.gateways import path_of, written
from support.proxied import served

NOON = 1_773_144_000.0
"""The 10th of March 2026, 12:00 UTC: half a day before the next one."""
DAY = 86_400.0
OPTIONS: dict[str, Any] = {
    "ping": 0.0,
    "hold": False,
    "forward": False,
    "journals": None,
    "hosts": (),
}


def hashed(key: str) -> str:
    """Return a key as a file may hold it."""
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def backend(name: str, url: str, model: str = "m", *, api: str = "openai", more: str = "") -> str:
    """Return the table of a backend of a chain."""
    return (
        f'[[chain."{name}"]]\napi = "{api}"\nmodel = "{model}"\nbase_url = "{url}"\n'
        f'key_env = "BACKEND_KEY"\n{more}\n'
    )


@define(eq=False)
class Operated:
    """The files of a proxy, and what it is asked.

    Arguments:
        folder: where the files are written.
        one: the key of every client, if there is one.
        options: of the application.
    """

    folder: Path
    one: Any = None
    options: dict[str, Any] = field(factory=dict)
    days: float = 0.0  # by which the wall clock is ahead
    seconds: float = 0.0  # on the clock by which files are looked at
    told: list[str] = field(factory=list)
    url: str = ""
    app: Any = None
    _open: ExitStack = field(factory=ExitStack)

    @property
    def file(self) -> Path:
        return self.folder / "chains.toml"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    def key_file(self, text: str, name: str = "team.toml") -> None:
        """Write a file of keys, and let the time pass after which the proxy looks at it."""
        self.keys.mkdir(exist_ok=True)
        (self.keys / name).write_text(text)
        os.utime(self.keys / name, ns=(0, self.keys.stat().st_mtime_ns + int(self.seconds)))
        self.seconds += 2

    def read(self) -> Any:
        clocks = Clocks(wall_clock=lambda: NOON + self.days * DAY)
        clients = clients_in(str(self.file), testing=clocks)
        return clients, keys_in(toml_of_file(self.file), "chains.toml")

    @contextmanager
    def open(self) -> Iterator[Operated]:
        """Stop serving at the end."""
        with self._open:
            yield self

    def start(self) -> None:
        """Serve the proxy from now on."""
        folder = str(self.keys) if self.keys.exists() else None
        keys = Keys(folder, one=self.one, clock=lambda: self.seconds, tell=self.told.append)
        clients, listed = self.read()
        self.app = _app(clients, keys, 20, **{**OPTIONS, **self.options})
        Reloading(self.app, self.read).begin(clients, listed)
        self.url = self._open.enter_context(served(self.app))

    def ask(
        self, key: str | None = None, api: str = "openai", *, streams: bool = False, **fields: Any
    ) -> httpx.Response:
        """Send a model call."""
        body = written(api, **fields)
        if streams and api != "gemini":
            body["stream"] = True
        path = path_of(api, streams=streams).replace("asked-for", fields.get("model", "any"))
        return self.post(path, key, body)

    def post(self, path: str, key: str | None = None, body: Any = None) -> httpx.Response:
        """Send anything."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.post(self.url + path, json=body, headers=headers)

    def get(self, path: str, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.get(self.url + path, headers=headers)

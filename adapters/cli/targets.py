"""A backend as the command line names it, in one word or by options."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.endpoint import read_url
from rungwise.adapters.wires.registry import APIS

CHAT: Final = "chat"
APIS_BY_NAME: Final = (*APIS, CHAT)
"""What `--api` takes: `openai` chooses between the two protocols of OpenAI's, `chat` does not."""


@frozen
class Target:
    """Name a backend as the command line does, or a table of `[[chain.NAME]]` in a file."""

    api: str
    url: str | None  # None for the provider's own
    model: str
    # The variables that hold its keys, with commas between them. "" for a server that takes none;
    # None for the variable that the provider's own client reads.
    key_env: str | None = None
    is_fallback: bool = field(default=True, kw_only=True)
    is_listed: bool = field(default=False, kw_only=True)  # in a file

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the variables that hold its keys."""
        return tuple(self.key_env.split(",")) if self.key_env else ()

    @property
    def option_of_key(self) -> str:
        """Return the option that names its variable, or the key in its table."""
        if self.is_listed:
            return "key_env"
        return "--fallback" if self.is_fallback else "--api-key-env"

    @property
    def otherwise(self) -> str:
        """Say what else to do about a missing key."""
        return f"or name the variable that holds it{_NAMED_BY[self.option_of_key]}"

    @property
    def place(self) -> str:
        """Return the URL."""
        return self.url or backend_class(self.protocol).DEFAULT_URL

    @property
    def protocol(self) -> str:
        """Return the name of the protocol in the registry, or of the first of several."""
        return "openai" if self.api == CHAT else self.api

    @property
    def origin(self) -> str:
        """Return what a key belongs to: the scheme, the host and the port."""
        return read_url(self.place, "").origin


_NAMED_BY: Final = {
    "--api-key-env": " with --api-key-env ('' for a server that takes no key)",
    "--fallback": ", as in URL#MODEL#KEYENV (URL#MODEL# for a server that takes no key)",
    "key_env": ' with key_env ("" for a server that takes no key)',
}
"""How to name the variable, by the option that does."""

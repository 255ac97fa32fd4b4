"""What the scripts of worst cases are about: the policy as it was named, the request, and where it is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from rungwise.fsm.call.conversation.link import Prices


@frozen
class Served:
    """Say where a script is served.

    Arguments:
        port: of this machine.
    """

    port: int

    @property
    def text(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.port}/v1"


URL: Final = Served(8080)


@frozen
class Asked:
    """Hold what a certificate was asked about.

    Arguments:
        policy: the policy as the command line was given it; None for the default one.
        is_turn: whether it is of turns.
        max_tokens: the output cap of the first request.
        input_tokens: the tokens of the prompt.
        prices: of every backend.
    """

    policy: str | None
    is_turn: bool
    max_tokens: int | None
    input_tokens: int | None
    prices: Prices | None

    @property
    def price_text(self) -> str | None:
        """Write the prices as the command line takes them."""
        if self.prices is None:
            return None
        return "/".join(repr(price).removesuffix(".0") for price in (self.prices.input, self.prices.output))

    @property
    def told(self) -> str:
        """Name what is known of the request."""
        known = {"max_tokens": self.max_tokens, "input_tokens": self.input_tokens, "prices": self.price_text}
        return ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)

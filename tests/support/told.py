"""What each backend of a chain is sent of a request, and what is said to be left out of it."""

from typing import Any

from attrs import frozen

from rungwise import Client, Result
from rungwise.testing import ScriptedReply
from support import modes, protocols
from support.runs import NAMES, Serve

DOWN, ANSWER = ScriptedReply(status=401), ScriptedReply(text="In the reeds.")


@frozen
class Told:
    """A call over a chain of which the last backend alone answers.

    Arguments:
        result: of the call.
        bodies: what each backend was sent.
        losses: what the check says beforehand that each of them loses.
    """

    result: Result
    bodies: list[Any]
    losses: list[tuple[str, ...]]

    @property
    def body(self) -> Any:
        """What the last backend was sent."""
        return self.bodies[-1]

    @property
    def lost(self) -> tuple[str, ...]:
        """What the last backend loses."""
        return self.losses[-1]

    @property
    def notes(self) -> list[str | None]:
        """What the journal says of each attempt."""
        return [step.note for step in self.result.journal.steps if step.event == "sent"]


def told(
    serve: Serve,
    *chain: str | dict[str, Any],
    messages: Any = "Where?",
    mode: str = "call",
    **options: Any,
) -> Told:
    """Check a call, and make it.

    Arguments:
        chain: the protocol of each backend, or its options with the protocol under "api".
        options: for the call.
    """
    providers = [
        serve(ANSWER if place == len(chain) else DOWN) for place in range(1, len(chain) + 1)
    ]
    backends = []
    for each, provider, name in zip(chain, providers, NAMES, strict=False):
        given = {"api": each} if isinstance(each, str) else each
        backends.append(protocols.backend(base_url=provider.base_url, **{"name": name, **given}))
    with Client(backends) as client:
        losses = [found.losses for found in client.check(messages, **options).backends]
        result = modes.ask(client, mode, messages, **options)
    return Told(result, [provider.requests[0].body for provider in providers], losses)

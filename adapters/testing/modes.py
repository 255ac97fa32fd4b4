"""The methods of a client by which a call can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.conversation.request import Request
    from rungwise.fsm.call.run.result import Result

MODES: Final = ("call", "stream", "acall", "astream")


def is_streaming(mode: str) -> bool:
    """Tell whether a method hands out what comes as it comes."""
    return mode in ("stream", "astream")


def is_async(mode: str) -> bool:
    """Tell whether an event loop runs the call."""
    return mode in ("acall", "astream")


def ask(
    client: Client, mode: str, request: Request, events: list[object], most: int | None = None, **options: Any
) -> Result:
    """Make a call, and return how it ended.

    Arguments:
        events: is filled with what a consumer of the stream is given.
        most: the number of events after which the consumer goes away; None stays.
        options: what else the methods of a client take.
    """
    if not is_streaming(mode):
        return client.call(request, **options)
    with client.stream(request, **options) as stream:
        while len(events) != most and (event := next(stream, None)) is not None:
            events.append(event)
    return stream.result


async def ask_async(
    client: Client, mode: str, request: Request, events: list[object], most: int | None = None, **options: Any
) -> Result:
    """Do what `ask` does on an event loop."""
    if not is_streaming(mode):
        return await client.acall(request, **options)
    async with client.astream(request, **options) as stream:
        while len(events) != most and (event := await anext(stream, None)) is not None:
            events.append(event)
    return stream.result

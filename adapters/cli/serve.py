"""`rungwise serve`: the embedded provider alone, for any client."""

from __future__ import annotations

import contextlib
import errno
import time
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.clients import asked_in, pointers, text_of
from rungwise.adapters.cli.output import bad_input, counted, note, one_line, put, shortened

if TYPE_CHECKING:
    from rungwise.adapters.provider.playback import ReceivedRequest
    from rungwise.adapters.provider.script import Script, ScriptedReply
    from rungwise.adapters.provider.server import EmbeddedProvider

LOOK_SECONDS: Final = 0.05
SHOWN_CHARACTERS: Final = 40


@click.command(short_help="Serve a script of replies, good and bad, as any provider on this machine.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="N",
    help="The port to listen on; 0 takes any that is free.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The IPv4 address to listen on.")
def serve(script: str, port: int, host: str) -> int:
    """Serve SCRIPT, a TOML file of replies, over the protocols of all providers at once, streaming included.

    The base URL goes to stdout. It serves Rungwise in every protocol, and those clients of providers whose own base
    URLs end in /v1; stderr says how each client is pointed there, and has a line for each request. Which protocol is
    meant shows in the path. Ctrl-C ends it, with exit code 0.

    \b
    A script is a list of replies, taken in order; the last one is repeated:
      [[replies]]
      status = 429
      headers = { retry-after = "2" }
      [[replies]]
      text = "The first half arrives, the second one does not."
      cut_after = 700          # bytes of the body
      [[replies]]
      text = "All is well again."

    \b
    What a reply may hold:
      text, reasoning, tool_calls, refusal, finish, usage, model
      status, error, headers, body, error_event      in place of a reply
      delay, chunk_delay, lasts                      how long it takes
      hang, cut_after, done                          how it breaks
      chunk_size, write_sizes                        in which pieces
      reasoning_field, final_message                 dialects

    The replies go to the requests in the order in which these come, whichever model they ask: one script plays all the
    backends of a chain that are pointed at it. `rungwise verify --scripts` writes such scripts, of worst cases.

    In front of the replies, after = "error" lets status 500 follow the last one, and after = "loop" the first one.

    \b
    Examples:
      rungwise serve script.toml --port 8080
      rungwise ask "Hello" --base-url http://127.0.0.1:8080/v1 --model any
      rungwise ask "Hello" --api anthropic --base-url http://127.0.0.1:8080/v1 --model any

    \b
    Exit codes:
      0  ended by Ctrl-C
      2  the script cannot be read, or the port is taken
    """
    from rungwise.adapters.provider.script import Script

    replies = Script.load(script)
    with contextlib.suppress(KeyboardInterrupt), _listen(replies, host, port) as provider:
        put(f"{provider.base_url}\n")
        for pointer in pointers(provider.base_url):
            note(f"  {pointer}", dim=True)
        note(f"serving {script}; Ctrl-C ends it", dim=True)
        _report(provider, replies)
    return 0


def _listen(script: Script, host: str, port: int) -> EmbeddedProvider:
    from rungwise.adapters.provider.server import EmbeddedProvider

    try:
        return EmbeddedProvider(script, host=host, port=port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            bad_input(f"port {port} of {host} is taken: choose another, or 0 for any that is free")
        if error.errno == errno.EACCES:
            bad_input(f"port {port} of {host} is not yours to open: choose one above 1023, or 0 for any that is free")
        bad_input(f"cannot listen on {host} ({error.strerror}): give an IPv4 address of this machine")


def _report(provider: EmbeddedProvider, script: Script) -> None:
    """Write a line for each request, for ever."""
    seen = 0
    while True:
        for request in provider.requests[seen:]:
            seen += 1
            note(_line(seen, request, script.reply(seen - 1)))
        time.sleep(LOOK_SECONDS)


def _line(number: int, request: ReceivedRequest, reply: ScriptedReply) -> str:
    asked = asked_in(request)
    role, text = text_of(asked.messages[-1] if asked.messages else None)
    parts = [
        f"model {asked.model}",
        counted(len(asked.messages), "message"),
        f"last {role} {shortened(text, SHOWN_CHARACTERS)}",
        f"cap {asked.cap}" if asked.cap is not None else None,
        "stream" if asked.streams else None,
    ]
    return one_line(f"{number}  {', '.join(part for part in parts if part)}  <- {_summary(reply)}")


def _summary(reply: ScriptedReply) -> str:
    given: dict[str, Any] = reply.given
    status = f"HTTP {reply.status}"
    return ", ".join([status, *(name for name in given if name not in ("status", "chunk_size", "write_sizes"))])

"""`rungwise serve`: the embedded provider alone, for any client."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from attrs import frozen

from rungwise.adapters.cli.output import bad_input, counted, note, one_line, put, shortened
from rungwise.adapters.cli.shared_options import number_option
from rungwise.adapters.gateway.languages import CHAT, language_of
from rungwise.adapters.gateway.languages.language import SpokenLanguage
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.adapters.wires.registry import WIRES

if TYPE_CHECKING:
    from rungwise.adapters.provider.script import Script, ScriptedReply
    from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest

LOOK_SECONDS: Final = 0.05  # between two looks for requests
SHOWN_CHARACTERS: Final = 40  # of the last message of a request


@click.command(
    short_help="Serve a script of good and bad replies on this machine, as any provider."
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@number_option("--port", 0, (0, 65535), "The port to listen on; 0 picks a free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The IPv4 address to listen on."
)
def serve(script: str, port: int, host: str) -> int:
    """Serve SCRIPT, a TOML file of replies, in the protocols of all providers at once, streaming
    included.

    The base URL goes to stdout. It works for Rungwise in every protocol, and for clients whose base
    URL ends in /v1. stderr shows how to point each client at the server, and has a line for each
    request. The path of a request selects the protocol. Ctrl-C ends the server, with exit code 0.

    \b
    A script is a list of replies, used in order; the last one repeats:
      [[replies]]
      status = 429
      headers = { retry-after = "2" }
      [[replies]]
      text = "The first half arrives, the second one does not."
      cut_after = 700          # bytes of the body
      [[replies]]
      text = "All is well again."

    \b
    Fields of a reply:
      text, reasoning, tool_calls, refusal, finish, usage, model
      status, error, headers, body, error_event      an error instead
      delay, chunk_delay, lasts                      its timing
      hang, cut_after, done                          how it breaks off
      chunk_size, write_sizes                        in which pieces
      reasoning_field, final_message                 dialects

    Requests get the replies in order of arrival, whichever model they ask: one script plays all
    backends of a chain that point at it. `rungwise verify --scripts` writes such scripts for worst
    cases.

    With after = "error" above the replies, status 500 follows the last one; with after = "loop",
    the first one does.

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
    from rungwise.adapters.provider.server import EmbeddedProvider

    replies = Script.load(script)
    with contextlib.suppress(KeyboardInterrupt):
        try:
            provider = EmbeddedProvider(replies, host=host, port=port)
        except OSError as error:
            refuse_address(error, host, port)
        with provider:
            _point_at(provider.base_url, script)
            _report(provider, replies)
    return 0


def _point_at(base_url: str, script: str) -> None:
    """Say where the server is, and how to point clients at it."""
    put(f"{base_url}\n")
    for pointer in pointers(base_url):
        note(f"  {pointer}", dim=True)
    note(f"serving {script}; Ctrl-C ends it", dim=True)


def refuse_address(error: OSError, host: str, port: int) -> NoReturn:
    """Say why an address cannot be listened on, and stop the command."""
    if error.errno == errno.EADDRINUSE:
        bad_input(f"port {port} of {host} is taken: choose another, or 0 for any that is free")
    if error.errno == errno.EACCES:
        bad_input(
            f"port {port} of {host} is not yours to open: choose one above 1023, or 0 for any "
            "that is free"
        )
    bad_input(f"cannot listen on {host} ({error.strerror}): give an IPv4 address of this machine")


def _report(provider: EmbeddedProvider, script: Script) -> None:
    """Write a line for each request as it comes, for ever."""
    count = 0
    while True:
        for request in provider.requests[count:]:
            count += 1
            note(_line(count, request, script.reply(count - 1)))
        time.sleep(LOOK_SECONDS)


def _line(number: int, request: ReceivedRequest, reply: ScriptedReply) -> str:
    """Describe a request and its reply."""
    summary = summary_of(request)
    messages = summary.messages
    role, text = text_of(messages[-1] if messages else None)
    asked = [f"model {summary.model}", counted(len(messages), "message")]
    asked.append(f"last {role} {shortened(text, SHOWN_CHARACTERS)}")
    if summary.cap is not None:
        asked.append(f"cap {summary.cap}")
    if summary.streams:
        asked.append("stream")
    got = [f"HTTP {reply.status}"]
    got += [name for name in reply.given if name not in ("status", "chunk_size", "write_sizes")]
    return one_line(f"{number}  {', '.join(asked)}  <- {', '.join(got)}")


@frozen
class RequestSummary:
    """Hold what is shown of a request."""

    model: str
    messages: list[Any]  # in the form of the protocol
    cap: object  # of output tokens; None without one
    streams: bool


def pointers(base_url: str, *, of_gateway: bool = False) -> Iterator[str]:
    """Yield a line for each protocol: how to point its client at a server.

    Arguments:
        base_url: the URL of the server, which ends in `/v1`.
        of_gateway: whether it is a gateway, which speaks fewer protocols.
    """
    root = base_url.removesuffix("/v1")
    for wire in WIRES.values():
        language = language_of(wire.client_path)
        if language is not None and (isinstance(language, SpokenLanguage) or not of_gateway):
            yield f"{wire.protocol:<17} {wire.client.format(root + wire.client_base)}"


def summary_of(request: ReceivedRequest) -> RequestSummary:
    """Return what is shown of a request in any protocol."""
    body = request.body
    path = request.path.partition("?")[0]
    language = language_of(path) or CHAT
    parsed = language.read_request(path, body, 0)
    messages = body.get(language.conversation)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    elif not isinstance(messages, list):
        messages = []
    return RequestSummary(parsed.model, messages, language.cap_in(body), parsed.streams)


_ROLES: Final = {"user_input": "user", "model_output": "assistant"}
"""The roles of the steps of an interaction, by their types."""


def text_of(message: object) -> tuple[str, object]:
    """Return the role and the text of a message in any protocol.

    Content without text is returned as it is.
    """
    if not isinstance(message, Mapping):
        return "None", None
    role = message.get("role", _ROLES.get(str(message.get("type"))))
    content = message.get("content")
    if isinstance(content, str) or not isinstance(role, (str, type(None))):
        return str(role), content
    text = ""
    for part in read_message(message):
        text += part.text or "".join(result.text for result in part.tool_results)
    return str(role or message.get("type")), text or content

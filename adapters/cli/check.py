"""`rungwise check`: what becomes of a request at each backend of a chain, before anything is
sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from rungwise.adapters.cli.backends import chain_of, chain_options
from rungwise.adapters.cli.output import bad_input, put
from rungwise.adapters.cli.shared_options import (
    TOKENS,
    TOOLS,
    file_option,
    flag_option,
    read_json,
    returns_option,
    system_option,
    text,
)
from rungwise.adapters.cli.targets import Target
from rungwise.fsm.call.conversation.request import Request

PICTURE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
"""What stands for a picture. Nothing is sent, so it need not be one."""

_OWN: Final = ("model", "stream", "stream_options")
"""Members of a body that are no part of a request: the backend and the method decide them."""


@click.command(
    short_help="Show what each backend of a chain would lose of a request; nothing is sent."
)
@click.argument("prompt", default="Hello", callback=text)
@chain_options
@file_option(
    "--request",
    "request_file",
    exists=True,
    help="A request in JSON instead of PROMPT: a chat-completions body, or a list of messages.",
)
@system_option
@click.option("--max-tokens", type=TOKENS, metavar="N", help="The output cap.")
@click.option("--tools", type=TOOLS, metavar="module:NAME", help="Tools, as for rungwise ask.")
@flag_option("--image", "has_image", help="Pretend that the prompt holds a picture.")
@returns_option
@flag_option("--discover", help="Ask self-hosted servers what they are; these requests are sent.")
def check(prompt: str, targets: tuple[Target, ...], **options: Any) -> int:
    """List for each backend whether it can be used, what it would lose of the request, and what is
    unknown.

    Losses are: options that its protocol lacks, tools that the model cannot call, pictures and
    documents that it cannot see, a schema that it cannot be held to, and messages that do not fit
    its window, by an estimate. Facts about models come from a table; what is unknown does not count
    as a loss.

    \b
    Exit codes:
      0    nothing is lost, as far as is known
      1    something is lost, or a backend cannot be used
      2    bad input

    \b
    Examples:
      rungwise check --model gpt-4o --fallback anthropic:claude-sonnet-4-5 --image
      rungwise check --model gpt-4o --fallback http://localhost:8000/v1#llama \\
          --request body.json
    """
    from rungwise.adapters.check import check_request

    chain: list[Any] = chain_of(targets, lambda model: None, needs_all=False)
    is_unusable = all(backend.problem for backend in chain)  # then no client can be made
    if options["discover"] and not is_unusable:
        from rungwise.adapters.client import Client

        with Client(chain) as client:
            client.discover()
            chain = list(client.chain)
    report = check_request(_request(prompt, chain, **options), chain)
    put(f"{report}\n")
    return 0 if report else 1


def _request(prompt: str, chain: list[Any], *, request_file: str | None, **options: Any) -> Request:
    """Make the request: that of a file, or the prompt, with what the options add."""
    if request_file is not None:
        body = _read(request_file)
    else:
        content: Any = prompt
        if options["has_image"]:
            content = [{"type": "text", "text": prompt}, PICTURE]
        body = {"messages": [{"role": "user", "content": content}]}
    messages = body.pop("messages")
    if options["system"]:
        messages = [{"role": "system", "content": options["system"]}, *messages]
    tools = body.pop("tools", None) or ()
    if options["tools"] is not None:
        tools = (*tools, *options["tools"].definitions(chain[0].shapes))
    fields: dict[str, Any] = {"tools": tools}
    if options["max_tokens"] is not None:
        fields["max_tokens"] = options["max_tokens"]
    if options["returns"] is not None:
        json_schema = {"name": "answer", "schema": options["returns"].schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    taken = {*_OWN, *fields}
    parameters = {name: value for name, value in body.items() if name not in taken}
    return Request(messages, parameters=parameters, **fields)


def _read(file: str) -> dict[str, Any]:
    """Read a body, or a list of messages, from a file."""
    content = read_json("--request", file)
    if isinstance(content, list):
        return {"messages": content}
    if not isinstance(content, Mapping) or not isinstance(content.get("messages"), list):
        bad_input(f"--request: {file} must hold a list of messages, or an object with 'messages'")
    return dict(content)

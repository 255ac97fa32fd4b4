"""`rungwise ask`: one call, or one turn with tools, to any provider."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.backends import chain_of, chain_options
from rungwise.adapters.cli.chains import check_prices, price_list
from rungwise.adapters.cli.output import bad_input, is_terminal, note, prints_aside, require_stdout
from rungwise.adapters.cli.policies import METAVAR, TOOLS_POLICY, default_of
from rungwise.adapters.cli.running import (
    JOURNAL_LOST,
    PrintedAnswer,
    Shown,
    answer_to_stdout,
    ctrl_c_cancels,
    writing_journal,
)
from rungwise.adapters.cli.shared_options import (
    TOKENS,
    TOOLS,
    HeadedCommand,
    file_option,
    flag_option,
    moment,
    prices_option,
    returns_option,
    store_option,
    system_option,
    text,
    under,
)
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import LARGEST, check_size, without_mark

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.turn.tools import Toolbox


LONGEST_SILENCE: Final = 1.0
"""Seconds in which something must come into a pipe that stands beside a prompt."""

OF_REQUEST: Final = ("max_tokens", "temperature", "reasoning_effort")
"""The options that are fields of a request."""

POLICY_OPTION: Final = click.option(
    "--policy",
    type=TOOLS_POLICY,
    metavar=METAVAR,
    help="A TOML file with limits, budget, waits, timeouts and hints, or a policy in Python. With "
    "--tools it is the policy of the turn; a policy of calls then applies to each call.",
)
TOOLS_OPTION: Final = click.option(
    "--tools",
    metavar="module:NAME",
    is_eager=True,  # so that it is known when the policy is read
    help="Run a turn with these tools: a function, a rungwise.Tool, a list or mapping of them, or "
    "a rungwise.Toolbox. The module may be in the current directory.",
)
DEADLINE_OPTION: Final = click.option(
    "--deadline",
    metavar="TIME",
    callback=moment,
    help="When the call or turn must end at the latest: a time in RFC 3339, as in "
    "2030-01-31T18:00:00Z, or seconds from now, as in 30s.",
)
DISCOVER_OPTION: Final = flag_option(
    "--discover",
    help="First ask self-hosted chat-completions servers what they are, to continue cut texts in "
    "their own way.",
)
JOURNAL_OPTION: Final = file_option(
    "--journal",
    "journal_file",
    help="Write the journal of the call or turn to this file as JSON, however it ends. It holds "
    "no texts and no keys.",
)


@click.command(
    cls=HeadedCommand, short_help="Run one call, or a turn with tools, against any provider."
)
@click.argument("prompt", required=False, callback=text)
@under("Whom to ask", chain_options, DISCOVER_OPTION)
@under(
    "What to ask",
    system_option,
    click.option(
        "--temperature", type=click.FloatRange(0), metavar="T", help="The sampling temperature."
    ),
    click.option(
        "--reasoning-effort",
        metavar="WORD",
        help="How much the model reasons: low, medium, high, ...",
    ),
    TOOLS_OPTION,
    returns_option,
)
@under(
    "Limits",
    click.option(
        "--max-tokens",
        type=TOKENS,
        metavar="N",
        help="The output cap of the first request, in tokens.",
    ),
    POLICY_OPTION,
    DEADLINE_OPTION,
    prices_option("from every backend"),
    store_option(),
)
@under(
    "Output",
    flag_option("-v", "--verbose", help="Show the arguments and results of tools."),
    flag_option("--no-stream", help="Ask for the whole reply at once, without streaming."),
    flag_option("--newline", help="End the last line of the answer in a pipe or file, too."),
    flag_option("--json", "as_json", help="Write one JSON object instead of the text."),
    JOURNAL_OPTION,
)
@click.pass_context
def ask(context: click.Context, /, prompt: str | None, tools: str | None, **options: Any) -> int:
    """Run one call. The answer goes to stdout, the path that led to it goes to stderr.

    The prompt is PROMPT, with what is piped in behind it; or stdin, if PROMPT is "-" or missing.

    A terminal shows text as it arrives. If a reply turns out to be worthless, a marked line takes
    back what was shown of it. A pipe gets text once it is final: exactly the characters of the
    answer, as UTF-8 whatever the locale says. With --newline its last line ends, too.

    Options that a backend does not support are dropped, with a note on stderr. With --json, stdout
    gets one object: outcome, text, value (what --returns asked for), tool_calls, usage, cost (null
    without a price), cost_reported, unpriced, attempts, backend, model, seconds, cause, failures.

    With --tools it is a turn: the tools that the model calls are run, and the model is asked again
    until it answers. Each tool has a line on stderr when it begins and when it ends (with
    --no-stream, each round of tools). A pipe gets only the last answer, once the turn has ended.
    What tools print goes to stderr, except for the output of programs that they start. With --json,
    handed_off and awaiting replace tool_calls, calls counts the calls, and messages is the
    conversation. Ctrl-C ends the turn; tools that cannot be stopped have half a second to return.

    Keys are read from the environment, sent only to their own hosts, and never shown. Missing and
    placeholder keys are reported before anything is sent, for fallbacks too.

    \b
    A policy file; every key is optional:
      base_cap = 4096
      [limits]
      retries = 3
      [budget]
      attempts = 6
      seconds = 60

    \b
    Exit codes:
      0    done; salvaged and partial too, stderr says which. A turn: finished,
           handed off, waiting for approval, or at its limit with what it found
      2    bad input: nothing was sent
      3    refused by the provider or the model; a turn: its last call was
      4    exhausted: no answer came, or none that fits --returns; a turn likewise
      5    failed: the provider failed or cannot be reached
      6    over the budget of the policy, or past --deadline
      7    like 0, but the journal could not be written
      130  cancelled by Ctrl-C; the text so far is written
      141  stdout was closed or could not be written

    \b
    Examples:
      rungwise ask "Name three rivers." --model gpt-4o-mini
      git diff | rungwise ask --model gpt-4o-mini --system "Review this."
      rungwise ask "Hello" --api anthropic --model claude-sonnet-4-5 \\
          --fallback openai:gpt-5 --fallback ollama:llama3.2
      rungwise ask "Hello" --base-url http://localhost:8000/v1 --model llama
      rungwise ask "Hello" --model gpt-4o --deadline 20s --json \\
          --fallback http://localhost:8000/v1#qwen
      rungwise ask "Who nests by the Vomb?" --model gpt-4o --tools birds:look
    """
    if tools is None and options["verbose"]:
        bad_use = "--verbose is for tools: give --tools as well, or leave it out"
        raise click.UsageError(bad_use, context)
    return _ask(prompt, _toolbox(context, tools), **options)


def _toolbox(context: click.Context, tools: str | None) -> Toolbox | None:
    """Read `--tools`, once all options are known."""
    if tools is None:
        return None
    [parameter] = [each for each in context.command.params if each.name == "tools"]
    return TOOLS.convert(tools, parameter, context)


def _ask(prompt: str | None, tools: Toolbox | None, **options: Any) -> int:
    """Run a call or a turn, and return the exit code.

    Arguments:
        prompt: the argument PROMPT.
        tools: those of a turn; None for a call.
        options: the other options, by the names of their parameters.
    """
    from rungwise.adapters.cli.shown import ShownCall, ShownTurn
    from rungwise.adapters.client import Client

    require_stdout()  # nobody would get the answer, so nobody should pay for it
    chain = chain_of(options["targets"], price_list(options["prices"]).of)
    policy = options["policy"] or default_of(turn=tools is not None)
    for backend in chain:
        check_prices(policy, backend.prices, backend.model)
    settings = {name: options[name] for name in OF_REQUEST}
    request = Request(_messages(prompt, options["system"]), **settings)
    as_json = options["as_json"]
    answer = PrintedAnswer() if as_json else answer_to_stdout(ends_line=options["newline"])
    arguments: dict[str, Any] = {name: options[name] for name in ("deadline", "returns")}
    display: Shown[Any] = ShownCall(answer)
    if tools is not None:
        display = ShownTurn(answer, is_verbose=options["verbose"])
        arguments |= {"tools": tools, "policy": policy}
    streams = not options["no_stream"]
    client = Client(
        chain,
        policy=policy if isinstance(policy, Policy) else DEFAULT_POLICY,
        observer=None if streams else display.step,
        stream_calls=streams,
        store=options["store"],
    )
    with client, writing_journal(options["journal_file"]) as write_journal:
        if options["discover"]:
            for name, server in client.discover().items():
                note(f"  {name} is {server}", dim=True)
        _run(client, display, request, streams=streams, **arguments)
        is_written = display.result is None or write_journal(display.result)
    code = display.finish(as_json=as_json)
    return code if is_written or code else JOURNAL_LOST


def _run(
    client: Client,
    display: Shown[Any],
    request: Request,
    *,
    streams: bool,
    **arguments: Any,
) -> None:
    """Run a call, or a turn if there are tools, and show it.

    Arguments:
        client: runs it.
        display: shows it.
        request: what is asked.
        streams: whether to stream it.
        arguments: the other options of the call or turn.
    """
    run: Callable[..., Any] = client.call
    stream: Callable[..., Any] = client.stream
    own_prints: AbstractContextManager[None] = nullcontext()
    if "tools" in arguments:
        run = client.turn
        stream = client.stream_turn
        own_prints = prints_aside()
    # Ctrl-C comes not in the midst of a text, which would be written twice.
    with ctrl_c_cancels() as cancellation, own_prints:
        if streams:
            display.follow(partial(stream, request, cancellation=cancellation, **arguments))
        else:
            display.wait(partial(run, request, cancellation=cancellation, **arguments))


def _read_stdin() -> str:
    """Return the text of stdin."""
    try:
        content = sys.stdin.buffer.read(LARGEST + 1)
        check_size(content)
        return without_mark(content).decode("utf-8")
    except ConfigurationError as error:
        bad_input(f"stdin is {error}")
    except UnicodeDecodeError as error:
        bad_input(f"stdin is not UTF-8 text (byte {error.start}): convert it first")


def _is_piped() -> bool:
    """Tell whether stdin is a file, or a pipe into which something comes. One that stays open and
    silent is what a program has left to its child, and is not waited for.
    """
    if sys.stdin is None or is_terminal(sys.stdin):
        return False
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):  # closed, or not the system's
        return not sys.stdin.closed
    if stat.S_ISREG(mode) or os.name == "nt":
        return True
    is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return is_pipe and bool(select.select([number], [], [], LONGEST_SILENCE)[0])


def _messages(prompt: str | None, system: str | None) -> list[dict[str, str]]:
    """Return the conversation. A prompt that is missing or "-" comes from stdin; behind any other
    stands what is piped in.
    """
    if prompt is None or prompt == "-":
        if sys.stdin is None or (prompt is None and is_terminal(sys.stdin)):
            bad_input(
                "there is no prompt: give it as an argument, as in "
                'rungwise ask "Hello" --model M, or pipe it in'
            )
        prompt = _read_stdin()
    elif prompt.strip() and _is_piped() and (piped := _read_stdin()).strip():
        note(f"what is piped in stands behind the prompt: {len(piped):,} characters")
        prompt = f"{prompt}\n\n{piped}"
    if not prompt.strip():
        bad_input("the prompt is empty: write something to be answered")
    messages = [{"role": "user", "content": prompt}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return messages

"""`rungwise ask`: one call, or one turn with tools, to any server that speaks chat completions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click
from attrs import frozen

from rungwise.adapters.cli.answer import Answer, answer_to_stdout
from rungwise.adapters.cli.backends import OPENAI, Target, backend_of, check_set, targets_of, url
from rungwise.adapters.cli.interrupts import ctrl_c_cancels
from rungwise.adapters.cli.options import TOKENS, check_prices, moment, prices_option
from rungwise.adapters.cli.output import bad_input, is_terminal, note, prints_aside, require_stdout
from rungwise.adapters.cli.policies import METAVAR, TOOLS_POLICY, default_of, default_policy
from rungwise.adapters.cli.run import JOURNAL_LOST, JournalFile, Shown
from rungwise.adapters.cli.tools import TOOLS
from rungwise.adapters.endpoint import OPENAI_KEY, read_url

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.adapters.http.streams import SyncStream
    from rungwise.adapters.wires.chat.backend import OpenAIChat
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.call.request import Prices, Request
    from rungwise.fsm.turn.policy import TurnPolicy
    from rungwise.fsm.turn.tools import Toolbox


def _text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Read an argument as UTF-8 where the locale could not."""
    if value is None or not any("\udc80" <= character <= "\udcff" for character in value):
        return value
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        raise click.BadParameter("it is not UTF-8 text: convert it first") from None


@click.command(short_help="Run one call, or a turn with tools, against any server that speaks chat completions.")
@click.argument("prompt", required=False, callback=_text)
@click.option("--model", required=True, callback=_text, help="The model id that is sent.")
@click.option("--base-url", default=OPENAI, show_default=True, callback=url, help="The URL up to /chat/completions.")
@click.option(
    "--api-key-env",
    default="OPENAI_API_KEY",
    show_default=True,
    metavar="NAME",
    help="The environment variable that holds the key; '' for a server that takes none.",
)
@click.option(
    "--fallback",
    "fallbacks",
    multiple=True,
    metavar="URL#MODEL[#KEYENV]",
    callback=targets_of,
    help="Whom to ask next where the one before fails; may be repeated. KEYENV names the variable that holds its key; "
    "without it, the key of --base-url is used for the same scheme, host and port, and none elsewhere.",
)
@click.option("--system", metavar="TEXT", callback=_text, help="The system message.")
@click.option("--max-tokens", type=TOKENS, metavar="N", help="The output cap of the first request.")
@click.option(
    "--policy",
    type=TOOLS_POLICY,
    metavar=METAVAR,
    help="A TOML file with limits, budget, waits, timeouts and hints; or a policy in Python. With --tools, that of the "
    "turn; one of calls is then that of each call.",
)
@click.option(
    "--tools",
    metavar="module:NAME",
    is_eager=True,  # so that it is known when the policy is read
    help="Run a turn with these tools: a function, a rungwise.Tool, a list or mapping of them, or a rungwise.Toolbox. "
    "The module may stand in the current directory.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the arguments of tools, and what they brought.")
@click.option(
    "--deadline",
    metavar="TIME",
    callback=moment,
    help="When the call, or the turn, must have ended at the latest: a point in time in RFC 3339, as in "
    "2030-01-31T18:00:00Z, or seconds from now, as in 30s.",
)
@prices_option("from every backend")
@click.option("--no-stream", is_flag=True, help="Ask for the whole reply at once.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object in place of the text.")
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write every step of the call, or of the turn, to this file, as JSON, however that ends. It holds no texts "
    "and no keys.",
)
@click.pass_context
def ask(context: click.Context, /, prompt: str | None, tools: str | None, **options: Any) -> int:
    """Run one call and write its answer to stdout; the path that it took goes to stderr.

    The prompt is PROMPT; or stdin, where PROMPT is "-" or left out and something is piped in.

    Text appears on a terminal as it arrives. Should a reply turn out to be worthless after some of it was shown, a
    marked line takes that back. Through a pipe, text goes out once nothing can take it back: what arrives is the
    answer, character for character and as UTF-8 whatever the locale says, and no line end is added.

    With --json, stdout gets one object: outcome, text, tool_calls, usage, cost (null without --prices),
    attempts, backend, model, seconds, cause, failures.

    With --tools it is a turn: the tools that the model calls are run, and it is asked again until it has answered.
    Each tool has a line on stderr when it begins and when it ends (with --no-stream, each round of them). A pipe gets
    the last answer alone, once the turn has ended, and what tools print goes to stderr (what programs write that they
    start does not); with --json, handed_off stands for tool_calls, calls counts them, and messages is the
    conversation. Ctrl-C ends the turn, but waits for tools that cannot be stopped; a second one does not.

    Keys are read from the environment and shown nowhere.

    \b
    A policy file may hold, every key optional:
      base_cap = 4096
      [limits]
      retries = 3
      [budget]
      attempts = 6
      seconds = 60

    \b
    Exit codes:
      0    done; or salvaged or partial, which stderr tells apart; a turn:
           finished, handed off by a tool, or at its limit with what it found
      2    bad input: nothing was sent
      3    refused, by the provider or the model; a turn: its last call was
      4    exhausted: every way was tried, and no answer came; likewise
      5    failed: the provider failed, or cannot be reached
      6    over the budget of the policy, or too late for --deadline
      7    as 0, and the answer is written, but the journal could not be
      130  cancelled by Ctrl-C; the text so far is written
      141  stdout was closed, or could not be written

    \b
    Examples:
      rungwise ask "Name three rivers." --model gpt-4o-mini
      git diff | rungwise ask --model gpt-4o-mini --system "Review this."
      rungwise ask "Hello" --base-url http://localhost:11434/v1 --model llama3.2
      rungwise ask "Hello" --model gpt-4o --deadline 20s
      rungwise ask "Hello" --model gpt-4o --json --journal steps.json \\
          --fallback https://api.openai.com/v1#gpt-4o-mini \\
          --fallback http://localhost:8000/v1#qwen
      rungwise ask "Who nests by the Vomb?" --model gpt-4o --tools birds:look
    """
    if tools is None and options["verbose"]:
        raise click.UsageError("--verbose is for tools: give --tools as well, or leave it out", context)
    [parameter] = [each for each in context.command.params if each.name == "tools"]
    toolbox = None if tools is None else TOOLS.convert(tools, parameter, context)
    return _ask(Options(prompt=prompt, tools=toolbox, **options))


@frozen(kw_only=True)
class Options:
    """Hold what the command was given."""

    prompt: str | None
    model: str
    base_url: str
    api_key_env: str
    fallbacks: tuple[Target, ...]
    system: str | None
    max_tokens: int | None
    policy: Policy | TurnPolicy | None
    tools: Toolbox | None
    verbose: bool
    deadline: float | None
    prices: Prices | None
    no_stream: bool
    as_json: bool
    journal_file: str | None


def _ask(options: Options) -> int:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.call.request import Request

    require_stdout()  # an answer that nobody gets is not paid for
    chain = _chain(options)
    policy = options.policy or default_of(turn=options.tools is not None)
    check_prices(policy, options.prices)
    shown = _shown(options)
    of_calls = policy if isinstance(policy, Policy) else default_policy()
    observer = shown.step if options.no_stream else None
    with Client(chain, policy=of_calls, observer=observer, stream_calls=not options.no_stream) as client:
        for index, backend in enumerate(chain):
            if index and backend.problem:
                note(f"  the fallback {backend.name} cannot be used: {backend.problem}", fg="yellow")
        request = Request(_messages(options), max_tokens=options.max_tokens)
        with closing(JournalFile(options.journal_file)) as journal:
            _run(client, shown, request, options, policy)
            is_written = shown.result is None or journal.write(shown.result)
    code = shown.finish(as_json=options.as_json)
    return code if is_written or code else JOURNAL_LOST


def _shown(options: Options) -> Shown[Any]:
    """Return what follows the call, or the turn."""
    from rungwise.adapters.cli.shown_call import ShownCall
    from rungwise.adapters.cli.shown_turn import ShownTurn

    answer = Answer() if options.as_json else answer_to_stdout()
    return ShownCall(answer) if options.tools is None else ShownTurn(answer, is_verbose=options.verbose)


def _run(client: Client, shown: Shown[Any], request: Request, options: Options, policy: Policy | TurnPolicy) -> None:
    if options.tools is None:
        _follow(shown, client.stream, client.call, request, options, deadline=options.deadline)
        return
    with ctrl_c_cancels() as cancellation, prints_aside():
        given = {"tools": options.tools, "policy": policy, "cancellation": cancellation, "deadline": options.deadline}
        _follow(shown, client.stream_turn, client.turn, request, options, **given)


def _follow(
    shown: Shown[Any],
    stream: Callable[..., SyncStream[Any, Any]],
    run: Callable[..., Any],
    request: Request,
    options: Options,
    **given: Any,
) -> None:
    if options.no_stream:
        shown.wait(partial(run, request, **given))
    else:
        shown.follow(partial(stream, request, **given))


def _messages(options: Options) -> list[dict[str, str]]:
    prompt = options.prompt
    if prompt is None or prompt == "-":
        prompt = _piped(asked=prompt == "-")
    if not prompt.strip():
        bad_input("the prompt is empty: write something to be answered")
    system = [{"role": "system", "content": options.system}] if options.system else []
    return [*system, {"role": "user", "content": prompt}]


def _piped(*, asked: bool) -> str:
    if sys.stdin is None or (not asked and is_terminal(sys.stdin)):
        bad_input('there is no prompt: give it as an argument, as in rungwise ask "Hello" --model M, or pipe it in')
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        bad_input(f"stdin is not UTF-8 text (byte {error.start}): convert it first")


def _chain(options: Options) -> list[OpenAIChat]:
    name, advice = options.api_key_env, "export it, or name another with --api-key-env"
    if name and name != OPENAI_KEY:  # the default: servers on this machine are asked without
        check_set(name, advice, option="--api-key-env")
    primary = Target(options.base_url, options.model, name)
    origin = read_url(options.base_url, "").origin
    chain = [backend_of(primary, options.prices, of_key="--api-key-env", of_rest="--model")]
    if chain[0].problem is not None:
        if name:
            check_set(name, advice, option="--api-key-env")
        bad_input(f"{options.base_url}: {chain[0].problem}")
    for target in options.fallbacks:
        if target.key_env is None and read_url(target.url, "").origin == origin:
            target = attrs.evolve(target, key_env=name)
        elif target.key_env:
            check_set(target.key_env, f"export it, it is the key of {target.url}", option="--fallback")
        chain.append(backend_of(target, options.prices, of_key="--fallback", of_rest="--fallback"))
    return chain

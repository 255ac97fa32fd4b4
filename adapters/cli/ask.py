"""`rungwise ask`: one call to any server that speaks chat completions."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from attrs import frozen

from rungwise.adapters.cli.answer import Answer, answer_to_stdout
from rungwise.adapters.cli.options import TOKENS, check_prices, prices_option
from rungwise.adapters.cli.output import bad_input, is_terminal, note, require_stdout
from rungwise.adapters.cli.policies import METAVAR, POLICY, default_policy
from rungwise.adapters.cli.run import JOURNAL_LOST, JournalFile, ShownCall
from rungwise.adapters.endpoint import OPENAI_KEY, read_url, shown_url
from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.adapters.wires.chat.backend import OpenAIChat
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.call.request import Prices

OPENAI: Final = "https://api.openai.com/v1"
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
"""How variables of the environment are called; what is called otherwise may be a key in the place of a name."""


@frozen
class Target:
    """Name a backend as the command line does: where, which model, and the variable that holds the key."""

    url: str
    model: str
    key_env: str | None = None


def _check_url(url: str) -> str:
    try:
        problem = read_url(url, "/chat/completions").problem
    except ConfigurationError as error:
        raise click.BadParameter(str(error).replace("base_url", "the URL")) from None
    if problem is not None:
        raise click.BadParameter(f"{problem.replace('base_url', 'the URL')}, as in {OPENAI}")
    return url


def _url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return _check_url(value)


def _targets(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Target, ...]:
    targets = []
    for value in values:
        parts = value.split("#")
        if len(parts) not in (2, 3) or not parts[0].strip() or not parts[1].strip():
            shape = "URL#MODEL or URL#MODEL#KEYENV, as in http://localhost:8000/v1#llama"
            raise click.BadParameter(f"what begins with {shown_url(parts[0])} is not of the form {shape}")
        targets.append(Target(_check_url(parts[0]), *parts[1:]))
    return tuple(targets)


def _text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Read an argument as UTF-8 where the locale could not."""
    if value is None or not any("\udc80" <= character <= "\udcff" for character in value):
        return value
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        raise click.BadParameter("it is not UTF-8 text: convert it first") from None


@click.command(short_help="Run one call against any server that speaks chat completions.")
@click.argument("prompt", required=False, callback=_text)
@click.option("--model", required=True, callback=_text, help="The model id that is sent.")
@click.option("--base-url", default=OPENAI, show_default=True, callback=_url, help="The URL up to /chat/completions.")
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
    callback=_targets,
    help="Whom to ask next where the one before fails; may be repeated. KEYENV names the variable that holds its key; "
    "without it, the key of --base-url is used for the same scheme, host and port, and none elsewhere.",
)
@click.option("--system", metavar="TEXT", callback=_text, help="The system message.")
@click.option("--max-tokens", type=TOKENS, metavar="N", help="The output cap of the first request.")
@click.option(
    "--policy",
    type=POLICY,
    metavar=METAVAR,
    help="A TOML file with limits, budget, waits, timeouts and hints; or a policy in Python.",
)
@prices_option("from every backend")
@click.option("--no-stream", is_flag=True, help="Ask for the whole reply at once.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object in place of the text.")
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write every step of the call to this file, as JSON, however the call ends. It holds no texts and no keys.",
)
def ask(prompt: str | None, **options: Any) -> int:
    """Run one call and write its answer to stdout; the path that it took goes to stderr.

    The prompt is PROMPT; or stdin, where PROMPT is "-" or left out and something is piped in.

    Text appears on a terminal as it arrives. Should a reply turn out to be worthless after some of it was shown, a
    marked line takes that back. Through a pipe, text goes out once nothing can take it back: what arrives is the
    answer, character for character and as UTF-8 whatever the locale says, and no line end is added.

    With --json, stdout gets one object: outcome, text, tool_calls, usage, cost (null without --prices),
    attempts, backend, model, seconds, cause, failures.

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
      0    done; or salvaged or partial, which stderr tells apart
      2    bad input: nothing was sent
      3    refused, by the provider or the model
      4    exhausted: every way was tried, and no answer came
      5    failed: the provider failed, or cannot be reached
      6    over the budget of the policy
      7    as 0, and the answer is written, but the journal could not be
      130  cancelled by Ctrl-C; the text so far is written
      141  stdout was closed, or could not be written

    \b
    Examples:
      rungwise ask "Name three rivers." --model gpt-4o-mini
      git diff | rungwise ask --model gpt-4o-mini --system "Review this."
      rungwise ask "Hello" --base-url http://localhost:11434/v1 --model llama3.2
      rungwise ask "Hello" --model gpt-4o --json --journal steps.json \\
          --fallback https://api.openai.com/v1#gpt-4o-mini \\
          --fallback http://localhost:8000/v1#qwen
    """
    return _ask(Options(prompt=prompt, **options))


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
    policy: Policy | None
    prices: Prices | None
    no_stream: bool
    as_json: bool
    journal_file: str | None


def _ask(options: Options) -> int:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.request import Request

    require_stdout()  # an answer that nobody gets is not paid for
    chain = _chain(options)
    policy = options.policy or default_policy()
    check_prices(policy, options.prices)
    answer = Answer() if options.as_json else answer_to_stdout()
    shown = ShownCall(answer)
    with Client(chain, policy=policy, observer=shown.step if options.no_stream else None) as client:
        for index, backend in enumerate(chain):
            if index and backend.problem:
                note(f"  the fallback {backend.name} cannot be used: {backend.problem}", fg="yellow")
        request = Request(_messages(options), max_tokens=options.max_tokens)
        with closing(JournalFile(options.journal_file)) as journal:
            shown.call(client, request, is_streaming=not options.no_stream)
            is_written = shown.result is None or journal.write(shown.result)
    code = shown.finish(as_json=options.as_json)
    return code if is_written or code else JOURNAL_LOST


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
        _check_set(name, advice, option="--api-key-env")
    primary = Target(options.base_url, options.model, name)
    origin = read_url(options.base_url, "").origin
    chain = [_backend(primary, options.prices, of_key="--api-key-env", of_rest="--model")]
    if chain[0].problem is not None:
        if name:
            _check_set(name, advice, option="--api-key-env")
        bad_input(f"{options.base_url}: {chain[0].problem}")
    for target in options.fallbacks:
        if target.key_env is None and read_url(target.url, "").origin == origin:
            target = attrs.evolve(target, key_env=name)
        elif target.key_env:
            _check_set(target.key_env, f"export it, it is the key of {target.url}", option="--fallback")
        chain.append(_backend(target, options.prices, of_key="--fallback", of_rest="--fallback"))
    return chain


def _check_set(name: str, advice: str, *, option: str) -> None:
    """Refuse a variable that is not set; what may be a key in the place of its name is not shown."""
    if not os.environ.get(name):
        if VARIABLE.fullmatch(name):
            bad_input(f"{name} is not set in the environment: {advice}")
        bad_input(f"{option} takes the name of an environment variable, not a key; what it was given names none")


def _backend(target: Target, prices: Prices | None, *, of_key: str, of_rest: str) -> OpenAIChat:
    """Make a backend; what is wrong with it is named by the option that said so."""
    from rungwise.adapters.wires.chat.backend import OpenAIChat

    # Not None, with which a backend looks for a key by itself.
    key = os.environ.get(target.key_env, "") if target.key_env else ""
    try:
        return OpenAIChat(
            target.model,
            api_key=key,
            base_url=target.url,
            prices=prices,
            api_key_required=False if target.key_env == "" else None,
        )
    except ConfigurationError as error:
        bad_input(f"{of_key}: {error} (in {target.key_env})" if "api_key" in str(error) else f"{of_rest}: {error}")

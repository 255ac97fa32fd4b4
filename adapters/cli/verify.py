"""`rungwise verify`: the proof that every call and every turn ends, and its worst case."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click
from attrs import evolve, frozen

from rungwise.adapters.cli.chains import check_prices, price_list
from rungwise.adapters.cli.output import (
    bad_input,
    counted,
    laid_out,
    note,
    one_line,
    progress_bar,
    put,
    safe,
)
from rungwise.adapters.cli.policies import EITHER, METAVAR, NAMED, default_of, turn_option
from rungwise.adapters.cli.shared_options import (
    BACKENDS,
    IN_PYTHON,
    MOST_TOKENS,
    max_tokens_option,
    prices_option,
)
from rungwise.adapters.provider.enacted import EARLY, model_of, notes_of, script_of
from rungwise.fsm.analysis.certificate.certificate import (
    Certificate,
    WorstCase,
    by_fallbacks,
    number_text,
    stated,
)
from rungwise.fsm.analysis.certificate.shown.scripts import WorstScript
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.diagram.page.templates import render_text
from rungwise.fsm.turn.policy import TurnPolicy

PORT: Final = 8080
URL: Final = f"http://127.0.0.1:{PORT}/v1"
"""Where a script is served."""


@frozen
class CertifiedRequest:
    """The request that a certificate is about."""

    policy: str | None  # as given on the command line; None for the default one
    is_turn: bool
    max_tokens: int | None
    input_tokens: int | None
    prices: Prices | None

    @property
    def price_text(self) -> str | None:
        """Write the prices as the command line takes them."""
        if self.prices is None:
            return None
        return "/".join(
            repr(price).removesuffix(".0") for price in (self.prices.input, self.prices.output)
        )


WIDTH: Final = 116


def head_of(worst: WorstScript, request: CertifiedRequest, path: Path) -> str:
    """Write the comments above a script, with the program that prints its figure where `rungwise
    ask` cannot.
    """
    # A policy of turns, a prompt that ends in a tool result, a compactor, fixed jitter, or a count
    # of the prompt.
    is_drawn = worst.drawn > 0 and worst.case.name in ("waiting seconds", "seconds")
    has_count = request.input_tokens is not None and worst.calls.budget.money is not None
    kind = "TurnPolicy" if request.is_turn else "Policy"
    module = ""
    policy = (
        f"rungwise.{kind}()"
        if request.policy is None
        else f"rungwise.{kind}.load({request.policy!r})"
    )
    if request.policy is not None and IN_PYTHON.fullmatch(request.policy):
        module = request.policy.partition(":")[0]
        policy = request.policy.replace(":", ".")
    caps = [("max_tokens", request.max_tokens), ("input_tokens", request.input_tokens)]
    text = render_text(
        "worst_script.toml",
        worst=worst,
        request=request,
        named="the default policy" if request.policy is None else one_line(request.policy),
        file=_on_one_line(path),
        port=PORT,
        url=URL,
        needs_program=request.is_turn
        or worst.follows_tool
        or worst.needs_compactor
        or is_drawn
        or has_count,
        module=module,
        policy=policy,
        messages=[dict(message) for message in worst.case.enacted.messages],
        arguments=[f", {name}={value}" for name, value in caps if value is not None],
        EARLY=EARLY,
        counted=counted,
        model_of=model_of,
        number_text=number_text,
        quote=_on_one_line,
        stated=stated,
        wrapped=partial(
            textwrap.fill, width=WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False
        ),
    )
    return "".join(
        f"# {safe(line)}".rstrip() + "\n" for line in text.removesuffix("\n").split("\n")
    )


def _on_one_line(word: object) -> str:
    return quote(str(word)).replace("\n", " ")


def write_scripts(
    folder: str,
    policy: Policy | TurnPolicy,
    cases: Mapping[int, Sequence[WorstCase]],
    request: CertifiedRequest,
) -> None:
    """Write a script for each worst case into a folder, and list them on stderr."""
    place = Path(folder)
    missing = dict[str, str]()
    for worst in [
        WorstScript(case, policy, backends) for backends, each in cases.items() for case in each
    ]:
        if worst.unseen is not None:
            missing.setdefault(worst.case.name, worst.unseen)
            continue
        path = place / name_of(worst)
        _write(
            path, f"{head_of(worst, request, path)}\n{script_of(worst).to_toml(notes_of(worst))}"
        )
        more = "" if worst.case.is_exact else f" of {number_text(worst.case.value or 0)} at most"
        figure = f"{worst.case.name} {number_text(worst.case.attained or 0)}{more}"
        note(f"{path}: {figure}, {counted(worst.backends, 'backend')}", dim=True)
    for name, why in missing.items():
        note(f"no script for {name}: {why}")


def name_of(worst: WorstScript) -> str:
    """Return the name of the file: `worst-output-tokens.toml`, and with more than one backend their
    number in it.
    """
    chain = "" if worst.backends == 1 else f"-{worst.backends}-backends"
    return f"worst-{worst.case.name.replace(' ', '-')}{chain}.toml"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except (OSError, ValueError) as error:  # a null byte is no OSError
        bad_input(
            f"--scripts: {path} cannot be written ({getattr(error, 'strerror', None) or error}): "
            f"name a folder"
        )


@click.command(
    short_help="Prove that every call or turn under a policy ends, and find its worst case."
)
@click.argument("policy", required=False, type=EITHER, metavar=f"[{METAVAR}]")
@turn_option
@click.option(
    "--backends",
    type=BACKENDS,
    metavar="N",
    help="The length of the chain.  [default: one, with the worst cases of two and three added]",
)
@max_tokens_option
@click.option(
    "--input-tokens",
    type=click.IntRange(0, MOST_TOKENS),
    metavar="N",
    help="The input tokens of a request.",
)
@prices_option("from every backend")
@click.option("--json", "as_json", is_flag=True, help="Write the certificate as JSON.")
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Walk with the policy's own limits: a minute, or many minutes with several backends.",
)
@click.option(
    "--scripts",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write each worst case to this folder as a script for `rungwise serve`.",
)
def verify(
    policy: Policy | TurnPolicy | None,
    *,
    turn: bool,
    as_json: bool,
    backends: int | None,
    max_tokens: int | None,
    input_tokens: int | None,
    prices: Prices | None,
    exhaustive: bool,
    scripts: str | None,
) -> int:
    """Prove that every call under a policy ends, and compute its worst case, before any call is
    made.

    The certificate goes to stdout as Markdown, laid out on a terminal. It lists every property with
    its verdict, and the most requests, seconds and seconds of waiting, each with the path that
    leads there; with --max-tokens also the most output tokens, and with --input-tokens and prices
    the most money. Without a policy it covers the default one.

    With --turn it covers turns: it bounds calls, requests, seconds, tool runs, output tokens and
    money, and the certificate of each call follows. A module:POLICY needs no --turn.

    With --scripts, each worst case becomes a script for the chain of --backends, or for one, two
    and three backends. Serve it, point a client with that policy at it, and watch the call spend
    exactly that, without the resends that no server can bring about. Comments at the top of each
    file explain how. Existing files are replaced; stderr names all that are written.

    The proof goes row by row, for all limits at once. A walk over the machine, with each limit at
    most 1, cross-checks it.

    \b
    Exit codes:
      0  every property holds
      1  a property does not hold; the certificate shows a path that breaks it
      2  bad input; or a budget of money without prices

    \b
    Examples:
      rungwise verify
      rungwise verify policy.toml --backends 3
      rungwise verify policy.toml --json > certificate.json
      rungwise verify --max-tokens 1000 --input-tokens 5000 --prices 2.5/10
      rungwise verify turn.toml --turn
      rungwise verify policy.toml --scripts worst
    """
    policy = policy or default_of(turn=turn)
    check_prices(policy, prices := price_list(prices).dearest)
    named = click.get_current_context().meta.get(NAMED)
    request = CertifiedRequest(
        named, isinstance(policy, TurnPolicy), max_tokens, input_tokens, prices
    )
    certificate, worst = _certify(policy, request, backends, exhaustive=exhaustive)
    if as_json:
        chains = {str(count): [each.to_json() for each in cases] for count, cases in worst.items()}
        more = {"worst_by_fallbacks": chains} if worst else {}
        put(json.dumps({**certificate.to_json(), **more}, indent=2) + "\n")
    else:
        put(laid_out(certificate.to_markdown() + (by_fallbacks(worst) if worst else "")))
    if scripts is not None and certificate.ok:
        certified, worst = _certify(_without_resends(policy), request, backends, exhaustive=False)
        cases = {count + 1: each for count, each in worst.items()} or {
            backends or 1: certified.worst
        }
        write_scripts(scripts, policy, cases, request)
    return 0 if certificate.ok else 1


def _without_resends(policy: Policy | TurnPolicy) -> Any:
    """Return a policy that resends nothing: no script can choose the moment in which a connection
    goes stale.
    """
    if isinstance(policy, TurnPolicy):
        return evolve(policy, call=_without_resends(policy.of_calls))
    return evolve(policy, limits=Limits(**{**policy.limits, "resends": 0}))


def _certify(
    policy: Policy | TurnPolicy,
    request: CertifiedRequest,
    backends: int | None,
    *,
    exhaustive: bool,
) -> tuple[Certificate, Mapping[int, tuple[WorstCase, ...]]]:
    """Prove a policy; without a number of backends, find the worst cases of longer chains too."""
    from rungwise.fsm.analysis.certificate.verify import verify as prove
    from rungwise.fsm.analysis.certificate.verify import worst_by_fallbacks

    chain = [
        PlainLink(f"backend {number}", prices=request.prices)
        for number in range(1, (backends or 1) + 1)
    ]
    sizes: dict[str, Any] = {"max_tokens": request.max_tokens, "input_tokens": request.input_tokens}
    with (
        progress_bar("{task.completed:>9,} configurations") if exhaustive else nullcontext() as bar
    ):
        # nobody knows how long it is
        task = None if bar is None else bar.add_task("walk", total=None)
        show = (
            None if bar is None or task is None else lambda count: bar.update(task, completed=count)
        )
        certificate = prove(policy, chain, exhaustive=exhaustive, progress=show, **sizes)
    if backends is not None or not certificate.ok:
        return certificate, {}
    return certificate, worst_by_fallbacks(policy, 2, prices=request.prices, **sizes)

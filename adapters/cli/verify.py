"""`rungwise verify`: the proof that every call and every turn ends, and its worst case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from rungwise.adapters.cli.chains import check_prices, price_list
from rungwise.adapters.cli.options import BACKENDS, MOST_TOKENS, max_tokens_option, prices_option
from rungwise.adapters.cli.output import laid_out, progress_bar, put
from rungwise.adapters.cli.policies import EITHER, METAVAR, NAMED, default_of, turn_option
from rungwise.adapters.cli.scripts import CertifiedRequest

if TYPE_CHECKING:
    from rungwise.fsm.call.conversation.link import Prices
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.certificate.certificate import Certificate
    from rungwise.fsm.certificate.verified import WorstCase
    from rungwise.fsm.turn.policy import TurnPolicy


@click.command(short_help="Prove that every call or turn under a policy ends, and find its worst case.")
@click.argument("policy", required=False, type=EITHER, metavar=f"[{METAVAR}]")
@turn_option
@click.option(
    "--backends",
    type=BACKENDS,
    metavar="N",
    help="The length of the chain.  [default: one, with the worst cases of two and three added]",
)
@max_tokens_option
@click.option("--input-tokens", type=click.IntRange(0, MOST_TOKENS), metavar="N", help="The input tokens of a request.")
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
    """Prove that every call under a policy ends, and compute its worst case, before any call is made.

    The certificate goes to stdout as Markdown, laid out on a terminal. It lists every property with its verdict, and
    the most requests, seconds and seconds of waiting, each with the path that leads there; with --max-tokens also the
    most output tokens, and with --input-tokens and prices the most money. Without a policy it covers the default one.

    With --turn it covers turns: it bounds calls, requests, seconds, tool runs, output tokens and money, and the
    certificate of each call follows. A module:POLICY needs no --turn.

    With --scripts, each worst case becomes a script for the chain of --backends, or for one, two and three backends.
    Serve it, point a client with that policy at it, and watch the call spend exactly that, without the resends that no
    server can bring about. Comments at the top of each file explain how. Existing files are replaced; stderr names all
    that are written.

    The proof goes row by row, for all limits at once. A walk over the machine, with each limit at most 1, cross-checks
    it.

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
    from rungwise.fsm.certificate.shown.markdown import by_fallbacks
    from rungwise.fsm.turn.policy import TurnPolicy

    policy = policy or default_of(turn=turn)
    check_prices(policy, prices := price_list(prices).dearest)
    named = click.get_current_context().meta.get(NAMED)
    request = CertifiedRequest(named, isinstance(policy, TurnPolicy), max_tokens, input_tokens, prices)
    certificate, worst = _certify(policy, request, backends, exhaustive=exhaustive)
    if as_json:
        put(_as_json(certificate, worst))
    else:
        put(laid_out(certificate.to_markdown() + (by_fallbacks(worst) if worst else "")))
    if scripts is not None and certificate.ok:
        _write_scripts(scripts, policy, request, backends)
    return 0 if certificate.ok else 1


def _write_scripts(folder: str, policy: Policy | TurnPolicy, request: CertifiedRequest, backends: int | None) -> None:
    from rungwise.adapters.cli.scripts import write_scripts

    certificate, worst = _certify(_without_resends(policy), request, backends, exhaustive=False)
    cases = {count + 1: each for count, each in worst.items()} or {backends or 1: certificate.worst}
    write_scripts(folder, policy, cases, request)


def _without_resends(policy: Policy | TurnPolicy) -> Any:
    """Return a policy that resends nothing: no script can choose the moment in which a connection goes stale."""
    from attrs import evolve

    from rungwise.fsm.call.limits import Limits
    from rungwise.fsm.turn.policy import TurnPolicy

    if isinstance(policy, TurnPolicy):
        return evolve(policy, call=_without_resends(policy.of_calls))
    return evolve(policy, limits=Limits(**{**policy.limits, "resends": 0}))


def _as_json(certificate: Certificate, worst: Mapping[int, tuple[WorstCase, ...]]) -> str:
    chains = {str(count): [each.to_json() for each in cases] for count, cases in worst.items()}
    more = {"worst_by_fallbacks": chains} if worst else {}
    return json.dumps({**certificate.to_json(), **more}, indent=2) + "\n"


def _certify(
    policy: Policy | TurnPolicy, request: CertifiedRequest, backends: int | None, *, exhaustive: bool
) -> tuple[Certificate, Mapping[int, tuple[WorstCase, ...]]]:
    """Prove a policy; without a number of backends, find the worst cases of longer chains too."""
    from rungwise.fsm.call.conversation.link import PlainLink
    from rungwise.fsm.certificate.verify import verify as prove
    from rungwise.fsm.certificate.verify import worst_by_fallbacks

    chain = [PlainLink(f"backend {number}", prices=request.prices) for number in range(1, (backends or 1) + 1)]
    with _shown_walk() if exhaustive else nullcontext() as progress:
        certificate = prove(
            policy,
            chain,
            max_tokens=request.max_tokens,
            input_tokens=request.input_tokens,
            exhaustive=exhaustive,
            progress=progress,
        )
    if backends is not None or not certificate.ok:
        return certificate, {}
    worst = worst_by_fallbacks(
        policy, 2, prices=request.prices, max_tokens=request.max_tokens, input_tokens=request.input_tokens
    )
    return certificate, worst


@contextmanager
def _shown_walk() -> Iterator[Callable[[int], None] | None]:
    """Show the progress of the walk, whose length is unknown."""
    with progress_bar("{task.completed:>9,} configurations") as bar:
        if bar is None:
            yield None
        else:
            task = bar.add_task("walk", total=None)
            yield lambda count: bar.update(task, completed=count)

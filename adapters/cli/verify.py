"""`rungwise verify`: the proof that every call and every turn ends, and its worst case."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import evolve, frozen

from rungwise.adapters.cli.chains import check_prices, price_list, text_of
from rungwise.adapters.cli.output import (
    counted,
    laid_out,
    note,
    one_line,
    progress_bar,
    put,
    safe,
    write_file,
)
from rungwise.adapters.cli.policies import NAMED, default_of, either_policy
from rungwise.adapters.cli.shared_options import (
    BACKENDS,
    IN_PYTHON,
    MOST_TOKENS,
    flag_option,
    folder_option,
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

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PORT: Final = 8080
URL: Final = f"http://127.0.0.1:{PORT}/v1"
"""Where the comments of a script say to serve it."""


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
        return None if self.prices is None else text_of(self.prices)

    @property
    def name(self) -> str:
        """Name the policy in a sentence."""
        return "the default policy" if self.policy is None else one_line(self.policy)

    @property
    def module(self) -> str:
        """Return the module of a policy in Python; "" for any other."""
        if self.policy is None or not IN_PYTHON.fullmatch(self.policy):
            return ""
        return self.policy.partition(":")[0]

    @property
    def expression(self) -> str:
        """Return the policy as an expression of Python."""
        kind = "TurnPolicy" if self.is_turn else "Policy"
        if self.policy is None:
            return f"rungwise.{kind}()"
        if self.module:
            return self.policy.replace(":", ".")
        return f"rungwise.{kind}.load({self.policy!r})"

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of a call in Python, each with a comma before it."""
        arguments: list[str] = []
        if self.max_tokens is not None:
            arguments.append(f", max_tokens={self.max_tokens}")
        if self.input_tokens is not None:
            arguments.append(f", input_tokens={self.input_tokens}")
        return arguments


WIDTH: Final = 116
"""Characters of a line of comments."""


def head_of(worst: WorstScript, request: CertifiedRequest, path: Path) -> str:
    """Write the comments above a script.

    Where `rungwise ask` cannot attain the figure, they hold a program that prints it.

    Arguments:
        worst: the script.
        request: the request that the figure is about.
        path: the file of the script.
    """
    wrapped = partial(
        textwrap.fill, width=WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False
    )
    text = render_text(
        "worst_script.toml",
        worst=worst,
        request=request,
        named=request.name,
        file=_on_one_line(path),
        port=PORT,
        url=URL,
        needs_program=_needs_program(worst, request),
        module=request.module,
        policy=request.expression,
        messages=list(map(dict, worst.case.enacted.messages)),
        arguments=request.arguments,
        EARLY=EARLY,
        counted=counted,
        model_of=model_of,
        number_text=number_text,
        quote=_on_one_line,
        stated=stated,
        wrapped=wrapped,
    )
    head = ""
    for line in text.removesuffix("\n").split("\n"):
        head += f"# {safe(line)}".rstrip() + "\n"
    return head


def _needs_program(worst: WorstScript, request: CertifiedRequest) -> bool:
    """Tell whether only a program attains the figure.

    `rungwise ask` has no option for a policy of turns, a prompt that ends in a tool result, a
    compactor, parameters, fixed jitter, or a count of the prompt's tokens.
    """
    is_drawn = worst.drawn > 0 and worst.case.name in ("waiting seconds", "seconds")
    has_count = request.input_tokens is not None and worst.calls.budget.money is not None
    is_special = request.is_turn or worst.follows_tool or worst.needs_compactor
    return bool(is_special or worst.rejected or is_drawn or has_count)


def _on_one_line(word: object) -> str:
    """Return a word as a shell takes it, on one line."""
    return quote(str(word)).replace("\n", " ")


def write_scripts(
    folder: str,
    policy: Policy | TurnPolicy,
    cases: Mapping[int, Sequence[WorstCase]],
    request: CertifiedRequest,
) -> None:
    """Write a script for each worst case into a folder, and list them on stderr.

    Arguments:
        folder: where to write them.
        policy: the policy of the certificate.
        cases: the worst cases, by the length of the chain.
        request: the request of the certificate.
    """
    place = Path(folder)
    missing = dict[str, str]()
    for backends, of_chain in cases.items():
        for case in of_chain:
            worst = WorstScript(case, policy, backends)
            if worst.unseen is not None:
                missing.setdefault(case.name, worst.unseen)
                continue
            path = place / name_of(worst)
            script = script_of(worst).to_toml(notes_of(worst))
            write_file(path, f"{head_of(worst, request, path)}\n{script}", "--scripts")
            figure = f"{case.name} {number_text(case.attained or 0)}"
            if not case.is_exact:
                figure += f" of {number_text(case.value or 0)} at most"
            note(f"{path}: {figure}, {counted(backends, 'backend')}", dim=True)
    for name, why in missing.items():
        note(f"no script for {name}: {why}")


def name_of(worst: WorstScript) -> str:
    """Return the name of the file, such as `worst-output-tokens.toml`.

    With more than one backend, it holds their number.
    """
    chain = "" if worst.backends == 1 else f"-{worst.backends}-backends"
    return f"worst-{worst.case.name.replace(' ', '-')}{chain}.toml"


@click.command(
    short_help="Prove that every call or turn under a policy ends, and find its worst case."
)
@either_policy
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
@flag_option("--json", "as_json", help="Write the certificate as JSON.")
@flag_option(
    "--exhaustive",
    help="Walk with the policy's own limits: a minute, or many minutes with several backends.",
)
@folder_option(
    "--scripts",
    help="Write each worst case to this folder as a script for `rungwise serve`.",
)
@folder_option("--coq", help="Write the table and the theory to this folder, for Coq to prove.")
def verify(
    policy: Policy | TurnPolicy | None,
    turn: bool,
    as_json: bool,
    backends: int | None,
    max_tokens: int | None,
    input_tokens: int | None,
    prices: Prices | None,
    exhaustive: bool,
    scripts: str | None,
    coq: str | None,
) -> int:
    """Prove that every call under a policy ends, and compute its worst case, before any is made.

    The certificate goes to stdout as Markdown, laid out on a terminal. A summary comes first:
    whether everything holds, and the most requests, seconds of waiting and seconds; with
    --max-tokens also output tokens, and with --input-tokens and prices money. An unknown figure
    says what is missing. Then come every property and the path to each figure. Without a policy it
    covers the default one. With --turn it covers turns: it bounds calls, requests, seconds, tool
    runs, output tokens and money; each call's certificate follows. module:POLICY needs no --turn.

    With --scripts, each worst case becomes a script for the chain of --backends, or for one, two
    and three backends. Serve it, point a client with that policy at it, and watch the call spend
    exactly that, without the resends that no server can bring about. Comments at the top of each
    file explain how. Existing files are replaced; stderr names all that are written.

    The proof goes row by row, for all limits at once. A walk with each limit at most 1 cross-checks
    it. With --coq, Coq does so too: see the comments at the top of the table that is written.

    \b
    Exit codes:
      0  every property holds
      1  a property does not hold; the certificate shows a path that breaks it
      2  bad input; or a budget of money without prices

    \b
    Examples:
      rungwise verify
      rungwise verify policy.toml --json > certificate.json
      rungwise verify --max-tokens 1000 --input-tokens 5000 --prices 2.5/10
      rungwise verify turn.toml --turn
      rungwise verify policy.toml --backends 3 --scripts worst --coq proof
    """
    policy = policy or default_of(turn=turn)
    prices = price_list(prices).dearest
    check_prices(policy, prices)
    request = CertifiedRequest(
        policy=click.get_current_context().meta.get(NAMED),
        is_turn=isinstance(policy, TurnPolicy),
        max_tokens=max_tokens,
        input_tokens=input_tokens,
        prices=prices,
    )
    certificate, worst = _certify(policy, request, backends, exhaustive=exhaustive)
    put(_as_json(certificate, worst) if as_json else _as_text(certificate, worst))
    if scripts is not None and certificate.ok:
        write_scripts(scripts, policy, _served_cases(policy, request, backends), request)
    if coq is not None:
        _write_proof(Path(coq), policy, certificate.limits)
    return 0 if certificate.ok else 1


def _write_proof(folder: Path, policy: Policy | TurnPolicy, limits: Mapping[str, int]) -> None:
    """Write what Coq checks into a folder."""
    from rungwise.fsm.analysis.certificate.shown.coq import files_of

    for name, text in files_of(policy, limits).items():
        write_file(folder / name, text, "--coq")


def _served_cases(
    policy: Policy | TurnPolicy, request: CertifiedRequest, backends: int | None
) -> Mapping[int, Sequence[WorstCase]]:
    """Return the worst cases that a server can bring about, by the length of the chain."""
    certificate, worst = _certify(_without_resends(policy), request, backends, exhaustive=False)
    if not worst:
        return {backends or 1: certificate.worst}
    return {fallbacks + 1: cases for fallbacks, cases in worst.items()}


ByFallbacks = Mapping[int, tuple[WorstCase, ...]]
"""The worst cases of chains, by how many fallbacks they have; empty if one length was asked for."""


def _as_json(certificate: Certificate, worst: ByFallbacks) -> str:
    plain = dict(certificate.to_json())
    if worst:
        plain["worst_by_fallbacks"] = {
            str(fallbacks): [case.to_json() for case in cases] for fallbacks, cases in worst.items()
        }
    return json.dumps(plain, indent=2) + "\n"


def _as_text(certificate: Certificate, worst: ByFallbacks) -> str:
    text = certificate.to_markdown()
    if worst:
        summary, head, rest = text.partition("\n## ")
        text = summary + by_fallbacks(worst) + head + rest
    return laid_out(text)


def _without_resends(policy: Policy | TurnPolicy) -> Any:
    """Return a policy that resends nothing.

    No script can choose the moment at which a connection goes stale.
    """
    if isinstance(policy, TurnPolicy):
        return evolve(policy, call=_without_resends(policy.of_calls))
    limits = dict(policy.limits)
    limits["resends"] = 0
    return evolve(policy, limits=Limits(**limits))


def _show(bar: Progress, task: TaskID, configurations: int) -> None:
    """Show how many configurations the walk has seen."""
    bar.update(task, completed=configurations)


def _certify(
    policy: Policy | TurnPolicy,
    request: CertifiedRequest,
    backends: int | None,
    *,
    exhaustive: bool,
) -> tuple[Certificate, ByFallbacks]:
    """Prove a policy, and find its worst cases.

    Arguments:
        policy: the policy.
        request: what a call asks.
        backends: the length of the chain. None proves it for one, and finds the worst cases of
            longer ones, too.
        exhaustive: whether to walk with the policy's own limits.
    """
    from rungwise.fsm.analysis.certificate.verify import verify as prove
    from rungwise.fsm.analysis.certificate.verify import worst_by_fallbacks

    numbers = range(1, (backends or 1) + 1)
    chain = [PlainLink(f"backend {number}", prices=request.prices) for number in numbers]
    sizes: dict[str, Any] = {"max_tokens": request.max_tokens, "input_tokens": request.input_tokens}
    walking: AbstractContextManager[Progress | None] = nullcontext()
    if exhaustive:
        walking = progress_bar("{task.completed:>9,} configurations")
    with walking as bar:
        show: Callable[[int], None] | None = None
        if bar is not None:
            task = bar.add_task("walk", total=None)  # nobody knows how long it is
            show = partial(_show, bar, task)
        certificate = prove(policy, chain, exhaustive=exhaustive, progress=show, **sizes)
    if backends is not None or not certificate.ok:
        return certificate, {}
    return certificate, worst_by_fallbacks(policy, 2, prices=request.prices, **sizes)

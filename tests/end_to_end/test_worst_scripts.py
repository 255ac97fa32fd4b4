"""The scripts that `rungwise verify` writes: over HTTP, a client spends with each what the
certificate states.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise import CALL, Budget, Limits, Policy, Prices, Timeouts, TurnPolicy, Waits, verify
from rungwise.adapters.cli.verify import CertifiedRequest, name_of, write_scripts
from rungwise.core import PlainLink
from rungwise.fsm.analysis.certificate.enactment import AFTER_A_TOOL
from rungwise.fsm.analysis.certificate.shown.scripts import WorstScript
from rungwise.fsm.analysis.certificate.worst import worst_cases
from support.command_line import invoke
from support.sampling import examples
from support.worst import played, played_turn

PRICES = Prices(2.5, 10)
REQUEST = {"max_tokens": 1000, "input_tokens": 5000}
FIGURES = ("attempts", "waiting seconds", "seconds", "output tokens", "money")


def written(
    policy: Policy | TurnPolicy,
    backends: int,
    folder: Path,
    prices: Prices = PRICES,
    **request: int,
) -> list[WorstScript]:
    """Write the scripts of a policy, and return what they play; no script has a connection that
    breaks unread.
    """
    if isinstance(policy, Policy):
        bounded = policy.limits.bounded(policy.table.limits, backends)
        cases = worst_cases(policy, bounded, [prices] * backends, **request)
    else:
        links = [PlainLink(f"backend {number}", prices=prices) for number in range(1, backends + 1)]
        cases = verify(policy, links, **request).worst
    write_scripts(
        str(folder), policy, {backends: cases}, CertifiedRequest(None, False, None, None, None)
    )
    scripts = [WorstScript(case, policy, backends) for case in cases]
    return [
        each
        for each in scripts
        if each.unseen is None or "a connection that breaks" not in each.unseen
    ]


def check(worst: WorstScript, folder: Path, prices: Prices | None = PRICES, **request: Any) -> None:
    """Play the file of a worst case, and hold what was spent and sent against what is stated of
    it.
    """
    case = worst.case
    spent, requests, result = played(
        folder / name_of(worst),
        worst.calls,
        [dict(message) for message in case.enacted.messages],
        backends=worst.backends,
        prices=prices,
        is_busy=case.name == "seconds",
        parameters=dict.fromkeys(worst.rejected, 1),
        **request,
    )
    assert spent[case.name] == pytest.approx(case.attained, rel=1e-12)
    assert not case.is_exact or spent[case.name] == pytest.approx(case.value, rel=1e-9)
    asked = [request.body["model"] for request in requests]
    assert (
        tuple(asked.count(f"backend-{number + 1}") for number in range(worst.backends))
        == worst.requests
    )
    assert [f"backend-{each.backend + 1}" for each in worst.attempts] == asked
    steps = [step for step in result.journal.steps if step.event != "skipped"]
    assert tuple(step.source for step in steps if step.event == "sent") == case.rungs


ATTAINED: dict[tuple[str, int], float] = {
    **{("attempts", backends): 24 for backends in (1, 2, 3)},
    **{("waiting seconds", backends): 900 * (1 - 2.0**-32) for backends in (1, 2, 3)},
    **{("seconds", backends): 901 for backends in (1, 2, 3)},
    **{("output tokens", backends): 147_183 for backends in (1, 2, 3)},
}
"""What the default policy comes to; that of money is long.

Nine tokens of output less than is stated: what ends in a word that nobody knows, and fills its cap,
was cut.
"""


@pytest.mark.full
def test_the_default_policy_attains_what_is_stated(tmp_path: Path) -> None:
    """As a user would: the files that the command line has written, and what it has told beside
    them.
    """
    folder = tmp_path / "not" / "there"
    options = (
        "--max-tokens",
        1000,
        "--input-tokens",
        5000,
        "--prices",
        "2.5/10",
        "--scripts",
        folder,
    )
    ended = invoke("verify", "--json", *options)
    assert ended.exit_code == 0
    assert len(list(folder.iterdir())) == ended.stderr.count(str(folder)) == len(FIGURES) * 3
    for fallbacks, cases in json.loads(ended.stdout)["worst_by_fallbacks"].items():
        for stated in cases:
            check_default(folder, int(fallbacks) + 1, stated)


def check_default(folder: Path, backends: int, stated: dict[str, Any]) -> None:
    """Play a script of the default policy, knowing of it no more than its file and the certificate
    as JSON say.
    """
    name = stated["name"]
    chain = "" if backends == 1 else f"-{backends}-backends"
    file = folder / f"worst-{name.replace(' ', '-')}{chain}.toml"
    text = " ".join(file.read_text().replace("\n#", "").split())
    named = re.search(r"parameters that are rejected \((.+?)\)", text)
    rejected = named[1].split(", ") if named else []
    messages = AFTER_A_TOOL if "a prompt that ends in the result of a tool" in text else "say"
    spent, requests, _ = played(
        file,
        Policy(),
        messages,
        backends=backends,
        prices=PRICES,
        is_busy=name == "seconds",
        parameters=dict.fromkeys(rejected, 1),
        **REQUEST,
    )
    assert spent[name] == pytest.approx(stated["attained"], rel=1e-12)
    assert spent[name] == pytest.approx(
        ATTAINED.get((name, backends), stated["attained"]), rel=1e-12
    )
    assert not stated["exact"] or spent[name] == pytest.approx(stated["value"], rel=1e-9)
    assert ("if requests take some" in text) == (name == "waiting seconds")
    assert ("stated no more than" in text) == (", by this script" in text) == (not stated["exact"])
    asked = [request.body["model"] for request in requests]
    told = [
        f"{asked.count(model)} to {model}"
        for model in (f"backend-{number + 1}" for number in range(backends))
    ]
    assert f"requests {', '.join(told)}, in the order" in text


OWN = {
    "interactive": Policy.interactive(),
    "small": Policy(
        limits=Limits(
            retries=1, reasks=1, nudges=0, prefills=1, enlargements=1, repairs=0, continuations=1
        ),
        budget=Budget(attempts=9, seconds=30.0),
        waits=Waits(retry_base=0.5, reask_base=0.25, longest_asked=2.0),
        timeouts=Timeouts(first_token=2.0, stall=1.0, total=5.0),
    ),
    "own table": Policy(
        table=CALL.without("reask", "prefill"), budget=Budget(seconds=None, attempts=12)
    ),
    "no clocks": Policy(
        budget=Budget(attempts=4), timeouts=Timeouts(first_token=None, stall=None, total=60.0)
    ),
    "patient": Policy(
        limits=Limits(retries=0, continuations=0, reasks=3), budget=Budget(seconds=None)
    ),
    "own waits": Policy(waits=Waits(longest_asked=1.0), limits=Limits(continuations=0)),
}


@pytest.mark.full
def test_policies_of_ones_own_attain_what_is_stated(tmp_path: Path) -> None:
    for name, backends in (("interactive", 1), ("small", 2)):
        for worst in written(OWN[name], backends, tmp_path / name, **REQUEST):
            check(worst, tmp_path / name, **REQUEST)


@pytest.mark.full
@pytest.mark.parametrize("backends", [1, 2, 3])
@pytest.mark.parametrize("name", OWN)
def test_any_policy_of_ones_own_attains_what_is_stated(
    name: str, backends: int, tmp_path: Path
) -> None:
    for worst in written(OWN[name], backends, tmp_path, **REQUEST):
        check(worst, tmp_path, **REQUEST)


@settings(
    max_examples=examples(6),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.function_scoped_fixture),
)
@given(
    limits=st.fixed_dictionaries(
        {
            name: st.integers(0, 2)
            for name in ("retries", "reasks", "nudges", "prefills", "enlargements", "repairs")
        }
        | {name: st.integers(0, 1) for name in ("compactions", "continuations")}
    ),
    attempts=st.integers(1, 9),
    seconds=st.sampled_from([None, 20.0, 300.0, 2000.0]),
    longest_asked=st.sampled_from([0.0, 3.0, 100.0]),
    cache_creation=st.sampled_from([None, 5.0]),
    backends=st.integers(1, 3),
)
def test_any_small_policy_attains_what_is_stated(
    limits: Any,
    attempts: int,
    seconds: float | None,
    longest_asked: float,
    cache_creation: float | None,
    backends: int,
    tmp_path: Path,
) -> None:
    policy = Policy(
        limits=Limits(**limits),
        budget=Budget(attempts=attempts, seconds=seconds),
        waits=Waits(longest_asked=longest_asked),
    )
    prices = Prices(3.0, 15.0, cache_creation=cache_creation)
    request = {"max_tokens": 200, "input_tokens": 100}
    for worst in written(policy, backends, tmp_path, prices, **request):
        check(worst, tmp_path, prices, **request)


SMALL_TURN = TurnPolicy(
    auto_continues=2,
    calls_per_reply=2,
    tool_seconds=7.0,
    call=Policy(limits=Limits(retries=1), budget=Budget(attempts=3)),
)
TOOLS_DECIDE = ("seconds", "tool seconds")


@pytest.mark.parametrize(
    ("policy", "backends"),
    [
        (SMALL_TURN, 2),
        *[pytest.param(TurnPolicy(), backends, marks=pytest.mark.full) for backends in (1, 2)],
    ],
)
def test_a_turn_attains_what_is_stated(policy: TurnPolicy, backends: int, tmp_path: Path) -> None:
    for worst in written(policy, backends, tmp_path, **REQUEST):
        case, is_timed = worst.case, worst.case.name in TOOLS_DECIDE
        spent = played_turn(
            tmp_path / name_of(worst),
            policy,
            backends=backends,
            prices=PRICES,
            tool_seconds=policy.tool_seconds if is_timed else 0.0,
            parameters=dict.fromkeys(worst.rejected, 1),
            is_busy=case.name == "seconds",
            **REQUEST,
        )
        assert spent[case.name] == pytest.approx(case.attained, rel=1e-12), case.name

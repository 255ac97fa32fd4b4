"""The page on which a reviewer plays a policy's machine."""

from __future__ import annotations

from attrs import asdict

from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.settings import settings_of
from rungwise.fsm.certificate.turn_facts import usual_facts_of_turn
from rungwise.fsm.certificate.usual_facts import usual_facts
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.diagram.page import Setup, play_page
from rungwise.fsm.errors import TableError
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN


def play_policy(policy: Policy | TurnPolicy = DEFAULT_POLICY, backends: int = 1) -> str:
    """Write the page on which a reviewer plays a policy's machine.

    Arguments:
        policy: of a call: the table with its limits and its budget; or of a turn.
        backends: how many backends the chain has.

    Raises:
        ConfigurationError: there is no backend.
        TableError: the table cannot be proved.
    """
    table = TURN if isinstance(policy, TurnPolicy) else policy.table
    certificate = verify(policy, backends)
    if not certificate.ok:
        failed = "; ".join(each.detail for each in certificate.properties if each.is_required and not each.holds)
        raise TableError(f"the table {table.name!r} cannot be proved: {failed}")
    if isinstance(policy, TurnPolicy):
        found = {event: asdict(facts) for event, facts in usual_facts_of_turn().items()}
        setup = Setup(limits=certificate.limits)  # its budget counts requests, and this page what a turn begins
        return play_page(
            table, setup, heading=_turn_at_worst(certificate), facts=found, unit="action", settings=settings_of(policy)
        )
    usual = usual_facts(policy, backends)
    return play_page(
        table,
        Setup(limits=certificate.limits, budget=asdict(policy.budget)),
        heading=_at_worst(certificate),
        at_first=min((facts.now for event, facts in usual.items() if event != "ran_out"), key=len, default=()),
        facts={event: asdict(facts) for event, facts in usual.items()},
        settings=settings_of(policy),
    )


def _turn_at_worst(certificate: Certificate) -> str:
    worst = {each.name: each.value or 0 for each in certificate.worst}
    return (
        f"A turn makes at most {worst['calls']:,} calls with {worst['attempts']:,} requests, and runs at most "
        f"{worst['tool runs']:,} "
        "tools; an action is a call, a round of tools or a compaction. Choose what comes back, and see which guard "
        "decides: any event can be chosen, also one that the last action could not bring."
    )


def _at_worst(certificate: Certificate) -> str:
    worst = {each.name: each.value for each in certificate.worst}
    seconds = "" if worst["seconds"] is None else f" and takes at most {worst['seconds']:,g} s"
    chain = "one backend" if len(certificate.chain) == 1 else f"a chain of {len(certificate.chain)} backends"
    return (
        f"With {chain}, a call makes at most {worst['attempts']:,} attempts{seconds}; this page follows it step by "
        "step. Choose what comes back, and see which guard decides."
    )

"""The picture of a policy: its machine with its limits and waits, and what it switches off."""

from __future__ import annotations

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.defaults import DEFAULT_POLICY
from rungwise.fsm.certificate.settings import settings_of, table_of
from rungwise.fsm.diagram import Format, View, render
from rungwise.fsm.turn.policy import TurnPolicy


def draw_policy(
    policy: Policy | TurnPolicy = DEFAULT_POLICY,
    format: Format = "svg",
    view: View = "hub",
    *,
    hides_off: bool = False,
) -> str:
    """Draw the machine of a policy as text, with its limits, its waits and its budget.

    Arguments:
        policy: of a call or of a turn.
        format: `svg`, `mermaid`, `dot`, or `rows` for Markdown.
        view: `hub` for the states and their transitions, `ladder` for the order in which guards are tried.
        hides_off: whether rows that can never be taken are left out; otherwise they are struck.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    return render(table_of(policy), format, view, settings=settings_of(policy, hides_off=hides_off))

"""The picture of a policy: its machine with its limits and waits, and what it switches off."""

from __future__ import annotations

from typing import get_args

from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.certificate.settings import limits_of, settings_of, table_of
from rungwise.fsm.diagram import Format, Model, View, model, render
from rungwise.fsm.turn.policy import TurnPolicy


def draw_policy(
    policy: Policy | TurnPolicy = DEFAULT_POLICY,
    format: Format | Model = "svg",
    view: View = "hub",
    *,
    hides_off: bool = False,
) -> str:
    """Draw the machine of a policy as text, with its limits, its waits and its budget.

    Arguments:
        policy: of a call or of a turn.
        format: `svg`, `mermaid`, `dot`, or `rows` for Markdown; `promela` is a model for SPIN, and `tla` a TLA+
            specification, of which `tlc` is the configuration.
        view: `hub` for the states and what leads from one to another, `ladder` for the order in which guards are tried;
            a model for a checker has but one.
        hides_off: whether rows that can never be taken are left out; otherwise they are struck.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    table = table_of(policy)
    for each in get_args(Model):
        if format == each:
            return model(table, each, limits_of(policy))
    pictured: Format = format  # type: ignore[assignment]
    return render(table, pictured, view, settings=settings_of(policy, hides_off=hides_off))

"""Prove a policy in the browser: this runs in Pyodide, beside the core and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from rungwise.fsm.analysis.certificate.shown.page import play_policy
from rungwise.fsm.analysis.certificate.shown.pictures import draw_policy
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.review.diff import diff_policies
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.errors import RungwiseError


def proved(text: str, backends: int) -> Iterator[tuple[str, str]]:
    """Yield what is known of a policy, each part by its name as soon as it is there.

    Arguments:
        text: the policy, in TOML.
        backends: the length of the chain.
    """
    began = monotonic()
    try:
        policy = Policy.from_toml(text, source="policy.toml")
        certificate = verify(policy, backends)
        yield "certificate", certificate.to_text()
        yield "proved", f"{monotonic() - began:.1f}"
        yield "diagram", draw_policy(policy, "svg")
        yield "machine", play_policy(policy, backends)
        yield "diff", diff_policies(DEFAULT_POLICY, policy, backends).to_html()
    except RungwiseError as error:
        yield "problem", str(error)

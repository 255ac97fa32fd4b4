"""A policy for a world in which everything goes faster, so that minutes of faults are played in
seconds.
"""

from typing import Any

import attrs

from rungwise import Health, Policy

NO_SECONDS = {"jitter", "share", "failures"}
"""The numbers among waits, timeouts, reserves and rules of health that are no seconds."""


def scaled(policy: Policy, scale: float) -> Policy:
    """Return a policy with every one of its seconds multiplied."""
    if scale == 1.0:
        return policy
    return attrs.evolve(
        policy,
        timeouts=_times(policy.timeouts, scale),
        waits=_times(policy.waits, scale),
        reserve=_times(policy.reserve, scale),
        budget=attrs.evolve(policy.budget, seconds=_time(policy.budget.seconds, scale)),
    )


def scaled_health(scale: float) -> Health:
    """Return the default rules of health with each of their seconds multiplied."""
    return _times(Health(), scale)


def _times(part: Any, scale: float) -> Any:
    names = [
        attribute.name for attribute in attrs.fields(type(part)) if attribute.name not in NO_SECONDS
    ]
    return attrs.evolve(part, **{name: _time(getattr(part, name), scale) for name in names})


def _time(seconds: float | None, scale: float) -> float | None:
    if seconds is None:
        return None
    return type(seconds)(seconds * scale)  # what is a default remains one

"""The pair of Hypothesis profiles: one for the build that must not flicker, one that looks for something new."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

CI = "rungwise-ci"
FUZZ = "rungwise-fuzz"

FUZZ_EXAMPLES = 1_000


def register_profiles() -> None:
    """Register `rungwise-ci` (the same examples in every run) and `rungwise-fuzz` (other ones in every run).

    Where Hypothesis finds itself in CI it loads a profile of its own, and a profile without a parent inherits that one:
    derandomized, so that a job would fuzz the same examples for ever. The parent is therefore named.
    """
    both = {"deadline": None, "print_blob": True, "suppress_health_check": (HealthCheck.too_slow,)}
    parent = settings.get_profile("default")
    settings.register_profile(CI, parent, derandomize=True, database=None, **both)
    settings.register_profile(FUZZ, parent, derandomize=False, max_examples=FUZZ_EXAMPLES, **both)

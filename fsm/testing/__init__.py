"""The fuzz kit: strategies, a virtual clock, a scripted backend, and one assertion for every call.

Its public names are those of `rungwise.testing`. It needs Hypothesis: `pip install
'rungwise[testing]'`.
"""

from typing import TYPE_CHECKING

try:
    from hypothesis import HealthCheck, settings
except ImportError as error:
    raise ImportError(
        "rungwise.testing needs Hypothesis: pip install 'rungwise[testing]'"
    ) from error

# One profile repeats its examples, the other draws new ones each run. In CI, Hypothesis loads a
# derandomized profile of its own, from which one without a parent inherits: a job would fuzz the
# same examples for ever. So it is named.
_both = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": (HealthCheck.too_slow,),
}
_parent = settings.get_profile("default")
settings.register_profile(
    "rungwise-ci",
    _parent,
    derandomize=True,
    database=None,
    **_both,
)
settings.register_profile(
    "rungwise-fuzz",
    _parent,
    derandomize=False,
    max_examples=1_000,
    **_both,
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say where the public names of the kit are."""
        message = f"module {__name__!r} has no attribute {name!r}"
        if not name.startswith("_"):
            message += "; the public names of the fuzz kit are in rungwise.testing"
        raise AttributeError(message)

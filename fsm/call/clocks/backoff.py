"""How long to wait between attempts when the service did not say."""

from __future__ import annotations

_LARGEST_EXPONENT = 1023  # of a float; beyond it every cap has long been reached


def backoff(n: int, base: float, cap: float, jitter: float, draw: float) -> float:
    """Return the wait before the `n`-th repetition: doubled each time, capped, then lengthened by chance.

    Arguments:
        n: which repetition this is, counted from 1.
        base: the first wait, in seconds.
        cap: the longest wait before jitter, in seconds.
        jitter: the largest share of the wait that is added to it; 0.5 adds up to half.
        draw: a random number from 0 to below 1. The caller draws it, so that a replay can use the same one.
    """
    doubled = n - 1 if 1 <= n <= _LARGEST_EXPONENT else min(max(n, 1) - 1, _LARGEST_EXPONENT)
    delay = min(base * 2.0**doubled, cap)
    return delay + draw * jitter * delay


def longest_backoff(n: int, base: float, cap: float, jitter: float) -> float:
    """Return the longest wait that `backoff` can come to, in seconds; the arguments are those of `backoff`."""
    return backoff(n, base, cap, jitter, 1.0)

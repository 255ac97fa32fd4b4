"""What can be asked of a fault: each check is a name and a function of what was seen.

"Asked" is the primary alone: it is the provider in trouble that a caller must not make more of.
"""

from collections.abc import Callable

from attrs import frozen

from failover.seen import Seen


@frozen
class Check:
    """Name something that holds of what was seen, or does not."""

    name: str
    holds: Callable[[Seen], bool]


def at_most(count: int) -> Check:
    """Check how often the primary was asked."""
    return Check(f"asked at most {count} times", lambda seen: len(seen.times) <= count)


def at_most_at_first(count: int, seconds: float) -> Check:
    """Check how often the primary was asked within the first seconds."""
    return Check(
        f"asked at most {count} times within {seconds:g} s",
        lambda seen: sum(at - seen.times[0] <= seconds for at in seen.times) <= count,
    )


def asked_again_after(seconds: float) -> Check:
    """Check that the primary was asked a second time, and when at the earliest."""
    return Check(
        f"asked again not before {seconds:g} s",
        lambda seen: len(seen.times) > 1 and seen.times[1] - seen.times[0] >= seconds,
    )


def ends_within(seconds: float) -> Check:
    """Check how long all of it took."""
    return Check(
        f"over within {seconds:g} s",
        lambda seen: max(asked.ended_at for asked in seen.asked) <= seconds,
    )


def back_within(seconds: float) -> Check:
    """Check that the primary answers again soon after its recovery."""

    def holds(seen: Seen) -> bool:
        recovered = seen.dead_for or 0.0
        return any(
            recovered <= attempt.at <= recovered + seconds
            for attempt in seen.of("primary")
            if attempt.is_answered
        )

    return Check(f"the primary answers again within {seconds:g} s of its recovery", holds)


def _asked_once_or_smaller(seen: Seen) -> bool:
    prompts = [attempt.prompt for attempt in seen.of("primary")]
    return len(prompts) == 1 or (len(prompts) == 2 and prompts[1] < prompts[0])


def _answered_meanwhile(seen: Seen) -> bool:
    meanwhile = [asked for asked in seen.asked if asked.ended_at < (seen.dead_for or 0.0)]
    return bool(meanwhile) and all(
        seen.is_complete(asked) and asked.model == seen.fallback for asked in meanwhile
    )


def _shows_no_prefill_error(seen: Seen) -> bool:
    is_refused = any(attempt.is_refused_prefill for attempt in seen.attempts)
    return not (is_refused and any(asked.error for asked in seen.asked))


alive = Check("a healthy call works afterwards", lambda seen: seen.is_complete(seen.alive))
complete = Check("complete", lambda seen: all(map(seen.is_complete, seen.asked)))
no_cut_answer = Check(
    "no cut answer as success",
    lambda seen: all(asked.text is None or seen.is_complete(asked) for asked in seen.asked),
)
asked_once = Check("asked once", lambda seen: len(seen.times) == 1)
asked_once_or_smaller = Check(
    "asked once, or once more with a smaller prompt", _asked_once_or_smaller
)
asked_again = Check("asked again", lambda seen: len(seen.times) > 1)
answered_meanwhile = Check("answered by the fallback meanwhile", _answered_meanwhile)
names_the_fallback = Check(
    "the fallback's model is named",
    lambda seen: all(asked.text is None or asked.model == seen.fallback for asked in seen.asked),
)
not_routed_around = Check(
    "not routed around", lambda seen: all(asked.text is None for asked in seen.asked)
)
shows_no_prefill_error = Check("a refused prefill is not the final error", _shows_no_prefill_error)
usage_reported = Check(
    "usage reported",
    lambda seen: all(asked.text is None or asked.has_usage for asked in seen.asked),
)

"""Hypothesis strategies for chains of backends, and for the pieces in which bytes or a text may
arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.testing.scripted import ScriptedLink
from rungwise.fsm.testing.strategies import seldom


def chains(*, priced: bool = False) -> SearchStrategy[list[PlainLink]]:
    """Generate chains of plain links with different capabilities, duplicates, and unusable
    links.
    """
    prices = st.builds(
        Prices,
        input=st.sampled_from((1.0, 0.0)),
        output=st.sampled_from((10.0, 0.0, 1.5)),
        cache_read=st.sampled_from((None, 0.1)),
        cache_creation=st.sampled_from((None, 1.25, 20.0)),
    )
    link: SearchStrategy[PlainLink] = st.builds(
        ScriptedLink,
        name=st.sampled_from(("backend-1", "backend-2", "backend-3")),
        prefills=st.booleans(),
        echoes=st.booleans(),
        problem=seldom(st.just("no key")),
        keys=st.integers(1, 3),
        prices=prices if priced else st.one_of(st.none(), prices),
        lessons=seldom(
            st.builds(
                Lessons,
                dropped=st.frozensets(st.sampled_from(("temperature", "max_tokens", "stream"))),
                no_prefill=st.booleans(),
                restore_reasoning=st.booleans(),
                largest_output=st.sampled_from((None, 256, 8_192)),
            )
        ).map(lambda lessons: lessons or NO_LESSONS),
    )
    usable = st.lists(link, min_size=1, max_size=3)
    return usable.filter(lambda links: any(each.problem is None for each in links))


@st.composite
def chunkings(draw: DrawFn, whole: AnyStr) -> list[AnyStr]:
    """Cut bytes or a text anywhere into pieces, which join to `whole`."""
    cuts: Sequence[int] = []
    if len(whole) > 1:
        cuts = sorted(draw(st.lists(st.integers(1, len(whole) - 1), max_size=20, unique=True)))
    ends = [*cuts, len(whole)]
    return [whole[start:end] for start, end in zip([0, *cuts], ends, strict=True)]

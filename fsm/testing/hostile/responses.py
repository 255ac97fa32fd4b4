"""Hypothesis strategies for what a hostile server writes.

Each response is a valid reply after one hostile transformation, as plain data. The transformations
are grouped by what they spoil: the contents, the framing, the encoding, the pace, the amount.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.testing.hostile.contents import CONTENTS, ENCODINGS
from rungwise.fsm.testing.hostile.floods import DRIPS, FLOODS
from rungwise.fsm.testing.hostile.framing import FRAMINGS
from rungwise.fsm.testing.hostile.raw import Hostility, RawResponse, healthy_response, valid_reply

_KINDS: Final[Mapping[str, Hostility]] = {
    **CONTENTS,
    **FRAMINGS,
    **ENCODINGS,
    **DRIPS,
    **FLOODS,
}

HOSTILITIES: Final = tuple(_KINDS)
"""The ways of being hostile: contents, framing, encodings, drips, floods."""


def hostile_responses(
    *, kinds: Collection[str] = HOSTILITIES, streams: bool | None = None
) -> SearchStrategy[RawResponse]:
    """Generate responses of a hostile server, for `rungwise.testing.assert_survives`.

    Arguments:
        kinds: the ways in which they are hostile, of `HOSTILITIES`.
        streams: whether they are made of event streams, or of whole bodies; None makes both.

    Raises:
        ConfigurationError: a kind is unknown, or there is none.
    """
    unknown = [kind for kind in kinds if kind not in _KINDS]
    if unknown or not kinds:
        raise ConfigurationError(
            f"hostile_responses: kinds must be some of HOSTILITIES, not {unknown}"
        )
    return _hostile(tuple(kinds), streams)


@st.composite
def _hostile(draw: DrawFn, kinds: tuple[str, ...], streams: bool | None) -> RawResponse:
    kind = draw(st.sampled_from(kinds))
    if streams is None:
        streams = draw(st.booleans())
    reply = valid_reply(streams=streams)
    return attrs.evolve(_KINDS[kind](draw, reply), kind=kind)


def raw_responses(
    *, streams: bool, kinds: Collection[str] = HOSTILITIES
) -> SearchStrategy[list[RawResponse]]:
    """Generate what a server writes to the requests of one call.

    Hostile responses come first, and a valid one may come last. One response in six is made of the
    other sort of reply than was asked for.

    Arguments:
        streams: whether the call asks for event streams.
        kinds: the ways in which responses are hostile, of `HOSTILITIES`.
    """
    fitting = hostile_responses(kinds=kinds, streams=streams)
    either = hostile_responses(kinds=kinds)
    each = st.integers(0, 5).flatmap(lambda chance: either if chance == 5 else fitting)
    hostile = st.lists(each, min_size=1, max_size=3)
    healthy = st.sampled_from(([], [healthy_response(streams=streams)]))
    return st.builds(lambda bad, good: bad + good, hostile, healthy)

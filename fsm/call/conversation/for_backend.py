"""What of a request is meant for a backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from rungwise.fsm.call.conversation.json_instruction import wish_of
from rungwise.fsm.call.conversation.link import headers_for, parameters_for, prefills_for, tools_for
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.failures.events import FORMAT_PARAMETER


@frozen(eq=False)
class Meant:
    """Hold what of a request is meant for one backend: the same in all attempts there, however many there are.

    Arguments:
        backend: its place in the chain.
        request: the request as it is given these parameters.
        headers, tools: likewise.
        asked: the output cap that the caller or the backend asks for.
        asks_for_little: whether that is a handful of tokens.
        prefills: whether the backend goes on from a trailing assistant turn.
        expects_json: whether the answer must be JSON, so that a piece of it is nothing to go on from.
        may_ask_in_words: whether that can be asked for in words where the backend rejects the parameter for it.
        shapes: the form in which it is written.
    """

    backend: int
    request: Request = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    tools: tuple[Mapping[str, Any], ...] = field(repr=False)
    asked: int | None
    asks_for_little: bool
    prefills: bool
    expects_json: bool
    may_ask_in_words: bool
    shapes: Shapes

    @classmethod
    def of(cls, context: CallContext) -> Meant:
        """Return what is meant for the current backend."""
        request, chain = context.request, context.chain
        first, link = chain.links[0], chain.link
        headers, parameters, tools = request.headers, request.parameters, request.tools
        if link is not first:
            headers, parameters = headers_for(request, first, link), parameters_for(request, first, link)
            tools = tools_for(request, first, link)
        meant = request if parameters is request.parameters else evolve(request, parameters=parameters)
        asks_json = chain.shapes.asks_for_json(parameters) if parameters else None
        expects_json = link.expects_json if asks_json is None else asks_json
        asked = request.max_tokens or link.max_tokens
        asks_for_little = asked is not None and asked <= context.policy.handful
        prefills = prefills_for(link, parameters)
        in_words = expects_json and wish_of(link, meant, frozenset({FORMAT_PARAMETER})) is not None
        place, shapes = chain.index, chain.shapes
        return cls(place, meant, headers, tools, asked, asks_for_little, prefills, expects_json, in_words, shapes)

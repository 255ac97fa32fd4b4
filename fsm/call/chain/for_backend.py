"""What of a request each backend is sent, and the words that ask for JSON where it has no parameter
for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, estimate_tokens
from rungwise.fsm.call.chain.chain import Chain
from rungwise.fsm.call.chain.link import AsksBy, Link
from rungwise.fsm.call.conversation.reading import Reading
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.conversation.transcript import Composed
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.replies.parts import Message, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import is_json, texts_in
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import is_identifier, note
from rungwise.fsm.values.secret import NO_HEADERS, SecretMap

if TYPE_CHECKING:
    from rungwise.fsm.replies.schemas.returns import (
        Returns,  # which a call without them does without
    )


_FORMATS_IN_WORDS: Final[Iterable[Mapping[str, Any]]] = (
    {"type": "json"},  # an unknown type
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}},
)


def with_json_instruction(
    composed: Composed,
    resolved: ForBackend,
    hints: Hints,
    dropped: frozenset[str],
) -> Composed:
    """Add a system message that asks for JSON, if the backend has no parameter for it or has
    rejected that. The questions of a decision stand before that.

    Arguments:
        composed: the messages that would go out.
        resolved: what is asked, as it is for this backend.
        hints: the wording.
        dropped: the parameters that the backend has rejected.
    """
    words = []
    if resolved.questions:
        words.append(_asking(resolved.questions, hints))
    response_format = resolved.link.in_words(resolved.request, dropped)
    if response_format is not None:
        words.append(_wording(response_format, hints))
    if not words:
        return composed
    text = "\n\n".join(words)
    # behind the caller's own system messages, which stand first
    place = 0
    for message in composed.messages:
        if resolved.shapes.role_of(message) not in ("system", "developer"):
            break
        place += 1
    messages = list(composed.messages)
    messages.insert(place, Message.saying("system", text))
    added_tokens = composed.added_tokens + _tokens_of(text)
    return evolve(composed, messages=tuple(messages), added_tokens=added_tokens)


def longest_json_instruction(
    links: Iterable[Link], hints: Hints, response_format: Mapping[str, Any] | None = None
) -> int:
    """Return the most tokens that the instruction adds to a prompt; a backend may reject the
    parameter and need it.

    Arguments:
        links: the backends.
        hints: the wording.
        response_format: what is asked for; None for any.
    """
    formats = _FORMATS_IN_WORDS if response_format is None else (response_format,)
    requests = [Request("?"), *[Request("?", response_format=each) for each in formats]]
    rejected = frozenset({FORMAT_PARAMETER})
    longest = 0
    for link in links:
        for request in requests:
            in_words = link.in_words(request, rejected)
            if in_words is not None:
                longest = max(longest, _tokens_of(_wording(in_words, hints)))
    return longest


def _tokens_of(text: str) -> int:
    """Count the tokens of the instruction, as those of any message are counted."""
    return estimate_tokens(text) + MESSAGE_TOKENS


def _asking(questions: str, hints: Hints) -> str:
    return hints.questions.replace("{questions}", questions)


def _wording(response_format: Mapping[str, Any], hints: Hints) -> str:
    schema = schema_of(response_format)
    if schema is None:
        return hints.json
    return hints.json_schema.replace("{schema}", json.dumps(schema, ensure_ascii=False))


def schema_of(response_format: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema of a `response_format`, if it holds one."""
    inner = response_format.get("json_schema")
    if not isinstance(inner, Mapping):
        inner = response_format
    schema = inner.get("schema")
    return schema if isinstance(schema, Mapping) else None


QUESTIONS: Final = "questions"
"""The parameter by which a backend with an endpoint for decisions gets the questions."""

ANSWER_TOOL: Final = "answer"
"""The name of the forced tool, and of the schema."""

_NOTHING: Final[AsksBy] = "nothing"


@frozen(eq=False, repr=False)
class Asking:
    """Hold how a backend is asked for what the caller wants back."""

    by: AsksBy
    parameters: Mapping[str, Any]  # added to those of the request
    tools: tuple[Mapping[str, Any], ...]  # those of the request, or the forced one
    tokens: int = 0  # of what is added, unless it is said in words, which are counted as such

    @classmethod
    def of(
        cls,
        returns: Returns,
        link: Link,
        parameters: Mapping[str, Any],
        tools: tuple[Mapping[str, Any], ...],
    ) -> Asking:
        """Choose the way, as the backend says.

        Arguments:
            returns: what the caller wants back.
            link: the backend.
            parameters, tools: those of the request, as they are for this backend.
        """
        if returns.is_decision and link.measures:
            questions = {QUESTIONS: returns.plain_questions()}
            return cls("decision", questions, (), estimate_tokens(questions))
        by, schema, strict = link.asks_by(returns.schema, parameters, tools)
        if by == "tool":
            tool = FrozenMap(link.shapes.tool_of(ANSWER_TOOL, "Give the answer.", schema))
            choice = {"tool_choice": {"type": "function", "function": {"name": ANSWER_TOOL}}}
            return cls(by, choice, (tool,), estimate_tokens((tool, choice)))
        json_schema: dict[str, Any] = {"name": ANSWER_TOOL, "schema": schema}
        if strict:
            json_schema["strict"] = True
        json_format = {FORMAT_PARAMETER: {"type": "json_schema", "json_schema": json_schema}}
        if by == "schema":
            return cls(by, json_format, tools, estimate_tokens(json_format))
        return cls("words", json_format, tools)


def question_tokens(returns: Returns | None, hints: Hints) -> int:
    """Return the tokens of the words that ask the questions of a decision; 0 for any other call."""
    if returns is None or not returns.is_decision:
        return 0
    return _tokens_of(_asking(returns.in_words, hints))


def most_schema_tokens(returns: Returns | None, links: Iterable[Link]) -> int:
    """Return the most tokens that a schema or a forced tool for an answer has at any of these
    backends.
    """
    if returns is None:
        return 0
    most = 0
    for link in links:
        for tools in ((), ({"name": "any"},)):
            most = max(most, Asking.of(returns, link, {}, tools).tokens)
    return most


@frozen(eq=False, repr=False)
class ForBackend:
    """Hold what one backend is sent of a request, the same in every attempt there."""

    backend: int
    link: Link
    request: Request
    headers: Mapping[str, str]
    tools: tuple[Mapping[str, Any], ...]
    max_tokens: int | None  # the output cap that the caller or the backend sets
    asks_for_little: bool
    prefills: bool
    expects_json: bool
    # whether words can ask for JSON if the backend rejects the parameter for it
    has_json_instruction: bool
    shapes: Shapes
    asks_by: AsksBy  # how it is asked for what the caller wants back
    schema_tokens: int  # of a schema or a forced tool that asks for it
    questions: str = ""  # of a decision, where words ask for them

    @classmethod
    def of(
        cls, request: Request, chain: Chain, handful: int, returns: Returns | None = None
    ) -> ForBackend:
        """Resolve a request for the current backend.

        Arguments:
            request: what the caller asks.
            chain: the backends, with the current one.
            handful: output tokens; a cap of so many or fewer asks for little.
            returns: what the caller wants back; None for any reply.
        """
        first = chain.links[0]
        link = chain.link
        shapes = chain.shapes
        parameters = parameters_for(request, first, link)
        tools = tools_for(request, first, link)
        asks_by = _NOTHING
        schema_tokens = 0
        questions = ""
        if returns is not None:
            asking = Asking.of(returns, link, parameters, tools)
            parameters = FrozenMap({**parameters, **asking.parameters})
            tools = asking.tools
            asks_by = asking.by
            schema_tokens = asking.tokens
            if returns.is_decision and asks_by != "decision":
                questions = returns.in_words
        resolved = request
        if parameters is not request.parameters:
            resolved = evolve(request, parameters=parameters)
        expects_json = returns is not None
        if not expects_json:
            asks_json = shapes.asks_for_json(parameters) if parameters else None
            expects_json = link.expects_json if asks_json is None else asks_json
        has_json_instruction = False
        if expects_json:
            rejected = frozenset({FORMAT_PARAMETER})
            has_json_instruction = link.in_words(resolved, rejected) is not None
        cap = request.max_tokens or link.max_tokens
        return cls(
            backend=chain.index,
            link=link,
            request=resolved,
            headers=headers_for(request, first, link),
            tools=tools,
            max_tokens=cap,
            asks_for_little=cap is not None and cap <= handful,
            prefills=link.prefills_with(parameters),
            expects_json=expects_json,
            has_json_instruction=has_json_instruction,
            shapes=shapes,
            asks_by=asks_by,
            schema_tokens=schema_tokens,
            questions=questions,
        )

    def dropped(self, rejected: frozenset[str]) -> frozenset[str]:
        """Return the parameters to leave out: what the backend has rejected, and the format where
        words ask for it.
        """
        if self.asks_by == "words":
            return rejected | {FORMAT_PARAMETER}
        return rejected

    def answer_in(self, reply: Reply) -> tuple[Reply, ToolCall | None]:
        """Return the reply with the arguments of the forced tool as its text, and that call; None
        if it has none.
        """
        call = next(iter(reply.tool_calls), None)
        if self.asks_by != "tool" or call is None or reply.interrupted:
            return reply, None
        calls_others = any(each.name != ANSWER_TOOL for each in reply.tool_calls)
        if calls_others or not is_json(call.arguments):
            return reply, None
        thought = [part for part in reply.parts if not isinstance(part, ToolCall | TextPart)]
        stop_reason = reply.stop_reason
        if stop_reason == "tool_calls":
            stop_reason = "stop"
        answer = evolve(
            reply,
            text="",
            tool_calls=(),
            final_text=None,
            stop_reason=stop_reason,
            parts=(*thought, TextPart(call.arguments)),
        )
        return answer, call


def headers_for(request: Request, first: Link, link: Link) -> Mapping[str, str]:
    """Return the headers of a request for a backend: only one with the origin of the first backend
    gets them.
    """
    if link is first or not request.headers:
        return request.headers
    if _share_origin(link, first):
        return request.headers
    return NO_HEADERS


def parameters_for(request: Request, first: Link, link: Link) -> Mapping[str, Any]:
    """Return the parameters of a request for a backend, in its own words."""
    if not request.parameters:
        return request.parameters
    parameters, _ = link.taken(request.parameters, first)
    return parameters


def tools_for(request: Request, first: Link, link: Link) -> tuple[Mapping[str, Any], ...]:
    """Return the tools of a request for a backend: another server gets only those that it is known
    to take.
    """
    if not request.tools or link is first:
        return request.tools
    if _share_origin(link, first) and _speak_alike(link, first):
        return request.tools
    return tuple(filter(link.shapes.knows_tool, request.tools))


def losses_of(request: Request, first: Link, link: Link) -> tuple[str, ...]:
    """Describe in a short sentence each what a backend does not get of a request to the first
    one.
    """
    losses = []
    if request.parameters:
        parameters, lost = link.taken(request.parameters, first)
        losses += [f"{name}: {why}" for name, why in lost.items()]
        if parameters is not request.parameters:
            request = evolve(request, parameters=parameters)
    if link is first:
        losses += link.lost(request)
        return tuple(map(note, losses))
    tools = tools_for(request, first, link)
    if len(tools) < len(request.tools):
        sent = set(map(id, tools))
        for tool in request.tools:
            if id(tool) not in sent:
                losses.append(f"the tool {tool.get('type')}: it was given for another server")
        request = evolve(request, tools=tools)
    losses += link.lost_behind(request)
    return tuple(map(note, losses))


def _share_origin(one: Link, other: Link) -> bool:
    return bool(one.origin) and one.origin == other.origin


def _speak_alike(one: Link, other: Link) -> bool:
    return type(one.shapes) is type(other.shapes)


@frozen(eq=False, repr=False)
class Proposal:
    """Hold what one attempt sends, and how its answer is to be read."""

    send: Send
    reading: Reading
    for_backend: ForBackend
    prompt_tokens: int | None = None
    is_probe: bool = False  # whether it is the first at a backend that was not asked for a while

    def shown(self, word: str | None, *, is_known: bool = False) -> str | None:
        """Return a provider's word as journals and logs show it: only its length if it might be
        private.

        That is what is no short identifier, and, unless the word is known, what repeats a secret or
        the prompt.
        """
        if word is None or (is_identifier(word) and is_known):
            return word
        is_plain = is_identifier(word) and not self.repeats_secret(word)
        if is_plain and not any(word in text for text in texts_in(self.send.messages)):
            return word
        return f"({len(word)} characters)"

    def repeats_secret(self, word: str) -> bool:
        """Tell whether a word is a secret that was sent, or a part of one."""
        sent = self.for_backend
        return SecretMap(sent.headers).shows(word) or sent.link.is_secret(word)

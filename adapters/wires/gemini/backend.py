"""The backend for generateContent: the Gemini API, Vertex AI, and servers that speak it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from types import ModuleType
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, quote, urlencode

from attrs import evolve, frozen

from rungwise.adapters.wires.endpoint import Endpoint, read_url
from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.gemini import parameters as gemini
from rungwise.adapters.wires.gemini.google import GoogleBackend
from rungwise.adapters.wires.gemini.shapes import GEMINI, form_for
from rungwise.adapters.wires.gemini.stream import GeminiDecoder
from rungwise.adapters.wires.http_backend import ARGUMENTS
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import first_cap, without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.replies.parts import Message, ToolResult
from rungwise.fsm.values.checks import explains_names
from rungwise.fsm.values.secret import hides_arguments

DUMMY: Final = "skip_thought_signature_validator"
"""What stands for a missing signature of a function call.

Another model has made the call, or the signature was not kept. The API refuses an unsigned one, and
names this value for the purpose [ai.google.dev/gemini-api/docs/thought-signatures]."""

_NEVER_DROPPED: Final = ("contents", "systemInstruction", "maxOutputTokens")
"""Fields that stay even if the server rejects them: the cap alone bounds the answer."""
_CALLS: Final = ("functionCall", "function_call")
_RESULTS: Final = ("functionResponse", "function_response")


def _lower_reasoning(body: Body, traits: gemini.Traits) -> None:
    """Ask for less reasoning than the body does."""
    config = body.get("generationConfig", {})
    thinking = mapping_of(config.get("thinkingConfig"))
    now = thinking.get("thinkingLevel", thinking.get("thinkingBudget", ""))
    less = traits.lower.get(str(now).upper())
    if less is None and isinstance(now, int) and now > 1024:
        less = {"thinkingBudget": 1024}
    if less is not None:
        body["generationConfig"] = {**config, "thinkingConfig": {**thinking, **less}}


def in_order(messages: Iterable[PlainMessage | Message]) -> list[PlainMessage | Message]:
    """Return messages with the results of each turn in one message, in the order of the calls.

    Gemini requires both.
    """
    ordered: list[PlainMessage | Message] = []
    names: dict[str, str] = {}  # of the tools that the last turn called, by the ids of the calls
    for is_tool, row in groupby(messages, _is_neutral_result):
        if not is_tool:
            for message in row:
                if isinstance(message, Message) and message.tool_calls:
                    names = {call.id: call.name for call in message.tool_calls}
                ordered.append(message)
            continue
        results: list[ToolResult] = []
        for message in row:
            if isinstance(message, Message):
                results += message.tool_results
        places = {id: place for place, id in enumerate(names)}
        results.sort(key=lambda each: places.get(each.id, len(places)))
        named = []
        for result in results:
            name = result.name or names.get(result.id, "")
            named.append(evolve(result, name=name))
        ordered.append(Message("tool", named))
    return ordered


def _is_neutral_result(message: PlainMessage | Message) -> bool:
    return isinstance(message, Message) and message.role == "tool"


def _joined(contents: Iterable[PlainMessage]) -> list[PlainMessage]:
    """Join contents with nothing but function results.

    The API wants as many in one content as there were calls.
    """
    joined: list[PlainMessage] = []
    for holds_results, row in groupby(contents, _holds_results):
        group = [*row]
        if holds_results and len(group) > 1:
            parts = [part for each in group for part in each["parts"]]
            group = [{**group[-1], "parts": parts}]
        joined += group
    return joined


def _holds_results(content: PlainMessage) -> bool:
    """Tell whether a content holds nothing but function results."""
    return all(mapping_of(part).keys() & _RESULTS for part in content["parts"])


def _signed(content: PlainMessage) -> PlainMessage:
    """Return a content with a signed first function call.

    The other calls of a step need no signature.
    """
    parts = content["parts"]
    if content.get("role") != "model":
        return content
    for place, part in enumerate(parts):
        if isinstance(part, Mapping) and part.keys() & _CALLS:
            if part.get("thoughtSignature") or part.get("thought_signature"):
                return content
            parts = [*parts]
            parts[place] = {**part, "thoughtSignature": DUMMY}
            return {**content, "parts": parts}
    return content


_METHOD: Final = re.compile(
    r"/models/[^/?#]*:(?:streamGenerateContent|generateContent)/?(?=[?#]|$)"
)


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class Gemini(GoogleBackend):
    """Speak generateContent with one model of Google's.

    On Vertex AI, `base_url` is
    "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google",
    "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google", or
    the same at "aiplatform.us.rep.googleapis.com" or "aiplatform.eu.rep.googleapis.com"; `api_key`
    is a function that returns an access token, which is sent as a bearer token.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    A model may be named with its collection, such as "tunedModels/mine". Parameters of the
    `generationConfig` may stand in it or by themselves.

    Arguments:
        base_url: the URL up to `/models/...`; it may also end in `/models/NAME:generateContent`.
        api_key: the key of the Gemini API.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://generativelanguage.googleapis.com/v1beta"
    PATH = ""
    API = "gemini"
    DECODER = GeminiDecoder
    FORM = GEMINI
    RESERVED = gemini.RESERVED
    REFUSES = (gemini.refuse_own,)
    PARAMETERS: ClassVar[ModuleType] = gemini

    def _read_endpoint(self) -> Endpoint:
        endpoint = read_url(_METHOD.sub("", self.base_url), self.PATH)
        # `alt` is added when a stream is requested.
        rest = [(name, value) for name, value in parse_qsl(endpoint.query[1:]) if name != "alt"]
        query = f"?{urlencode(rest)}" if rest else ""
        return evolve(endpoint, query=query)

    def _contents(self, send: Send, form: Form) -> tuple[list[Any], list[PlainMessage]]:
        """Return the parts of the system prompt, and the contents."""
        history = in_order(send.messages)
        system: list[Any] = []
        turns: list[PlainMessage] = []
        for each in written(history, form, self._owner(send), is_portable=send.portable):
            if each.get("role") == "system":
                system += list_of(each.get("parts"))
            elif each.get("parts"):
                turns.append(each)
        return system, _joined(turns)

    def _body(self, send: Send, *, stream: bool) -> Body:
        traits = gemini.traits_of(self.model)
        form = form_for(self.model)
        own = gemini.placed(self.parameters, traits)
        body = gemini.merged(own, gemini.placed(send.parameters, traits))
        system, contents = self._contents(send, form)
        if traits.wants_signatures:
            contents = [_signed(each) for each in contents]
        if send.prefill and contents and contents[-1].get("role") == "model":
            # the core keeps the blanks for the seam
            contents[-1] = without_end(contents[-1], "parts")
        body["contents"] = contents
        if system:
            body["systemInstruction"] = {"parts": system}
        if send.has_tools and "tools" not in body:
            form.set_tools(body, send.tools)
        if not body.get("tools"):
            body.pop("toolConfig", None)  # which is an error by itself
        cap = first_cap(send, send.parameters, self.parameters)
        if cap is not None:
            body["generationConfig"] = {**body.get("generationConfig", {}), "maxOutputTokens": cap}
        if send.lower_reasoning:
            _lower_reasoning(body, traits)
        gemini.without(body, send.dropped, _NEVER_DROPPED)
        if send.continuation is not None:
            body["continuationToken"] = send.continuation
        return body

    @property
    def shapes(self) -> Form:
        """Return the form for this model."""
        return form_for(self.model)

    def _url(self, *, stream: bool) -> str:
        model = self.model if "/" in self.model else f"models/{self.model}"
        url = f"{self._endpoint.root}/{quote(model, safe='/@-_.')}"
        query = self._endpoint.query
        if not stream:
            return f"{url}:generateContent{query}"
        rest = query.replace("?", "&", 1)
        return f"{url}:streamGenerateContent?alt=sse{rest}"

"""The backend for generateContent (Gemini API, Vertex AI, servers that speak it), with the body of
a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from attrs import evolve, frozen

from rungwise.adapters.wires.endpoint import Endpoint, read_url
from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.gemini import parameters as gemini
from rungwise.adapters.wires.gemini.shapes import GEMINI, form_for
from rungwise.adapters.wires.gemini.stream import GeminiDecoder
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import first_cap, without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.values.secret import Secret, hides_arguments

DUMMY: Final = "skip_thought_signature_validator"
"""What stands for the signature of a function call that another model has made, or that was not
kept: the API refuses an unsigned one, and names this value for the purpose
[ai.google.dev/gemini-api/docs/thought-signatures]."""

_NEVER_DROPPED: Final = ("contents", "systemInstruction", "maxOutputTokens")
"""Fields that stay even if the server rejects them: without the cap nothing would bound the answer.
"""
_CALLS: Final = ("functionCall", "function_call")
_RESULTS: Final = ("functionResponse", "function_response")


def _lower_reasoning(body: Body, traits: gemini.Traits) -> None:
    config = body.get("generationConfig", {})
    thinking = mapping_of(config.get("thinkingConfig"))
    now = thinking.get("thinkingLevel", thinking.get("thinkingBudget", ""))
    less = traits.lower.get(str(now).upper())
    if less is None and isinstance(now, int) and now > 1024:
        less = {"thinkingBudget": 1024}
    if less is not None:
        body["generationConfig"] = {**config, "thinkingConfig": {**thinking, **less}}


def in_order(messages: Iterable[PlainMessage | Message]) -> list[PlainMessage | Message]:
    """Return messages with the results of each turn in one message, in the order of the calls, as
    Gemini requires.
    """
    ordered: list[PlainMessage | Message] = []
    names: dict[str, str] = {}
    for is_tool, row in groupby(
        messages, lambda message: isinstance(message, Message) and message.role == "tool"
    ):
        if is_tool:
            places = {id: place for place, id in enumerate(names)}
            results = [
                result
                for message in row
                if isinstance(message, Message)
                for result in message.tool_results
            ]
            results.sort(key=lambda each: places.get(each.id, len(places)))
            named = [evolve(each, name=each.name or names.get(each.id, "")) for each in results]
            ordered.append(Message("tool", named))
            continue
        for message in row:
            if isinstance(message, Message) and message.tool_calls:
                names = {call.id: call.name for call in message.tool_calls}
            ordered.append(message)
    return ordered


def _joined(contents: Iterable[PlainMessage]) -> list[PlainMessage]:
    """Join contents with nothing but function results: the API wants as many in one as there were
    calls.
    """
    joined: list[PlainMessage] = []
    for holds_results, row in groupby(
        contents,
        lambda content: all(mapping_of(part).keys() & _RESULTS for part in content["parts"]),
    ):
        group = [*row]
        if holds_results and len(group) > 1:
            group = [{**group[-1], "parts": [part for each in group for part in each["parts"]]}]
        joined += group
    return joined


def _signed(content: PlainMessage) -> PlainMessage:
    """Return a content with a signed first function call; the others of a step need no
    signature.
    """
    parts = content["parts"]
    if content.get("role") != "model":
        return content
    for place, part in enumerate(parts):
        if isinstance(part, Mapping) and part.keys() & _CALLS:
            if part.get("thoughtSignature") or part.get("thought_signature"):
                return content
            signed = {**part, "thoughtSignature": DUMMY}
            return {**content, "parts": [*parts[:place], signed, *parts[place + 1 :]]}
    return content


_METHOD: Final = re.compile(
    r"/models/[^/?#]*:(?:streamGenerateContent|generateContent)/?(?=[?#]|$)"
)


@hides_arguments
@frozen
class Gemini(HttpBackend):
    """Speak generateContent with one model of Google's.

    On Vertex AI, `base_url` is
    "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google",
    and the access token goes into `headers={"authorization": "Bearer ..."}`; `api_key` is left out,
    as it is sent as `x-goog-api-key`, which accepts no token.

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

    def _read_endpoint(self) -> Endpoint:
        endpoint = read_url(_METHOD.sub("", self.base_url), self.PATH)
        # `alt` is added when a stream is requested.
        rest = [(name, value) for name, value in parse_qsl(endpoint.query[1:]) if name != "alt"]
        return evolve(endpoint, query=f"?{urlencode(rest)}" if rest else "")

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the
        reason.
        """
        losses: dict[str, str] = {}
        if parameters.get("parallel_tool_calls") is False:
            losses["parallel_tool_calls"] = "Gemini has no switch for it"
        if parameters.get("response_format") is not None and not gemini.format_of(
            parameters["response_format"]
        ):
            losses["response_format"] = "its type must be text, json_object or json_schema"
        if parameters.get("tool_choice") is not None and not gemini.choice_of(
            parameters["tool_choice"]
        ):
            losses["tool_choice"] = "it names no mode and no function"
        return losses

    def _body(self, send: Send, *, stream: bool) -> Body:
        traits = gemini.traits_of(self.model)
        form = form_for(self.model)
        body = gemini.merged(
            gemini.placed(self.parameters, traits), gemini.placed(send.parameters, traits)
        )
        written_contents = written(
            in_order(send.messages), form, self._owner(send), is_portable=send.portable
        )
        systems = [each for each in written_contents if each.get("role") == "system"]
        system = [part for each in systems for part in list_of(each.get("parts"))]
        contents = _joined(
            [
                each
                for each in written_contents
                if each.get("role") != "system" and each.get("parts")
            ]
        )
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
        return body

    @property
    def shapes(self) -> Form:
        """Return the form for this model."""
        return form_for(self.model)

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        effort = self._parameters_of(request).get("reasoning_effort")
        return {
            **super()._unsupported(request),
            **gemini.lost_effort(effort, gemini.traits_of(self.model)),
        }

    def _credentials(self, key: Secret) -> dict[str, str]:
        return {"x-goog-api-key": key.reveal()}

    def _url(self, *, stream: bool) -> str:
        model = self.model if "/" in self.model else f"models/{self.model}"
        method, query = ("streamGenerateContent", "alt=sse") if stream else ("generateContent", "")
        query = "&".join(filter(None, (query, self._endpoint.query[1:])))
        return (
            f"{self._endpoint.root}/{quote(model, safe='/@-_.')}:{method}"
            f"{'?' if query else ''}{query}"
        )

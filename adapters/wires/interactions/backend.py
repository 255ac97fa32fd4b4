"""The backend for Interactions, with the body of a request."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

from attrs import field, frozen

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.gemini.google import GoogleBackend
from rungwise.adapters.wires.gemini.parameters import merged
from rungwise.adapters.wires.http_backend import ARGUMENTS
from rungwise.adapters.wires.interactions import parameters as interactions
from rungwise.adapters.wires.interactions.parameters import CAP, PLACE
from rungwise.adapters.wires.interactions.shapes import INTERACTIONS
from rungwise.adapters.wires.interactions.stream import InteractionsDecoder
from rungwise.adapters.wires.plain.parts import mapping_of, text_of_blocks
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import first_cap, without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import explains_names, is_flag, must
from rungwise.fsm.values.secret import hides_arguments


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class GeminiInteractions(GoogleBackend):
    """Speak Gemini's Interactions with one model of Google's.

    The provider stores nothing: each request carries the conversation, with the thoughts of this
    model's own turns. Set the parameter `store` to True to keep interactions at the provider.

    On Vertex AI, `base_url` is
    "https://aiplatform.googleapis.com/v1beta1/projects/PROJECT/locations/LOCATION", and `api_key`
    is a function that returns an access token, which is sent as a bearer token.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    The URL ends before `/interactions`. Parameters of the `generation_config` may stand in it or by
    themselves.

    Arguments:
        api_key: the key of the Gemini API.
        background: whether Google continues a reply when the connection breaks, so that its rest
            is fetched (the rung `reattach`). It stores each interaction for that.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://generativelanguage.googleapis.com/v1beta"
    PATH = "/interactions"
    API = "interactions"
    DECODER = InteractionsDecoder
    FORM = INTERACTIONS
    RESERVED = interactions.RESERVED
    REFUSES = (interactions.refuse_own,)
    PARAMETERS: ClassVar[ModuleType] = interactions
    AFTER = "last_event_id"

    background: bool = field(default=False, kw_only=True, validator=must("True or False", is_flag))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.background and "aiplatform" in self.base_url:
            raise ConfigurationError(
                "background: Vertex AI has other requests for it; leave it out"
            )

    def _input(self, send: Send) -> tuple[str, list[PlainMessage]]:
        """Return the system prompt, and the steps."""
        system: list[str] = []
        steps: list[PlainMessage] = []
        for each in written(
            send.messages, INTERACTIONS, self._owner(send), is_portable=send.portable
        ):
            if each.get("role") == "system":
                system.append(text_of_blocks(each["content"]))
            elif each.get("type") != "thought" or each.get("signature"):
                steps.append(each)
        if send.prefill and steps and steps[-1].get("type") == "model_output":
            steps[-1] = without_end(steps[-1])
        return "\n\n".join(system), steps

    def _body(self, send: Send, *, stream: bool) -> Body:
        own = interactions.placed(self.parameters, self.model)
        asked = interactions.placed(send.parameters, self.model)
        body: Body = {"model": self.model, "stream": stream, "store": False}
        body |= merged(own, asked, PLACE)
        if self.keeps_for(send):
            body["background"] = True
            body["store"] = True
        system, body["input"] = self._input(send)
        if system:
            body["system_instruction"] = system
        if send.has_tools and "tools" not in body:
            INTERACTIONS.set_tools(body, send.tools)
        config = dict(mapping_of(body.get(PLACE)))
        if not body.get("tools"):
            config.pop("tool_choice", None)
        cap = first_cap(send, send.parameters, self.parameters)
        if cap is not None:
            config[CAP] = cap
        body[PLACE] = config
        if send.lower_reasoning:
            interactions.lowered(body, self.model)
        interactions.without(body, send.dropped)
        if not body.get(PLACE):
            body.pop(PLACE, None)
        if send.continuation is not None:
            _go_on(body, send.continuation)
        return body


def _go_on(body: Body, continuation: str) -> None:
    """Ask for what comes behind a token.

    The input goes out again unless the provider has stored the interaction that the token is of.
    """
    token, _, id = continuation.rpartition("\n")
    body["continuation_token"] = token
    if id and body.get("store") is not False:
        body["previous_interaction_id"] = id
        del body["input"]

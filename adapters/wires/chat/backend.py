"""The backend for chat completions: OpenAI's own, and every server that speaks the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from attrs import evolve, field, frozen

from rungwise.adapters.wires.chat.dialects import CapField, Dialect, PrefillMode, dialect_of
from rungwise.adapters.wires.chat.discovery import DiscoverableBackend
from rungwise.adapters.wires.chat.request import OTHER_CAP, RESERVED, ChatBody, refuse_many, type_not_sent
from rungwise.adapters.wires.chat.shapes import CHAT, ChatShapes
from rungwise.adapters.wires.chat.stream import ChatDecoder
from rungwise.adapters.wires.endpoint import is_token
from rungwise.adapters.wires.fields import optional
from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.plain.tools import chat_choice
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.values.checks import is_flag, must, must_be_one_of
from rungwise.fsm.values.secret import Secret, hides_arguments


@hides_arguments
@frozen
class OpenAIChat(DiscoverableBackend):
    """Speak chat completions with one model of one server.

    How servers of this protocol differ from OpenAI's stands in
    [one table](https://github.com/rungwise/rungwise/blob/main/adapters/wires/chat/dialects.py), by host and model.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. The URL goes up
    to `/chat/completions`, and a query such as `?api-version=...` is kept.

    Arguments:
        api_key: the key, sent as a bearer token; as `api-key` to Azure's APIs before v1.
        cap_field: the field that holds the output cap in tokens; "auto" decides by the host.
        prefill: how a trailing assistant turn is continued; "auto" asks the table of dialects, whose default is no.
        echoes: whether the server repeats a continued assistant turn at the start of its answer; None asks that table,
            and otherwise recognises an echo that is long enough to be certain.
        sends_finish_reason: whether the server ends each reply with a finish reason, as the protocol demands, so that a
            reply without one was cut. Set it to False for a server that sends none.
        server: what `Client.discover` learned about the server.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.openai.com/v1"
    PATH = "/chat/completions"
    API = "openai"
    WRITER = ChatBody
    DECODER = ChatDecoder
    FORM = CHAT
    RESERVED = RESERVED
    REFUSES = (refuse_many,)

    cap_field: Literal["auto"] | CapField = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(CapField)))
    )
    prefill: Literal["auto"] | PrefillMode = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(PrefillMode)))
    )
    _echoes: bool | None = field(default=None, alias="echoes", kw_only=True, repr=False, validator=optional(bool))
    sends_finish_reason: bool = field(default=True, kw_only=True, validator=must("True or False", is_flag))
    _dialect: Dialect = field(init=False, eq=False, repr=False)
    _shapes: ChatShapes = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        dialect = self._chosen_dialect()
        self._set(_dialect=dialect, _shapes=ChatShapes(dialect))
        capabilities = self.capabilities
        prefills = self._dialect.prefill != "no"
        if prefills or capabilities.prefill:  # the dialect has the last word
            capabilities = evolve(capabilities, prefill=prefills)
        self._set(capabilities=capabilities)

    @property
    def echoes(self) -> bool:
        """Tell whether the server repeats a continued assistant turn at the start of its answer."""
        return self._dialect.echoes

    @property
    def shapes(self) -> Form:
        """Return the form of its conversations and tools."""
        return self._shapes

    def _credentials(self, key: Secret) -> dict[str, str]:
        """Return the headers that carry the key; an Entra token is always a bearer token."""
        header = dialect_of(self.base_url, self.model).key_header
        return {header: key.reveal()} if header and not is_token(key) else super()._credentials(key)

    def _chosen_dialect(self) -> Dialect:
        """Return the dialect for this URL and model, with the caller's own settings applied."""
        dialect = dialect_of(self.base_url, self.model)
        cap = self.cap_field
        if cap == "auto":
            # A caller's parameters go to each backend of a chain; the backend's own show what its server accepts.
            own = [name for name in OTHER_CAP.values() if self.parameters.get(name) is not None]
            cap = own[0] if own else dialect.cap_field
        prefill = self._prefill_mode(dialect.prefill) if self.prefill == "auto" else self.prefill
        echoes = dialect.echoes if self._echoes is None else self._echoes
        return evolve(dialect, cap_field=cap, prefill=prefill, echoes=echoes)

    def _prefill_mode(self, usual: PrefillMode) -> PrefillMode:
        """Return how a turn is continued, given that the caller's capabilities say whether it is."""
        prefills = None if self._own_capabilities is None else self._own_capabilities.prefill
        if usual == "no" and self.server is not None and self.server.prefill is not None:
            usual = self.server.prefill
        if prefills is None:
            return usual
        return ("trailing" if usual == "no" else usual) if prefills else "no"

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        parameters = self._parameters_of(request)
        tools = parameters.get("tools")
        if request.tools and "tools" not in request.parameters:
            tools = self._shapes.written_tools(request.tools)
        kind = type_not_sent(chat_choice(parameters.get("tool_choice")), tools)
        unsent = {} if kind is None else {"tool_choice": f"no tool of the type {kind} is sent"}
        return {**super()._unsupported(request), **unsent}

    def _writing(self, send: Send) -> Mapping[str, Any]:
        return {"dialect": self._dialect}

    def decoder(self, headers: Mapping[str, str]) -> ChatDecoder:
        """Start to read a streamed response of status 200."""
        return ChatDecoder(headers, self.provider, self.sends_finish_reason)

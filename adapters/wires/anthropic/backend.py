"""The backend for Anthropic's Messages, and for servers that speak its protocol, with the body of a
request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby
from typing import Any, Final
from urllib.parse import quote, urlsplit

from attrs import field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.anthropic import parameters as anthropic
from rungwise.adapters.wires.anthropic.shapes import ANTHROPIC
from rungwise.adapters.wires.anthropic.stream import AnthropicDecoder
from rungwise.adapters.wires.endpoint import is_header_text, is_token
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.portability import BEGINNING, NO_TEXT, written
from rungwise.adapters.wires.request import without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.values.secret import Secret, hides_arguments

RESERVED: Final = {
    **request.RESERVED,
    "system": "give it to the call, as a message of role 'system'",
    "max_tokens_to_sample": "it is called 'max_tokens'",
}

_NEVER_DROPPED: Final = RESERVED.keys() | {"max_tokens"}
"""Fields that stay even if the server rejects them: the API requires them all."""
VERTEX_VERSION: Final = "2026-10-21"
_THINKING: Final = ("thinking", "redacted_thinking")


def _drop(body: Body, names: frozenset[str]) -> None:
    for name in names - _NEVER_DROPPED:
        body.pop(name, None)
    rejected = {"effort"} & names
    if "response_format" in names:
        body.pop("output_format", None)
        rejected |= {"format"}
    if rejected and isinstance(body.get("output_config"), Mapping):
        config = {
            name: each for name, each in body.pop("output_config").items() if name not in rejected
        }
        if config:
            body["output_config"] = config


def late_system(roles: Sequence[str]) -> set[int]:
    """Return the indices of system messages between a user turn and an assistant's, or the end:
    they may stay there.
    """
    runs = [[*run] for _, run in groupby(range(len(roles)), lambda index: roles[index] == "system")]
    return {
        index
        for run in runs
        if roles[run[0]] == "system" and run[0] and roles[run[0] - 1] in ("user", "tool")
        if run[-1] + 1 == len(roles) or roles[run[-1] + 1] == "assistant"
        for index in run
    }


def _parted(
    messages: Sequence[PlainMessage], *, system_turns: bool
) -> tuple[Any, list[PlainMessage]]:
    """Return the system prompt and the turns; consecutive turns of one role that Rungwise wrote are
    joined.
    """
    not_empty = [message for message in messages if message["content"]]
    late = late_system([message["role"] for message in not_empty]) if system_turns else set()
    stays = [
        message["role"] != "system" or index in late for index, message in enumerate(not_empty)
    ]
    system = [
        text
        for message, stay in zip(not_empty, stays, strict=True)
        if not stay and (text := _texts(message))
    ]
    turns: list[PlainMessage] = []
    for (role, is_ours), row in groupby(
        compress(not_empty, stays), lambda message: (message["role"], type(message) is dict)
    ):
        group = [*row]
        if is_ours and len(group) > 1:
            blocks = [block for each in group for block in _blocks(each["content"])]
            # results first, as the API requires
            blocks.sort(key=lambda block: not _is(block, "tool_result"))
            group = [{"role": role, "content": blocks}]
        turns += group
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": BEGINNING if turns else NO_TEXT})
    if len(system) > 1:
        return [block for content in system for block in _blocks(content)], turns
    return (system[0] if system else None), turns


def _texts(message: PlainMessage) -> Any:
    """Return the content of a message without blocks that may not stand in `system`, such as
    `tool_addition`.
    """
    content = message["content"]
    return (
        content if isinstance(content, str) else [block for block in content if _is(block, "text")]
    )


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def _soothe_thinking(body: Body, turns: Sequence[PlainMessage]) -> None:
    """Remove parameters that cannot be combined with reasoning, or reasoning itself if the API
    would refuse it.
    """
    kind = mapping_of(body.get("thinking")).get("type")
    if kind not in ("enabled", "adaptive"):
        return
    is_forced = mapping_of(body.get("tool_choice")).get("type") in anthropic.FORCED
    if is_forced or (kind == "enabled" and _lacks_thinking(turns)):
        del body["thinking"]
        return
    for name in ("temperature", "top_k", "top_p"):
        body.pop(name, None)


def _lacks_thinking(turns: Sequence[PlainMessage]) -> bool:
    """Tell whether the running tool loop began without reasoning, as with another provider."""
    last = turns[-1]
    if last["role"] == "user" and any(
        _is(block, "tool_result") for block in _blocks(last["content"])
    ):
        last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), last)
    if last["role"] != "assistant":
        return False
    blocks = [
        block
        for block in _blocks(last["content"])
        if not (_is(block, "text") and is_blank(block["text"]))
    ]
    return not (blocks and any(_is(blocks[0], kind) for kind in _THINKING))


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


VERSION: Final = "2023-06-01"
BASE_CAP: Final = 4096
"""The default output cap in tokens: the API requires one, and a continuation can raise it."""


def _as_names(value: Iterable[str] | str) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


def _check_names(instance: object, attribute: Any, value: Any) -> None:
    names = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(each, str) and each.strip() and is_header_text(each) for each in names):
        raise ConfigurationError(
            "beta must be a list of the names of beta features, as in the anthropic-beta header"
        )


@hides_arguments
@frozen
class Anthropic(HttpBackend):
    """Speak Anthropic's Messages with one model.

    System messages are sent separately. The API requires an output cap: if neither the call nor
    `parameters` set one, it is 4096 tokens plus the reasoning budget in `parameters`, but never
    more than the model is known to write. A reasoning budget that would fill the cap gets half of
    it, and none under a cap of 1024 tokens. Reasoning is left out of a request that forces a tool,
    and of one in a tool loop that another provider began without it.

    For Claude on Google's Vertex AI, `base_url` is
    "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/anthropic",
    and `api_key` a function that returns an access token. On Azure, it is
    "https://RESOURCE.services.ai.azure.com/anthropic/v1", with a key, or a function that returns
    Entra's token.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    The URL ends before `/messages`.

    Arguments:
        api_key: the key, sent as `x-api-key`; as a bearer token on Vertex AI, and if it is Entra's.
        beta: the beta features to ask for.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.anthropic.com/v1"
    PATH = "/messages"
    API = "anthropic"
    DECODER = AnthropicDecoder
    FORM = ANTHROPIC
    RESERVED = RESERVED

    beta: tuple[str, ...] = field(
        default=(), kw_only=True, converter=_as_names, validator=_check_names
    )

    @property
    def _generation(self) -> anthropic.Generation:
        return anthropic.generation_of(self.model)

    @property
    def max_tokens(self) -> int:
        """Return the output cap that is sent if the caller gives none, in tokens."""
        cap = super().max_tokens or BASE_CAP + anthropic.budget_in(self.parameters)
        return min(cap, self.capabilities.largest_output or cap)

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        return anthropic.thinks(parameters, self._generation) or bool(
            self.FORM.asks_for_json(parameters)
        )

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        most = self.max_tokens
        own_cap = super().max_tokens
        losses = anthropic.lost_parameters(
            self._parameters_of(request), self._generation, request.max_tokens or most
        )
        if request.max_tokens is None and own_cap is not None and own_cap > most:
            losses[f"max_tokens above {most}"] = f"it is sent as {most}"
        return losses

    def _credentials(self, key: Secret) -> dict[str, str]:
        if self._is_on_vertex or is_token(key):
            return super()._credentials(key)
        return {"x-api-key": key.reveal()}

    @property
    def _is_on_vertex(self) -> bool:
        return urlsplit(self.base_url).path.rstrip("/").endswith("/publishers/anthropic")

    def _url(self, *, stream: bool) -> str:
        if not self._is_on_vertex:
            return super()._url(stream=stream)
        method = "streamRawPredict" if stream else "rawPredict"
        return (
            f"{self._endpoint.root}/models/{quote(self.model, safe='@-_.')}:{method}"
            f"{self._endpoint.query}"
        )

    def _own_headers(self) -> dict[str, str]:
        beta = {"anthropic-beta": ",".join(self.beta)} if self.beta else {}
        # there the body has it
        return beta if self._is_on_vertex else {"anthropic-version": VERSION, **beta}

    def _body(self, send: Send, *, stream: bool) -> Body:
        cap = send.max_tokens or self.max_tokens
        generation = self._generation
        messages = written(send.messages, ANTHROPIC, self._owner(send), is_portable=send.portable)
        system, turns = _parted(messages, system_turns=self.capabilities.system_turns is True)
        if send.prefill:
            turns[-1] = without_end(turns[-1]) if turns[-1]["role"] == "assistant" else turns[-1]
        parameters = {
            name: each
            for name, each in self._parameters_of(send).items()
            if name not in send.dropped
        }
        tools = parameters.pop("tools", send.tools)
        body = {
            **anthropic.translated(parameters, generation, cap=cap),
            "model": self.model,
            "max_tokens": cap,
        }
        body["messages"] = turns
        if system:
            body["system"] = system
        ANTHROPIC.set_tools(body, tools or ())
        if send.lower_reasoning:
            anthropic.lower_reasoning(body, generation)
        anthropic.fit_budget(body, cap)
        _soothe_thinking(body, turns)
        if stream:
            body["stream"] = True
        _drop(body, send.dropped)
        if self._is_on_vertex:  # the URL names the model there [anthropic-sdk-python, lib/vertex]
            del body["model"]
            body.setdefault("anthropic_version", VERTEX_VERSION)
        return body

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this model does not get of a request, in a short sentence each."""
        roles = [self.FORM.role_of(message) for message in request.messages]
        late = late_system(roles) if self.capabilities.system_turns else set()
        begins = next((index for index, role in enumerate(roles) if role != "system"), len(roles))
        moves = any(
            role == "system" and index > begins and index not in late
            for index, role in enumerate(roles)
        )
        lost = super().lost(request, is_portable=is_portable)
        return (*lost, "system messages between the turns: they go to the front") if moves else lost

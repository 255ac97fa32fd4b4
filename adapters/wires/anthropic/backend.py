"""The backend for Anthropic's Messages, and for servers that speak its protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote, urlsplit

from attrs import field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.anthropic import parameters as anthropic
from rungwise.adapters.wires.anthropic.shapes import ANTHROPIC
from rungwise.adapters.wires.anthropic.stream import AnthropicDecoder
from rungwise.adapters.wires.anthropic.versions import (
    HEADER,
    fitted,
    generation_in,
    is_new,
    refused_in,
    version_of,
)
from rungwise.adapters.wires.endpoint import Endpoint, is_header_text, is_token, read_url
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import ARGUMENTS, HttpBackend
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.portability import BEGINNING, NO_TEXT, written
from rungwise.adapters.wires.request import leave_out, without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.values.checks import explains_names
from rungwise.fsm.values.secret import Secret, hides_arguments

RESERVED: Final = {
    **request.RESERVED,
    "system": "give it to the call, as a message of role 'system'",
    "max_tokens_to_sample": "it is called 'max_tokens'",
}

_NEVER_DROPPED: Final = RESERVED.keys() | {"max_tokens"}
"""Fields that stay even if the server rejects them: the API requires them all."""
_THINKING: Final = ("thinking", "redacted_thinking")


def _drop(body: Body, names: frozenset[str]) -> None:
    """Remove the parameters that the server has rejected."""
    for name in names - _NEVER_DROPPED:
        leave_out(body, name)
    rejected = {"effort"} & names
    if "response_format" in names:
        body.pop("output_format", None)
        rejected |= {"format"}
    if rejected and isinstance(body.get("output_config"), Mapping):
        config = body.pop("output_config")
        rest = {name: each for name, each in config.items() if name not in rejected}
        if rest:
            body["output_config"] = rest


def late_system(roles: Sequence[str]) -> set[int]:
    """Return the indices of system messages that may stay where they are.

    They stand between a user turn and an assistant's, or the end.
    """
    late: set[int] = set()
    for role, group in groupby(enumerate(roles), lambda each: each[1]):
        run = [index for index, _ in group]
        first = run[0]
        end = run[-1] + 1
        if role != "system" or first == 0:
            continue
        is_behind_user = roles[first - 1] in ("user", "tool")
        if is_behind_user and (end == len(roles) or roles[end] == "assistant"):
            late.update(run)
    return late


def without_system(
    messages: Sequence[PlainMessage], *, system_turns: bool
) -> tuple[list[PlainMessage], list[PlainMessage]]:
    """Return the messages of the system prompt, and those that stay where they are.

    Arguments:
        messages: the conversation, with system messages among the turns; empty ones are left out.
        system_turns: whether the model takes system messages between the turns.
    """
    messages = [message for message in messages if message["content"]]
    late: set[int] = set()
    if system_turns:
        late = late_system([message["role"] for message in messages])
    system: list[PlainMessage] = []
    others: list[PlainMessage] = []
    for index, message in enumerate(messages):
        if message["role"] == "system" and index not in late:
            system.append(message)
        else:
            others.append(message)
    return system, others


def moved_system(roles: Sequence[str], *, system_turns: bool) -> Iterator[str]:
    """Yield a sentence if a system message between the turns has to go to the front.

    Arguments:
        roles: those of the messages.
        system_turns: whether the model takes system messages between the turns.
    """
    late: set[int] = set()
    if system_turns:
        late = late_system(roles)
    has_begun = False
    for index, role in enumerate(roles):
        if role != "system":
            has_begun = True
        elif has_begun and index not in late:
            yield "system messages between the turns: they go to the front"
            return


def _parted(
    messages: Sequence[PlainMessage], *, system_turns: bool
) -> tuple[Any, list[PlainMessage]]:
    """Return the system prompt and the turns.

    Arguments:
        messages: the conversation in this form, with system messages among the turns.
        system_turns: whether the model takes system messages between the turns.
    """
    front, others = without_system(messages, system_turns=system_turns)
    system = [content for content in map(_texts, front) if content]
    turns = _joined(others)
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": BEGINNING if turns else NO_TEXT})
    if not system:
        return None, turns
    if len(system) == 1:
        return system[0], turns
    return [block for content in system for block in _blocks(content)], turns


def _joined(messages: Sequence[PlainMessage]) -> list[PlainMessage]:
    """Return turns in which those of one role in a row that Rungwise wrote are one.

    What Rungwise wrote is a plain dict; a frozen mapping is the caller's, and stays as it is.
    """
    turns: list[PlainMessage] = []
    for (role, is_ours), row in groupby(
        messages, lambda message: (message["role"], type(message) is dict)
    ):
        group = [*row]
        if is_ours and len(group) > 1:
            blocks = [block for each in group for block in _blocks(each["content"])]
            # results first, as the API requires
            blocks.sort(key=lambda block: not _is(block, "tool_result"))
            group = [{"role": role, "content": blocks}]
        turns += group
    return turns


def _texts(message: PlainMessage) -> Any:
    """Return the content of a message without blocks that may not stand in `system`.

    One of those is `tool_addition`.
    """
    content = message["content"]
    if isinstance(content, str):
        return content
    return [block for block in content if _is(block, "text")]


def _blocks(content: Any) -> list[Any]:
    """Return the content of a message as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [*content]


def _soothe_thinking(body: Body, turns: Sequence[PlainMessage]) -> None:
    """Remove parameters that cannot be combined with reasoning.

    If the API would refuse the reasoning itself, remove that.
    """
    if not anthropic.is_on(body.get("thinking")):
        return
    kind = body["thinking"]["type"]
    is_forced = mapping_of(body.get("tool_choice")).get("type") in anthropic.FORCED
    if is_forced or (kind == "enabled" and _lacks_thinking(turns)):
        del body["thinking"]
        return
    for name in anthropic.EVERY_SAMPLING:
        body.pop(name, None)


def _lacks_thinking(turns: Sequence[PlainMessage]) -> bool:
    """Tell whether the running tool loop began without reasoning, as with another provider."""
    turn = turns[-1]
    if turn["role"] == "user":
        if not any(_is(block, "tool_result") for block in _blocks(turn["content"])):
            return False
        turn = next((each for each in reversed(turns) if each["role"] == "assistant"), turn)
    if turn["role"] != "assistant":
        return False
    for block in _blocks(turn["content"]):
        if not (_is(block, "text") and is_blank(block["text"])):
            return not any(_is(block, kind) for kind in _THINKING)
    return True


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


_ON_AWS: Final = re.compile(r"https://aws-external-anthropic\.[^/]+\.api\.aws(?:/|$)")
_BEARER: Final = re.compile(
    r"https://(?:(?:aws-external-anthropic|bedrock-mantle)\.[^/]+\.api\.aws"
    r"|claude\.googleapis\.com)(?:/|$)"
)
"""Where a key is a bearer token, and the clients' base URLs end before `/v1/messages`.

[anthropic-sdk-python, lib/aws, lib/bedrock/_mantle.py, lib/google_cloud]
"""
_WORKSPACE: Final = "ANTHROPIC_AWS_WORKSPACE_ID"
BASE_CAP: Final = 4096
"""The default output cap in tokens: the API requires one, and a continuation can raise it."""


def _as_names(value: Iterable[str] | str) -> Any:
    """Return one name or several as a tuple; anything else is left to the validator."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


def _check_names(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, tuple) or not all(map(_is_name, value)):
        raise ConfigurationError(
            "beta must be a list of the names of beta features, as in the anthropic-beta header"
        )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and is_header_text(value)


@hides_arguments
@explains_names(ARGUMENTS)
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

    def _version_of(self, request: Request | Send) -> str:
        """Return the version that a request is sent in; the caller's own wins."""
        own = self._sent_headers.get(HEADER)
        for name, value in request.headers.items():
            if name.lower() == HEADER:
                own = value
        if not self._is_on_vertex:
            return version_of(self.model, "anthropic", own)
        in_body = self._parameters_of(request).get("anthropic_version")
        return version_of(self.model, "vertex", in_body or own)

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        if anthropic.thinks(parameters, self._generation):
            return True
        return bool(self.FORM.asks_for_json(parameters))

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        most = self.max_tokens
        own_cap = super().max_tokens
        cap = request.max_tokens or most
        parameters = self._parameters_of(request)
        generation = generation_in(self.model, self._version_of(request))
        losses = anthropic.lost_parameters(parameters, generation, cap)
        if request.max_tokens is None and own_cap is not None and own_cap > most:
            losses[f"max_tokens above {most}"] = f"it is sent as {most}"
        return losses

    def _credentials(self, key: Secret) -> dict[str, str]:
        if self._is_on_vertex or _BEARER.match(self.base_url) or is_token(key):
            return super()._credentials(key)
        return {"x-api-key": key.reveal()}

    @property
    def _is_on_vertex(self) -> bool:
        return urlsplit(self.base_url).path.rstrip("/").endswith("/publishers/anthropic")

    def _read_endpoint(self) -> Endpoint:
        url = self.base_url.removesuffix(self.PATH).rstrip("/")
        if not _BEARER.match(url) or url.endswith("/v1"):
            return super()._read_endpoint()
        return read_url(f"{url}/v1", self.PATH)

    def _url(self, *, stream: bool) -> str:
        if not self._is_on_vertex:
            return super()._url(stream=stream)
        method = "streamRawPredict" if stream else "rawPredict"
        model = quote(self.model, safe="@-_.")
        return f"{self._endpoint.root}/models/{model}:{method}{self._endpoint.query}"

    def _own_headers(self) -> dict[str, str]:
        headers = {}
        if not self._is_on_vertex:  # there the body has it
            headers[HEADER] = version_of(self.model)
        workspace = os.environ.get(_WORKSPACE)
        if workspace and _ON_AWS.match(self.base_url):
            headers["anthropic-workspace-id"] = workspace
        if self.beta:
            headers["anthropic-beta"] = ",".join(self.beta)
        return headers

    def _body(self, send: Send, *, stream: bool) -> Body:
        cap = send.max_tokens or self.max_tokens
        version = self._version_of(send)
        generation = generation_in(self.model, version)
        given = fitted(send.messages) if is_new(version) else send.messages
        messages = written(given, ANTHROPIC, self._owner(send), is_portable=send.portable)
        system, turns = _parted(messages, system_turns=self.capabilities.system_turns is True)
        if send.prefill and turns[-1]["role"] == "assistant":
            turns[-1] = without_end(turns[-1])
        every = self._parameters_of(send)
        parameters = {name: each for name, each in every.items() if name not in send.dropped}
        tools = parameters.pop("tools", send.tools)
        body = anthropic.translated(parameters, generation, cap=cap)
        body |= {
            "model": self.model,
            "max_tokens": cap,
            "messages": turns,
        }
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
            body["anthropic_version"] = version
        return body

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this model does not get of a request, in a short sentence each."""
        lost = super().lost(request, is_portable=is_portable)
        if is_new(self._version_of(request)):
            lost = (*lost, *refused_in(request.messages))
        roles = [self.FORM.role_of(message) for message in request.messages]
        return (*lost, *moved_system(roles, system_turns=self.capabilities.system_turns is True))

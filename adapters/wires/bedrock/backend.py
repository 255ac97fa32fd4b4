"""The backend for Amazon Bedrock's Converse, with the body of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

from attrs import evolve, field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.anthropic.backend import moved_system, without_system
from rungwise.adapters.wires.anthropic.parameters import Generation, generation_of, is_on
from rungwise.adapters.wires.anthropic.versions import fitted, is_new, refused_in, version_of
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.bedrock import KEYS
from rungwise.adapters.wires.bedrock import parameters as converse
from rungwise.adapters.wires.bedrock.shapes import (
    CONVERSE,
    UNMARKED,
    lost_marks,
    marks_tools,
    unmarked,
    without_marks,
)
from rungwise.adapters.wires.bedrock.signing import Account
from rungwise.adapters.wires.bedrock.stream import ConverseDecoder
from rungwise.adapters.wires.endpoint import as_secret, check_key, merged, optional
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import ARGUMENTS, HttpBackend
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.portability import BEGINNING, NO_TEXT, written
from rungwise.adapters.wires.request import leave_out, without_end
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, PlainMessage, Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import explains_names
from rungwise.fsm.values.secret import Secret, fingerprint, hides_arguments

RESERVED: Final = {
    **request.RESERVED,
    "modelId": "give it to the backend",
    "system": "give it to the call, as a message of role 'system'",
    "maxTokens": "it is called 'max_tokens'",
    "toolConfig": "give tools to the call, and 'tool_choice' to the parameters",
}

_CAPS: Final = frozenset({*CAP_PARAMETERS, "maxTokens", "inferenceConfig"})
"""The names of the output cap here and on the server, and the object that holds it there."""


_PLACES: Final = ("inferenceConfig", "additionalModelRequestFields", "outputConfig")
"""The objects of a body that hold parameters."""


def _drop(body: Body, names: frozenset[str]) -> None:
    """Remove the parameters that the server has rejected, and objects that held nothing else."""
    if "response_format" in names:
        names |= {"textFormat"}
    for name in names - {"messages", "system", "toolConfig"}:
        leave_out(body, name.replace("output_config.", "outputConfig."))  # as the model calls it
        own_names = (name, converse.INFERENCE.get(name, name))
        for place in _PLACES:
            if place not in body:
                continue
            fields = mapping_of(body[place])
            rest = {each: value for each, value in fields.items() if each not in own_names}
            if not rest:
                del body[place]
            elif len(rest) < len(fields):
                body[place] = rest


def _tool_config(
    tools: Sequence[Any],
    choice: Any,
    turns: Sequence[PlainMessage],
) -> Body | None:
    """Return the tools and how they may be called; None if there are none.

    The API requires them if the conversation has calls, even if none may be called. Where no tool
    is known any more, those that were called are made up.
    """
    sent = [] if converse.forbids_tools(choice) else [*tools]
    if not any("toolSpec" in tool or "systemTool" in tool for tool in sent):
        names = _called_in(turns)
        sent = [*tools] if names else []
        if not sent:
            sent = [CONVERSE.tool_of(name, "", {"type": "object"}) for name in names]
    if not sent:
        return None
    config: Body = {"tools": sent}
    written = converse.choice_of(choice)
    if written:
        config["toolChoice"] = written
    return config


def _called_in(turns: Sequence[PlainMessage]) -> list[str]:
    """Return the names of the tools that a conversation has called, each once."""
    names: dict[str, None] = {}
    for turn in turns:
        for block in turn["content"]:
            if isinstance(block.get("toolUse"), Mapping):
                names[str(block["toolUse"].get("name"))] = None
    return [*names]


def _parted(
    messages: Sequence[PlainMessage], *, system_turns: bool
) -> tuple[list[Any], list[PlainMessage]]:
    """Return the system prompt and the turns.

    Turns of one role in a row are joined, as the API requires.

    Arguments:
        messages: the conversation in this form, with system messages among the turns.
        system_turns: whether the model takes system messages between the turns.
    """
    front, others = without_system(messages, system_turns=system_turns)
    system = [block for message in front for block in message["content"]]
    turns: list[PlainMessage] = []
    for role, row in groupby(others, lambda message: message["role"]):
        group = [*row]
        if len(group) > 1:
            blocks = [block for each in group for block in each["content"]]
            blocks.sort(key=lambda block: "toolResult" not in block)
            group = [{"role": role, "content": blocks}]
        turns += group
    if not turns or turns[0]["role"] != "user":
        text = BEGINNING if turns else NO_TEXT
        turns.insert(0, {"role": "user", "content": [{"text": text}]})
    return system, turns


def _soothe_thinking(body: Body, turns: Sequence[PlainMessage]) -> None:
    """Remove parameters that cannot be combined with reasoning.

    If the API would refuse the reasoning itself, remove that.
    """
    thinking = converse.thinking_in(body)
    if not is_on(thinking):
        return
    kind = thinking["type"]
    choice = mapping_of(mapping_of(body.get("toolConfig")).get("toolChoice"))
    if choice.keys() & {"any", "tool"} or (kind == "enabled" and _lacks_thinking(turns)):
        converse.set_thinking(body, None)
        return
    converse.leave_sampling(body)


def _lacks_thinking(turns: Sequence[PlainMessage]) -> bool:
    """Tell whether the running tool loop began without reasoning, as with another provider."""
    last = turns[-1]
    if last["role"] == "user" and any("toolResult" in block for block in last["content"]):
        last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), last)
    return last["role"] == "assistant" and "reasoningContent" not in last["content"][0]


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class Bedrock(HttpBackend):
    """Speak Converse with one model of Amazon Bedrock; it needs `pip install 'rungwise[bedrock]'`.

    Requests are signed with the given credentials, or else with those that AWS's own tools would
    find in the environment, their files and the machine. A Bedrock API key takes precedence over
    the latter; it signs nothing. Credentials found that way go to AWS's own hosts only; other hosts
    get given credentials, or those of a `profile`.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    A model is also an inference profile or an ARN.

    Arguments:
        base_url: the default is the service in the region.
        api_key: a Bedrock API key, sent as a bearer token; None takes `AWS_BEARER_TOKEN_BEDROCK`
            from the environment, for AWS's own hosts.
        region: None reads AWS's own configuration, such as `AWS_REGION`; not needed if `base_url`
            is given and nothing is signed.
        profile: a profile in AWS's own files; None is the default one.
        access_key_id, secret_access_key, session_token: credentials to sign with.

    Raises:
        ConfigurationError: a field is malformed, there is no region, or botocore is not installed.
    """

    DEFAULT_URL = "https://bedrock-runtime.amazonaws.com"
    PATH = "/model"
    API = "bedrock"
    DECODER = ConverseDecoder
    FORM = CONVERSE
    RESERVED = RESERVED

    region: str | None = field(default=None, kw_only=True, validator=optional(str))
    profile: str | None = field(
        default=None,
        kw_only=True,
        repr=False,
        validator=optional(str),
    )
    access_key_id: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=check_key
    )
    secret_access_key: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=check_key
    )
    session_token: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=check_key
    )
    _account: Account | None = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if bool(self.access_key_id) is not bool(self.secret_access_key):
            raise ConfigurationError(
                "access_key_id and secret_access_key are given together, or not at all"
            )
        account = Account.from_environment(self.region, self.profile, signs=False)
        self._set(region=account.region)
        if self.base_url == self.DEFAULT_URL:
            account.needs_region()
            self._set(base_url=f"https://{account.host}")
        key = self.access_key_id
        secret = self.secret_access_key
        if key and secret and self.api_key is None:
            self._set(api_key=Secret(""))  # so that no key in the environment takes precedence
        super().__attrs_post_init__()
        has_key = self._key or self.renews_key or self._has_key_header
        if key and secret:
            account = Account.from_keys(account.region, key, secret, self.session_token)
        elif not has_key and self._may_look_for_credentials:
            account = Account.from_environment(account.region, self.profile, signs=True)
        if account.credentials is None or self._key:
            self._set(_account=None)
            return
        account.needs_region()
        self._set(_account=account)
        if key:
            account_headers = merged({"access-key-id": key.reveal()}, self.headers)
            who = f"{self.model} ({fingerprint(account_headers)})"
            url = self._endpoint
            self._set_account(frozenset({(url.place, who), (url.root, who)}))

    @property
    def _may_look_for_credentials(self) -> bool:
        """Tell whether what AWS's tools find may go to the host.

        It may if the host is AWS's, or if the caller named a profile.
        """
        return self.profile is not None or bool(KEYS.origins.fullmatch(self._endpoint.origin))

    @classmethod
    def refuse_reserved(cls, parameters: Mapping[str, Any], where: str) -> None:
        """Refuse reserved parameters, and an output cap under another name.

        Raises:
            ConfigurationError: there is one; the message says where.
        """
        super().refuse_reserved(parameters, where)
        if "maxTokens" in mapping_of(parameters.get("inferenceConfig")):
            raise ConfigurationError(
                f"{where} cannot set 'inferenceConfig.maxTokens': it is called 'max_tokens'"
            )
        for name in ("max_tokens", "maxTokens", "max_gen_len", "max_new_tokens", "maxTokenCount"):
            if name in mapping_of(parameters.get("additionalModelRequestFields")):
                problem = f"{where} cannot set 'additionalModelRequestFields.{name}'"
                raise ConfigurationError(
                    f"{problem}: it is called 'max_tokens', among the parameters themselves"
                )

    @property
    def _generation(self) -> Generation | None:
        return generation_of(self.model) if "claude" in self.model.lower() else None

    @property
    def _has_new_rules(self) -> bool:
        return self._generation is not None and is_new(version_of(self.model, "bedrock"))

    @property
    def problem(self) -> str | None:
        """Say why the backend cannot be used, such as missing credentials; None if it can."""
        if self._account is not None:
            return self._endpoint.problem
        problem = super().problem
        if problem is not None and problem.startswith("api_key is missing"):
            return (
                "credentials are missing: give api_key, or access_key_id and secret_access_key, "
                "or set AWS's own up, which go to AWS's own hosts"
            )
        return problem

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        if converse.thinks(parameters, self._generation):
            return True
        return bool(self.FORM.asks_for_json(parameters))

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        cap = request.max_tokens or self.max_tokens
        return converse.lost_parameters(self._parameters_of(request), self._generation, cap)

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this model does not get of a request, in a short sentence each."""
        losses = super().lost(request, is_portable=is_portable)
        if self._has_new_rules:
            losses = (*losses, *refused_in(request.messages))
        roles = [self.FORM.role_of(message) for message in request.messages]
        moved = moved_system(roles, system_turns=self.capabilities.system_turns is True)
        losses = (*losses, *moved)
        return (*losses, *lost_marks(request, self.model, self.capabilities.caches))

    def _url(self, *, stream: bool) -> str:
        url = self._endpoint
        method = "converse-stream" if stream else "converse"
        return f"{url.root}{self.PATH}/{quote(self.model, safe='')}/{method}{url.query}"

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt, signed at this time.

        Raises:
            ConfigurationError: a parameter or a header of the request is malformed, or has no JSON
                form.
        """
        request = super().encode(send, stream=stream)
        if self._account is None:
            return request
        if any(name.lower() == "authorization" for name in request.headers):
            return request
        own = {"content-type": request.headers["content-type"]}
        signed = self._account.signed(request.url, own, request.body)
        return evolve(request, headers=merged(request.headers, signed))

    def _body(self, send: Send, *, stream: bool) -> Body:
        takes_marks = self.capabilities.caches
        generation = self._generation
        cap = send.max_tokens or self.max_tokens
        form = CONVERSE if takes_marks else UNMARKED
        given = fitted(send.messages) if self._has_new_rules else send.messages
        messages = written(given, form, self._owner(send), is_portable=send.portable)
        if takes_marks is False:
            messages = [without_marks(message) for message in messages]
        system, turns = _parted(messages, system_turns=self.capabilities.system_turns is True)
        if send.prefill and turns[-1]["role"] == "assistant":
            turns[-1] = without_end(turns[-1])
        every = self._parameters_of(send)
        parameters = {name: each for name, each in every.items() if name not in send.dropped}
        dropped = send.dropped
        if send.must_cut:  # if a budget rests on the cap, no error of a server removes it
            dropped -= _CAPS
        if _CAPS & dropped:
            cap = None
        tools = parameters.pop("tools", send.tools)
        body = converse.translated(parameters, generation, cap=cap)
        body["messages"] = turns
        if system:
            body["system"] = system
        if takes_marks is False:
            tools = unmarked(tools)
        form_of_tools = CONVERSE if marks_tools(self.model, takes_marks) else UNMARKED
        tools = form_of_tools.written_tools(tools)
        config = _tool_config(tools, parameters.get("tool_choice"), turns)
        if config:
            body["toolConfig"] = config
        if send.lower_reasoning:
            converse.lower_reasoning(body, generation)
        converse.fit_budget(body, cap)
        if generation is not None:
            _soothe_thinking(body, turns)
        _drop(body, dropped)
        return body

"""The options of a request by name: the parameters that every protocol knows, and hints for those
that are none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import Check, by_name, is_flag, is_number, is_text, is_whole
from rungwise.fsm.values.label import did_you_mean, label, short


class CommonOptions(TypedDict, total=False):
    """The common parameters, named as in chat completions; None is the same as leaving one out."""

    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str] | None
    seed: int | None
    response_format: Mapping[str, Any] | str | None
    reasoning_effort: str | None
    tool_choice: Mapping[str, Any] | str | None
    parallel_tool_calls: bool | None


class RequestOptions(CommonOptions, total=False):
    """What a `Request` may hold beside its messages and tools."""

    max_tokens: int | None
    parameters: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    input_tokens: int | None


COMMON_PARAMETERS: Final = CommonOptions.__optional_keys__
"""The parameters that every wire translates or reports as unsupported."""

REQUEST_OPTIONS: Final = RequestOptions.__optional_keys__ | {"tools"}
"""Everything that a `Request` may hold beside its messages."""

_LARGEST: Final = sys.float_info.max
_CHOSEN: Final = (lambda value: isinstance(value, Mapping) or is_text(value), "a mapping or a text")
_FORMS: Final[Mapping[str, tuple[Check, str]]] = {
    "temperature": (lambda value: is_number(value, -_LARGEST, _LARGEST), "a finite number"),
    "top_p": (lambda value: is_number(value, 0, 1), "a number from 0 to 1"),
    "stop": (lambda value: is_text(value) or _are_texts(value), "a text or a list of texts"),
    "seed": (is_whole, "a whole number"),
    "response_format": (
        _CHOSEN[0],
        'a text, or a mapping as in {"type": "json_schema", "json_schema": {"name": "answer", '
        '"schema": {...}}}; '
        "a pydantic model gives its schema with model_json_schema()",
    ),
    "reasoning_effort": (is_text, "a text, as in 'low'"),
    "tool_choice": _CHOSEN,
    "parallel_tool_calls": (is_flag, "True or False"),
}

_ADVICE: Final[Mapping[str, str]] = {
    "give it to the backend": "model api_key api_base base_url api_version organization project "
    "prices capabilities prefill first_token stall default_headers extra_query",
    "give it to the Client": "http async_http observer compactor",
    "give the Client testing=rungwise.testing.Clocks(...)": "jitter clock sleep async_sleep "
    "wall_clock",
    "make it a backend of the Client's chain": "fallbacks fallback chain backends",
    "give the messages as the first argument": "messages prompt input contents",
    "it is called system here": "instructions system_instruction system_prompt",
    "it is called returns here, and result.value has it": "json_schema output_schema output_type "
    "response_model result_type schema text_format",
    "it is called max_tokens here, whoever is asked": "max_completion_tokens max_output_tokens "
    "num_predict maxOutputTokens",
    "say it in a policy, as in policy=Policy(timeouts=Timeouts(total=30)), or give a "
    "deadline": "timeout timeouts request_timeout",
    "say it in a policy, as in "
    "policy=Policy(limits=Limits(retries=2))": "max_retries retries num_retries limits",
    "say it in a policy, as in policy=Policy(...)": "budget waits hints reserve switch_after "
    "after_refusal",
    "choose the method: stream and astream hand out what comes, call and acall return the "
    "result": "stream streaming",
    "it is called tools here": "functions tool_definitions",
    "give it to the call, beside its messages": "turn within deadline policy",
    "a call has one answer: make several calls": "n candidate_count",
    "it ends what runs in threads; cancel the task instead, or leave the stream": "cancellation",
    "it is for turns: client.turn takes it": "approvals executor",
    "say it in the policy of a turn, as in client.turn(..., "
    "policy=TurnPolicy(auto_continues=10))": "auto_continues calls_at_once calls_per_reply faults "
    "max_iterations max_rounds max_steps max_turns recursion_limit same_calls tool_seconds "
    "usage_limits",
    "it is called parameters here": "extra_body",
    "it is called headers here": "extra_headers",
    "it is called tool_choice here": "function_call",
    "it is called stop here": "stop_sequences",
}
"""What to do instead, each with the options of which that is true."""
_ELSEWHERE: Final = by_name(_ADVICE)
"""Where options belong that are often passed to a call by mistake."""

_OF_BODIES: Final = frozenset(
    {
        # chat completions and their dialects
        "audio",
        "chat_template_kwargs",
        "enable_thinking",
        "frequency_penalty",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "logit_bias",
        "logprobs",
        "metadata",
        "min_p",
        "min_tokens",
        "modalities",
        "moderation",
        "plugins",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "provider",
        "repetition_penalty",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "top_a",
        "top_logprobs",
        "transforms",
        "user",
        "verbosity",
        "web_search_options",
        # Responses
        "background",
        "context_management",
        "conversation",
        "include",
        "max_tool_calls",
        "previous_response_id",
        "reasoning",
        "text",
        "truncation",
        # Anthropic
        "cache_control",
        "container",
        "inference_geo",
        "output_config",
        "speed",
        "thinking",
        "top_k",
        # Gemini
        "cachedContent",
        "cached_content",
        "generationConfig",
        "generation_config",
        "response_json_schema",
        "response_logprobs",
        "response_mime_type",
        "response_modalities",
        "response_schema",
        "safetySettings",
        "safety_settings",
        "thinking_budget",
        "thinking_config",
        "tool_config",
        # Ollama
        "format",
        "keep_alive",
        "mirostat",
        "num_ctx",
        "num_keep",
        "options",
        "repeat_last_n",
        "repeat_penalty",
        "think",
        "typical_p",
    }
)
"""The members of request bodies, of any protocol."""


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_text, value))


def with_common(parameters: Any, options: Mapping[str, Any]) -> Any:
    """Return the parameters of a request with the common ones that were passed as options, or
    refuse these.

    Anything but a mapping is returned as it is, for others to refuse.
    """
    if not options:
        return parameters
    refuse_unknown(options, REQUEST_OPTIONS)
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        holds, form = _FORMS[name]
        if not holds(value):
            raise ConfigurationError(f"{name} must be {form}, not {_quoted(value)}")
    if not isinstance(parameters, (Mapping, type(None))):
        return parameters
    for name in options.keys() & (parameters or {}):
        raise ConfigurationError(
            f"{name} is given twice, as an option and in parameters: leave one of them out"
        )
    return {**(parameters or {}), **options}


def _quoted(value: Any) -> str:
    """Quote a number, and name the type of anything else, which may be a secret."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return short(value)
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return f"of type {label(name)}"


def refuse_unknown(options: Iterable[str], available: Iterable[str]) -> None:
    """Raise a ConfigurationError for an unknown option, with a hint what was meant or where it
    belongs.
    """
    available = sorted(available)
    for name in sorted(set(options).difference(available)):
        raise ConfigurationError(f"unknown option {short(name)}{_hint(name, available)}")


def _hint(name: str, available: list[str]) -> str:
    if name in _OF_BODIES:
        return f": put it into parameters, as in parameters={{{name!r}: ...}}"
    if name in _ELSEWHERE:
        return f": {_ELSEWHERE[name]}"
    near = did_you_mean(name, available)
    near = near or did_you_mean(name, [*_OF_BODIES, *_ELSEWHERE], cutoff=0.8)
    if near:
        return f"; {near}"
    return f"; there are: {', '.join(available)}"


def asks_for_nothing(parameters: Mapping[str, Any]) -> bool:
    """Tell whether a request only fills the provider's cache: its reply is empty by design."""
    for options in parameters.values():
        if isinstance(options, Mapping) and options.get("prewarm") is True:
            return True
    return False

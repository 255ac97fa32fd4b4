"""The dialects of chat completions: what each kind of server does in its own way, as one table.

What is written follows the first row that fits a backend's URL and model and says anything of the matter. What is read
may be in the words of any row, whatever the URL: a proxy speaks for others, and servers of one's own (vLLM, SGLang,
llama.cpp, Ollama) cannot be told apart by theirs. A new server is a new row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from attrs import evolve, field, frozen

from rungwise.fsm.call.reply import StopReason

CapField = Literal["max_tokens", "max_completion_tokens"]

PrefillMode = Literal["no", "trailing", "prefix", "partial", "continue_final_message"]
"""How a trailing assistant turn is continued: not at all, as it stands, by a mark on it, or by flags of the request."""

Count = Literal["input", "output", "cache_read", "cache_creation", "cache_miss", "reasoning", "total"]
Path = tuple[str, ...]
"""Where something stands in JSON: the names of the members that lead to it."""


def _model_pattern(pattern: str) -> str:
    return pattern.replace("~", "[-.]")


@frozen(kw_only=True)
class Dialect:
    """Hold what one kind of server does in its own way; what has its default follows OpenAI's protocol.

    Arguments:
        host: a regular expression that is found in the host of the URL; None where no URL tells.
        path: one that is found in the path of the URL.
        model: one that is found in the model's id in lower case; `~` stands for a dash or a dot.
        cap_field: the field of a request that holds the output cap.
        prefill: how a trailing assistant turn is continued. A wrong "no" costs a user turn, a wrong "yes" a request.
        echoes: whether a continued turn is repeated at the start of the answer.
        less_reasoning: what to add to a request for less reasoning, where it says nothing of that.
        lower_efforts: the next lower `reasoning_effort` that is taken of "low" and "minimal".
        first_token: seconds to wait for the first content of a stream from a model that thinks in silence; None leaves
            that to the policy.
        reasoning_fields: where a message or a delta holds reasoning.
        own_fields: other members of a message or a tool call that another server rejects, or cannot read.
        own_parts: the types of such parts of a message's content.
        finishes: finish reasons by their meaning, in lower case and without the prefix of gRPC enumerations.
        counts: where a usage report holds what.
        usage_at: where a body holds the usage report, beside `usage`.
        refusal_at: where a message or a choice holds a refusal, beside `refusal`.
        error_at: where a body of status 200 holds what makes it an error, and what stands there; None for anything.
    """

    host: str | None = None
    path: str = ""
    model: str = field(default="", converter=_model_pattern)
    cap_field: CapField = "max_tokens"
    prefill: PrefillMode = "no"
    echoes: bool = False
    less_reasoning: Mapping[str, Any] = {}
    lower_efforts: Mapping[str, str] = {"low": "minimal", "minimal": "none"}
    first_token: float | None = None
    reasoning_fields: str = ""
    own_fields: str = ""
    own_parts: str = ""
    finishes: Mapping[StopReason, str] = {}
    counts: Mapping[Count, str] = {}
    usage_at: str = ""
    refusal_at: str = ""
    error_at: Mapping[str, str | None] = {}

    def fits(self, host: str, path: str, model: str) -> bool:
        """Tell whether a backend is known to be of this kind."""
        if self.host is None or not re.search(self.host, host):
            return False
        return bool(re.search(self.path, path) and re.search(self.model, model))


_REASONERS: Final = r"reason|thinking|qwq|qvq|gpt~oss|qwen~?3|~r1"

_THINKING: Final = 300.0
"""Seconds for models that think in silence: a judgement. 79 s were measured of a common question [BerriAI/litellm
#36992], and xAI asks for 900 s for whole requests [docs.x.ai, best practices]."""

# As surveyed in November 2026; what is in brackets is where it was seen: documentation, or a public issue.
DIALECTS: Final[tuple[Dialect, ...]] = (
    # OpenAI: models that reason reject max_tokens by name (400), and all of them take the other.
    Dialect(
        host=r"(^|\.)(openai|(openai|cognitiveservices|ai)\.azure)\.com$",
        cap_field="max_completion_tokens",
        finishes={
            "stop": "stop",
            "length": "length",
            "tool_calls": "tool_calls function_call",
            "content_filter": "content_filter",
            "overflow": "context_length_exceeded",
        },
        counts={
            "input": "prompt_tokens",
            "output": "completion_tokens",
            "cache_read": "prompt_tokens_details.cached_tokens",
            "cache_creation": "prompt_tokens_details.cache_write_tokens",
            "reasoning": "completion_tokens_details.reasoning_tokens",
            "total": "total_tokens",
        },
        error_at={"error": None},
    ),
    Dialect(
        host=r"(^|\.)openai\.(com|azure\.com)$",
        model=r"^(o[34]|gpt-5(?!.*(chat|pro)))",
        less_reasoning={"reasoning_effort": "low"},
    ),
    # Wherever they are, the o series, gpt-oss and Grok know no effort below "low", and GPT-5.1 and later no "minimal".
    Dialect(host="", model=r"\bo\d|gpt-oss|grok", lower_efforts={}),
    Dialect(host="", model=r"gpt-5\.\d", lower_efforts={"low": "none", "minimal": "none"}),
    # What thinks and shows nothing of it on chat completions, wherever it is. OpenAI's models send nothing before they
    # have thought [mezmo/aura #62], nor does Grok 4 [docs.x.ai/docs/guides/reasoning], nor Gemini where nobody asks for
    # its thoughts [ai.google.dev/gemini-api/docs/thinking]. Some gateways show more of some of them, such as later
    # Grok; then the time is longer than it need be, no more.
    Dialect(host="", model=r"\bo\d|\bgpt-[5-9](?!.*chat)", first_token=_THINKING),
    Dialect(host="", model=r"grok-[4-9](?!.*non-reasoning)|grok-build", first_token=_THINKING),
    Dialect(host="", model=r"gemini~(2~5|[3-9])(?!.*lite)", first_token=_THINKING),
    Dialect(host="", model=r"deep~research", first_token=_THINKING),
    # LiteLLM's proxy puts aside what chat completions have no place for.
    Dialect(
        own_fields="thinking_blocks provider_specific_fields",
        counts={"cache_creation": "prompt_tokens_details.cache_creation_tokens"},
        refusal_at="provider_specific_fields.refusal",
    ),
    # OpenAI's Responses, in the words of proxies that translate them.
    Dialect(
        finishes={"stop": "completed", "length": "max_output_tokens"},
        counts={
            "input": "input_tokens",
            "output": "output_tokens",
            "cache_read": "input_tokens_details.cached_tokens",
            "cache_creation": "input_tokens_details.cache_write_tokens",
            "reasoning": "output_tokens_details.reasoning_tokens",
        },
    ),
    # DeepSeek: a mark on the last turn, under /beta only [api-docs.deepseek.com/guides/chat_prefix_completion]. Models
    # that think want their reasoning back ("must be passed back to the API", 400), which a prefill has none of.
    Dialect(
        host=r"^api\.deepseek\.com$",
        path=r"^/beta\b",
        model=rf"^(?!.*(?:{_REASONERS}))",
        prefill="prefix",
        reasoning_fields="reasoning_content",
        finishes={"error": "insufficient_system_resource"},
        counts={"cache_read": "prompt_cache_hit_tokens", "cache_miss": "prompt_cache_miss_tokens"},
    ),
    # Mistral and Codestral: a mark on the last turn [docs.mistral.ai], which is repeated at the start of the answer.
    Dialect(
        host=r"(^|\.)mistral\.ai$",
        prefill="prefix",
        echoes=True,
        finishes={"length": "model_length", "error": "error"},
        error_at={"object": "error"},
    ),
    # Anthropic's own words, as gateways pass them on; the last row has its models.
    Dialect(
        own_fields="signature",
        own_parts="thinking redacted_thinking",
        finishes={
            "stop": "end_turn stop_sequence",
            "length": "max_tokens",
            "tool_calls": "tool_use",
            "content_filter": "refusal",
            "paused": "pause_turn compaction",
            "overflow": "model_context_window_exceeded",
        },
        counts={
            "cache_read": "cache_read_input_tokens",
            "cache_creation": "cache_creation_input_tokens",
            "reasoning": "output_tokens_details.thinking_tokens",
        },
        error_at={"type": "error"},
    ),
    # Moonshot: a mark on the last turn, which the answer does not repeat.
    Dialect(host=r"(^|\.)moonshot\.(ai|cn)$", prefill="partial", counts={"cache_read": "cached_tokens"}),
    # DashScope: a mark on the last turn, for models of Qwen that do not think; a switch for those that do both.
    Dialect(
        host=r"^dashscope[a-z-]*\.aliyuncs\.com$",
        model=r"^(?!.*(?:thinking|qwq|qvq))qwen(?:~(?:max|plus|flash|turbo|coder|vl)|2|~?3.*(?:instruct|coder))",
        prefill="partial",
    ),
    Dialect(
        host=r"^dashscope",
        model=r"^qwen(-plus|-flash|-turbo|3(?!.*(thinking|instruct|coder)))",
        less_reasoning={"enable_thinking": False},
    ),
    # Groq: "any text-to-text model" [console.groq.com/docs/prefilling]; what models that reason do is not established.
    Dialect(
        host=r"(^|\.)groq\.com$",
        model=rf"^(?!.*(?:{_REASONERS}))",
        prefill="trailing",
        reasoning_fields="reasoning",
        usage_at="x_groq.usage",
    ),
    Dialect(host=r"(^|\.)groq\.com$", model="gpt-oss", less_reasoning={"reasoning_effort": "low"}),
    # Z.AI: thinking is on by default, and a switch.
    Dialect(
        host=r"(^|\.)(z\.ai|bigmodel\.cn)$",
        model=r"^glm-(4\.[5-9]|[5-9])",
        less_reasoning={"thinking": {"type": "disabled"}},
        finishes={"content_filter": "sensitive", "error": "network_error"},
    ),
    # GitHub Copilot.
    Dialect(reasoning_fields="reasoning_text", own_fields="reasoning_opaque"),
    # OpenRouter takes an effort for any model that reasons.
    Dialect(
        host=r"(^|\.)openrouter\.ai$",
        less_reasoning={"reasoning": {"effort": "low"}},
        reasoning_fields="reasoning reasoning_details",
    ),
    # Gemini up to 3.1 goes on from a model turn, which no documentation says. Later ones reject it ("Requests ending
    # with a model turn are not supported", 400), and 3.5 flash was seen to do both [models.dev #4922].
    Dialect(
        host=r"(^|\.)googleapis\.com$|(^|\.)openrouter\.ai$",
        model=r"gemini~(?:2(?:~[05])?|3(?:~1)?)~[a-z]",
        prefill="trailing",
        own_fields="extra_content thought_signature thoughtSignature",
        finishes={
            "content_filter": "safety recitation blocklist prohibited_content spii model_armor image_safety"
            " image_prohibited_content image_recitation",
            "error": "malformed_function_call malformed_response unexpected_tool_call missing_thought_signature",
        },
    ),
    # Ollama, in its own protocol's words too.
    Dialect(
        reasoning_fields="thinking",
        finishes={"stop": "load"},
        counts={"input": "prompt_eval_count", "output": "eval_count"},
    ),
    # Bedrock.
    Dialect(
        finishes={
            "content_filter": "content_filtered guardrail_intervened",
            "error": "malformed_model_output malformed_tool_use",
        },
    ),
    # The enumeration of xAI's gRPC.
    Dialect(finishes={"length": "max_len time_limit", "overflow": "max_context"}),
    # Cohere.
    Dialect(finishes={"stop": "complete", "tool_calls": "tool_call"}),
    # Hugging Face and Together.
    Dialect(finishes={"stop": "eos eos_token"}),
    # MiniMax's envelope.
    Dialect(error_at={"base_resp.status_code": None}),
    # What was met, and whose it is was not recorded.
    Dialect(
        own_parts="reasoning",
        finishes={"length": "max_length", "error": "abort"},
        counts={"cache_creation": "cache_write_tokens", "reasoning": "reasoning_tokens"},
    ),
    # Claude, wherever it is. Later models reject it ("does not support assistant message prefill", 400), and so do
    # those that think.
    Dialect(
        host="",
        model=r"claude~(?:haiku~4~5|sonnet~4(?:~[05])?|opus~4(?:~[015])?|3(?:~[57])?~(?:haiku|sonnet|opus)"
        r"|(?:haiku|sonnet|opus)~3(?:~[57])?|2(?:~[01])?|instant(?:~1)?(?:~2)?)"
        r"(?:~latest|~v\d+|(?:~|@)\d{8}|:\d+|:beta)*$",
        prefill="trailing",
    ),
)

_USUAL: Final = Dialect()
_WRITTEN: Final = ("cap_field", "prefill", "echoes", "less_reasoning", "lower_efforts", "first_token")


@lru_cache(maxsize=256)
def dialect_of(base_url: str, model: str) -> Dialect:
    """Return how this model at this URL is written to."""
    try:
        parts = urlsplit(base_url)
        place = (parts.hostname or "", parts.path, model.lower())
    except ValueError:
        return _USUAL
    said: dict[str, Any] = {}
    for row in DIALECTS:
        if row.fits(*place):
            for name in _WRITTEN:
                if getattr(row, name) != getattr(_USUAL, name):
                    said.setdefault(name, getattr(row, name))
    return evolve(_USUAL, **said)


def _path(names: str) -> Path:
    return tuple(names.split("."))


STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {word: meaning for row in DIALECTS for meaning, words in row.finishes.items() for word in words.split()}
)
"""Every known finish reason, in lower case and without the prefix that gRPC enumerations have."""

REASONING_FIELDS: Final = tuple(dict.fromkeys(name for row in DIALECTS for name in row.reasoning_fields.split()))
"""Where reasoning may be; the first that has any counts, for servers that fill several say the same in each."""

FOREIGN_FIELDS: Final = frozenset(REASONING_FIELDS).union(*(row.own_fields.split() for row in DIALECTS))
"""Members of a message that one provider sends, and that another rejects or cannot read."""

FOREIGN_PARTS: Final = frozenset(kind for row in DIALECTS for kind in row.own_parts.split())

STEERING: Final = frozenset(name for row in DIALECTS for name in row.less_reasoning)
"""The parameters by which a request says how much is to be reasoned."""

COUNTS: Final[Mapping[Count, tuple[Path, ...]]] = {
    count: tuple(_path(row.counts[count]) for row in DIALECTS if count in row.counts)
    for count in ("input", "output", "cache_read", "cache_creation", "cache_miss", "reasoning", "total")
}
"""Where a usage report holds what; the first count above 0 is taken."""

USAGE: Final[tuple[Path, ...]] = (("usage",), *(_path(row.usage_at) for row in DIALECTS if row.usage_at))
REFUSALS: Final[tuple[Path, ...]] = tuple(_path(row.refusal_at) for row in DIALECTS if row.refusal_at)
ERRORS: Final[tuple[tuple[Path, str | None], ...]] = tuple(
    (_path(where), what) for row in DIALECTS for where, what in row.error_at.items()
)


def found_at(path: Path, value: Any) -> Any:
    """Return what stands at a path in a JSON value, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value

"""The dialects of chat completions: one table of what each kind of server does differently.

For what is sent, the first row that fits a backend's URL and model and sets a field wins. What is
received may use the words of any row, whatever the URL: a proxy speaks for others, and self-hosted
servers (vLLM, SGLang, llama.cpp, LM Studio, Ollama) cannot be recognised by theirs. A new server is
a new row.

Errors are read in `rungwise.fsm.replies.failures`: what the codes of all servers mean, and the
numbers that mean something in the shape of one alone, stands in its `rules`, for an error is the
same in every protocol and through every proxy. Each row of words and codes is tried in
`tests/adapters/wires/chat/words.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve

from rungwise.adapters.wires.capabilities.table import CLAUDE_PREFILLS, GEMINI_PREFILLS
from rungwise.adapters.wires.chat.dialect import Count, Dialect
from rungwise.fsm.replies.reply import StopReason

Path = tuple[str, ...]
"""A path in JSON: the names of the members that lead to a value."""

_REASONERS: Final = r"reason|thinking|qwq|qvq|gpt~oss|qwen~?3|~r1"

# As surveyed in November 2026; the brackets name the source: documentation, or a public issue.
DIALECTS: Final[tuple[Dialect, ...]] = (
    # OpenAI: models that reason reject max_tokens by name (400), and all of them take the other.
    # Tools are functions or custom ones; what it runs by itself belongs to Responses. Ids of calls
    # beyond 40 characters, as vLLM's are, were seen to be refused ("string too long", 400), by
    # newer models only those beyond 64.
    Dialect(
        host=r"(^|\.)(openai|(openai|cognitiveservices|ai)\.azure)\.com$",
        cap_field="max_completion_tokens",
        longest_id=40,
        takes_other_tools=False,
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
    # Azure: a key is a bearer token on its v1 API alone; elsewhere that header is for Entra's
    # tokens [learn.microsoft.com/azure/foundry/openai/api-version-lifecycle]. What its filters
    # found stands beside each choice (`content_filter_results`), and in a first chunk without any
    # (`prompt_filter_results`); the finish reason decides.
    Dialect(
        host=r"\.(openai|cognitiveservices|services\.ai)\.azure\.com$",
        path=r"^(?!/openai/v1\b)",
        key_header="api-key",
    ),
    Dialect(
        host=r"(^|\.)openai\.(com|azure\.com)$",
        model=r"^(o\d|gpt-([5-9]|[12]\d)(?!.*(chat|pro)))",
        less_reasoning={"reasoning_effort": "low"},
    ),
    # Wherever they are, the o series, gpt-oss and Grok know no effort below "low", and GPT-5.1 and
    # later no "minimal".
    Dialect(host="", model=r"\bo\d|gpt-oss|grok", lower_efforts={}),
    Dialect(host="", model=r"gpt-5\.\d", lower_efforts={"low": "none", "minimal": "none"}),
    # "none is not accepted" [OpenAI's model pages of GPT-6, 6.1 and 6.2, November 2026].
    Dialect(host="", model=r"\bgpt-([6-9]|[12]\d)", lower_efforts={}),
    # Tools go beside no reasoning alone since GPT-5.4 (400, `param: reasoning_effort`), and since
    # GPT-6 to Responses alone [danny-avila/LibreChat #14231, openai/openai-openapi #541]. A name
    # behind another vendor's, such as `openai/gpt-5.4`, is that of a gateway, which may translate.
    Dialect(
        host="", model=r"^gpt-5\.([4-9]|\d\d)(?!.*(chat|audio|search))", effort_with_tools="none"
    ),
    Dialect(host="", model=r"^gpt-([6-9]|[12]\d)(?!.*(chat|audio|search))", effort_with_tools=""),
    # LiteLLM's proxy has members for what chat completions have no place for.
    Dialect(
        own_fields="thinking_blocks provider_specific_fields",
        counts={"cache_creation": "prompt_tokens_details.cache_creation_tokens"},
        refusal_at="provider_specific_fields.refusal",
    ),
    # The words of OpenAI's Responses, through proxies that translate them.
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
    # DeepSeek: a mark on the last turn, under /beta only
    # [api-docs.deepseek.com/guides/chat_prefix_completion]. Models that think want their reasoning
    # back ("must be passed back to the API", 400), which a prefill has none of.
    Dialect(
        host=r"^api\.deepseek\.com$",
        path=r"^/beta\b",
        model=rf"^(?!.*(?:{_REASONERS}))",
        prefill="prefix",
        reasoning_fields="reasoning_content",
        finishes={"error": "insufficient_system_resource"},
        counts={"cache_read": "prompt_cache_hit_tokens", "cache_miss": "prompt_cache_miss_tokens"},
    ),
    # Mistral and Codestral: a mark on the last turn [docs.mistral.ai], which is repeated at the
    # start of the answer. "Tool call id was ... but must be a-z, A-Z, 0-9, with a length of 9",
    # 400, 3280 [anomalyco/opencode #1680].
    Dialect(
        host=r"(^|\.)mistral\.ai$",
        part_types="document_url reference",
        prefill="prefix",
        echoes=True,
        id_length=9,
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
    # Moonshot: a mark on the last turn, which the answer does not repeat
    # [platform.moonshot.ai/docs/api/partial], and a search of its own, `$web_search`
    # [platform.moonshot.ai/docs/guide/use-web-search].
    Dialect(
        host=r"(^|\.)moonshot\.(ai|cn)$",
        prefill="partial",
        tool_types="builtin_function",
        counts={"cache_read": "cached_tokens"},
    ),
    # DashScope: a mark on the last turn, for models of Qwen that do not think; a switch for those
    # that do both.
    Dialect(
        host=r"^dashscope[a-z-]*\.aliyuncs\.com$",
        model=r"^(?!.*(?:thinking|qwq|qvq))qwen(?:~(?:max|plus|flash|turbo|coder|vl)|2|"
        r"~?3.*(?:instruct|coder))",
        prefill="partial",
    ),
    Dialect(
        host=r"^dashscope[a-z-]*\.aliyuncs\.com$",
        model=r"^qwen(-plus|-flash|-turbo|3(?!.*(thinking|instruct|coder)))",
        less_reasoning={"enable_thinking": False},
    ),
    # Groq: "any text-to-text model" [console.groq.com/docs/prefilling]; what models that reason do
    # is not established.
    Dialect(
        host=r"(^|\.)groq\.com$",
        model=rf"^(?!.*(?:{_REASONERS}))",
        prefill="trailing",
        reasoning_fields="reasoning",
        usage_at="x_groq.usage",
        # "why a stream was stopped early", by the types of its own client
        error_at={"x_groq.error": None},
    ),
    Dialect(host=r"(^|\.)groq\.com$", model="gpt-oss", less_reasoning={"reasoning_effort": "low"}),
    # [console.groq.com/docs/browser-search]
    Dialect(host=r"(^|\.)groq\.com$", tool_types="browser_search"),
    # Z.AI, which searches by itself [docs.bigmodel.cn/api-reference].
    Dialect(host=r"(^|\.)(z\.ai|bigmodel\.cn)$", tool_types="web_search retrieval"),
    # Z.AI: thinking is on by default, and a switch [docs.z.ai/guides/capabilities/thinking-mode].
    Dialect(
        host=r"(^|\.)(z\.ai|bigmodel\.cn)$",
        model=r"^glm-(4\.[5-9]|[5-9])",
        less_reasoning={"thinking": {"type": "disabled"}},
        finishes={"content_filter": "sensitive", "error": "network_error"},
    ),
    # Cerebras: the output that is asked for counts against the limits of a minute [dcdpr/jp #1085].
    Dialect(
        host=r"(^|\.)cerebras\.ai$", cap_field="max_completion_tokens", reasoning_fields="reasoning"
    ),
    # xAI: models that reason count it beside the output, which the total tells. What its gRPC says
    # is further below.
    Dialect(
        host=r"(^|\.)x\.ai$",
        cap_field="max_completion_tokens",
        reasoning_fields="reasoning_content",
    ),
    # GitHub Copilot.
    Dialect(reasoning_fields="reasoning_text", own_fields="reasoning_opaque"),
    # OpenRouter takes an effort for any model that reasons, and runs tools of its own for any model
    # [openrouter.ai/docs/guides/features/server-tools].
    Dialect(
        host=r"(^|\.)openrouter\.ai$",
        less_reasoning={"reasoning": {"effort": "low"}},
        tool_types="openrouter:*",
        own_fields="images",
        reasoning_fields="reasoning reasoning_details",
    ),
    Dialect(
        host=r"(^|\.)googleapis\.com$|(^|\.)openrouter\.ai$",
        model=GEMINI_PREFILLS,
        prefill="trailing",
        own_fields="extra_content thought_signature thoughtSignature",
        finishes={
            "content_filter": "safety recitation blocklist prohibited_content spii model_armor "
            "image_safety"
            " image_prohibited_content image_recitation",
            "error": "malformed_function_call malformed_response unexpected_tool_call "
            "missing_thought_signature",
        },
    ),
    # Servers of one's own. vLLM says `reasoning`, and `reasoning_content` before January 2026 [vllm
    # #27752, #33402], as do SGLang, llama.cpp and LM Studio; "abort" and "error" are vLLM's and
    # SGLang's words for what they gave up [vllm/v1/engine/__init__.py]. "repetition", with which
    # vLLM ends a loop, stays unknown: it is no answer. How a turn is continued there is the
    # caller's to say: `continue_final_message` for vLLM, SGLang and transformers, `trailing` for
    # llama.cpp's server, while LM Studio and Ollama leave it to the template of the model. LM
    # Studio sends errors with status 200 [lmstudio-ai/lmstudio-bug-tracker #2322].
    Dialect(reasoning_fields="reasoning reasoning_content", finishes={"error": "abort error"}),
    # Ollama, in its own protocol's words too; its compatible endpoint says `reasoning`.
    Dialect(
        reasoning_fields="thinking",
        finishes={"stop": "load unload"},
        counts={"input": "prompt_eval_count", "output": "eval_count"},
    ),
    # Bedrock.
    Dialect(
        finishes={
            "content_filter": "content_filtered guardrail_intervened",
            "error": "malformed_model_output malformed_tool_use",
        }
    ),
    # The enumeration of xAI's gRPC.
    Dialect(finishes={"length": "max_len time_limit", "overflow": "max_context"}),
    # Cohere.
    Dialect(finishes={"stop": "complete", "tool_calls": "tool_call"}),
    # Hugging Face and Together [docs.together.ai/reference/chat-completions]. Fireworks keeps to
    # OpenAI's set.
    Dialect(finishes={"stop": "eos eos_token"}),
    # MiniMax's envelope, whose status 0 is none [platform.minimax.io/docs/api-reference/errorcode].
    Dialect(
        reasoning_fields="reasoning_content reasoning_details",
        error_at={"base_resp.status_code": None},
    ),
    # Words that were seen, without a record of where.
    Dialect(
        own_parts="reasoning",
        finishes={"length": "max_length"},
        counts={"cache_creation": "cache_write_tokens", "reasoning": "reasoning_tokens"},
    ),
    # Claude, on any host.
    Dialect(host="", model=CLAUDE_PREFILLS, prefill="trailing"),
)

_USUAL: Final = Dialect()
_WRITTEN: Final = (
    "cap_field",
    "prefill",
    "echoes",
    "id_length",
    "key_header",
    "less_reasoning",
    "lower_efforts",
    "effort_with_tools",
    "longest_id",
    "tool_types",
    "part_types",
    "takes_other_tools",
)


@lru_cache(maxsize=256)
def dialect_of(base_url: str, model: str) -> Dialect:
    """Return the dialect for a model at a URL."""
    try:
        parts = urlsplit(base_url)
        place = (parts.hostname or "", parts.path, model.lower())
    except ValueError:
        return _USUAL
    settings: dict[str, Any] = {}
    for row in DIALECTS:
        if row.fits(*place):
            for name in _WRITTEN:
                if getattr(row, name) != getattr(_USUAL, name):
                    settings.setdefault(name, getattr(row, name))
    return evolve(_USUAL, **settings)


def _path(names: str) -> Path:
    return tuple(names.split("."))


STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        word: meaning
        for row in DIALECTS
        for meaning, words in row.finishes.items()
        for word in words.split()
    }
)
"""Every known finish reason, in lower case and without the prefix of gRPC enumerations."""

REASONING_FIELDS: Final = tuple(
    dict.fromkeys(name for row in DIALECTS for name in row.reasoning_fields.split())
)
"""Fields that may hold reasoning. The first that has any counts: servers that fill several repeat
it.
"""

FOREIGN_FIELDS: Final = frozenset(REASONING_FIELDS).union(
    *(row.own_fields.split() for row in DIALECTS)
)
"""Members of a message that one provider sends and others reject or cannot read."""

FOREIGN_PARTS: Final = tuple(
    dict.fromkeys(kind for row in DIALECTS for kind in row.own_parts.split())
)

STEERING: Final = frozenset(name for row in DIALECTS for name in row.less_reasoning)
"""The parameters that control how much a model reasons."""

COUNTS: Final[Mapping[Count, tuple[Path, ...]]] = {
    count: tuple(_path(row.counts[count]) for row in DIALECTS if count in row.counts)
    for count in (
        "input",
        "output",
        "cache_read",
        "cache_creation",
        "cache_miss",
        "reasoning",
        "total",
    )
}
"""Where a usage report holds each count; the first count above 0 wins."""

USAGE: Final[tuple[Path, ...]] = (
    ("usage",),
    *(_path(row.usage_at) for row in DIALECTS if row.usage_at),
)
REFUSALS: Final[tuple[Path, ...]] = tuple(
    _path(row.refusal_at) for row in DIALECTS if row.refusal_at
)
ERRORS: Final[tuple[tuple[Path, str | None], ...]] = tuple(
    (_path(where), what) for row in DIALECTS for where, what in row.error_at.items()
)


def found_at(path: Path, value: Any) -> Any:
    """Return the value at a path in JSON, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value

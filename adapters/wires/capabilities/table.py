"""The capability table: what is established about models, by their ids and hosts.

For each field, the first row that fits a backend and sets it wins; a field that no row sets is
unknown. So a row says only what a provider documents, or what was seen, as of November 2026; the
source is in brackets. A window holds the prompt and the answer together, even if a provider counts
them separately.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve

from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow, Family
from rungwise.adapters.wires.registry import APIS, WIRES

THINKING: Final = 300.0
"""Seconds from the head of a response on, for models that think in silence: a judgement. 79 s were
measured of a common question [BerriAI/litellm #36992], and xAI asks for 900 s for whole requests
[docs.x.ai, best practices]."""

# Claude up to 4.5. Later models reject a prefill ("does not support assistant message prefill",
# 400), and so do models that think.
CLAUDE_PREFILLS: Final = (
    r"claude~(?:haiku~4~5|sonnet~4(?:~[05])?|opus~4(?:~[015])?|3(?:~[57])?~(?:haiku|sonnet|opus)"
    r"|(?:haiku|sonnet|opus)~3(?:~[57])?|2(?:~[01])?|instant(?:~1)?(?:~2)?)"
    r"(?:~latest|~v\d+|(?:~|@)\d{8}|:\d+|:beta)*$"
)

# Gemini up to 3.1 continues a model turn, which no documentation says. Later models reject it
# ("Requests ending with a model turn are not supported", 400); 3.5 flash was seen to do both
# [models.dev #4922].
GEMINI_PREFILLS: Final = r"gemini~(?:2(?:~[05])?|3(?:~1)?)~[a-z]"

_END: Final = r"(?![\d.]|-\d(?!\d))"
"""What may follow a whole version: no further digit and no minor version, but a date."""

_K: Final = 1_000
_M: Final = 1_000_000
_SEES: Final[dict[str, Any]] = {
    "tools": True,
    "images": True,
    "json_schema": True,
}
_READS: Final[dict[str, Any]] = {
    "tools": True,
    "images": True,
    "documents": True,
}


def _row(
    model: str = "",
    window: int | None = None,
    output: int | None = None,
    *,
    host: str = "",
    **known: Any,
) -> CapabilityRow:
    """Return a row of the table.

    Arguments:
        model: which models; a pattern, see `CapabilityRow`.
        window: tokens of the prompt and the answer together.
        output: tokens of an answer, at most.
        host: on which hosts; a pattern. "" is on all.
        known: what else is known; see `Capabilities`.
    """
    return CapabilityRow(
        host=host, model=model, known=Capabilities(window=window, largest_output=output, **known)
    )


_CLAUDE: Final = (
    # "This model does not support assistant message prefill", wherever they are served
    # [platform.claude.com].
    _row(
        r"claude~(?:(?:opus|sonnet)~4~[6-9]|(?:opus|sonnet|haiku|fable|mythos)~(?:[5-9]|preview))",
        **_READS,
        prefill=False,
        json_schema=True,
        reasoning=True,
    ),
    # They think, and show nothing of it unless they are asked to [platform.claude.com, extended
    # thinking: display].
    _row(
        r"claude~(?:opus~4~[7-9]|(?:opus|sonnet|fable|mythos)~(?:[5-9]|preview))",
        first_token=THINKING,
    ),
    # 1M of window and 128K of output since 4.6 [platform.claude.com/docs/models; Effect-TS/effect
    # #7129].
    _row(r"claude~(?:(?:opus|sonnet)~4~[6-9]|(?:opus|sonnet|fable)~5)", _M, 128 * _K),
    _row(r"claude~(?:haiku|sonnet|opus)~4~5", 200 * _K, 64 * _K, json_schema=True),
    _row(rf"claude~sonnet~4(?:~0)?{_END}", 200 * _K, 64 * _K),
    _row(r"claude~opus~4", 200 * _K, 32 * _K),
    _row(r"claude~(?:haiku|sonnet|opus)~4", **_READS, reasoning=True),
    _row(r"claude~3~7", 200 * _K, 64 * _K, **_READS, reasoning=True),
    _row(r"claude~3~5", 200 * _K, 8_192, **_READS, reasoning=False),
    _row(
        r"claude~3~(?:haiku|sonnet|opus)", 200 * _K, 4_096, tools=True, images=True, reasoning=False
    ),
    _row(
        r"claude~(?:2|instant)",
        tools=False,
        images=False,
        documents=False,
        reasoning=False,
    ),
)

_OPENAIS: Final = r"(^|\.)openai\.(com|azure\.com)$"

_OPENAI: Final = (  # [platform.openai.com/docs/models]
    # Models that think and show nothing of it: nothing comes before they have thought [mezmo/aura
    # #62].
    _row(r"\bo\d|\bgpt-[5-9](?!.*chat)", first_token=THINKING),
    _row(r"deep~research", first_token=THINKING),
    _row(
        r"^(gpt-4o|gpt-4\.1|gpt-5(?!.*chat)|o1(?!-(mini|preview))|o3(?!-mini)|o4)(?!.*(audio|"
        r"realtime|search))",
        host=_OPENAIS,
        documents=True,
    ),
    # the one model of its endpoint for decisions [openai-python, decision_create_params]
    _row(r"^gpt-6-luna", host=_OPENAIS, decisions="openai"),
    _row(r"\bgpt-4o-2024-05-13", output=4_096, json_schema=False),
    _row(
        r"\bgpt-4o(?!.*(audio|realtime|transcribe|tts|search))",
        128 * _K,
        16_384,
        **_SEES,
        reasoning=False,
    ),
    _row(r"\bgpt-4\.1", 1_047_576, 32_768, **_SEES, reasoning=False),
    _row(r"\bgpt-5(\.\d)?-chat", 128 * _K, 16_384, images=True),
    _row(r"\bgpt-5-pro", 400 * _K, 272 * _K),
    _row(r"\bgpt-5\.[45](?!.*(mini|nano|chat))", 1_050_000, 128 * _K),
    _row(
        r"\bgpt-5((\.[123])?(?![.\d])|\.4-(mini|nano))(?!.*(search|image|chat))", 400 * _K, 128 * _K
    ),
    _row(r"\bgpt-5(?!.*(search|image|chat))", **_SEES, reasoning=True),
    _row(
        r"\bo1-mini",
        128 * _K,
        65_536,
        tools=False,
        images=False,
        json_schema=False,
    ),
    _row(
        r"\bo1-preview",
        128 * _K,
        32_768,
        tools=False,
        images=False,
        json_schema=False,
    ),
    _row(r"\bo3-mini", images=False),
    _row(
        r"\b(o1(?!-(mini|preview))|o3|o4-mini)(?!.*deep)",
        200 * _K,
        100 * _K,
        **_SEES,
        reasoning=True,
    ),
    _row(
        r"gpt-oss",
        131_072,
        tools=True,
        images=False,
        documents=False,
        reasoning=True,
    ),
    _row(
        r"\bgpt-4-turbo",
        128 * _K,
        4_096,
        tools=True,
        images=True,
        json_schema=False,
        reasoning=False,
    ),
    _row(
        r"\bgpt-3\.5-turbo",
        16_385,
        4_096,
        images=False,
        json_schema=False,
        reasoning=False,
    ),
)

_GEMINI: Final = (  # [ai.google.dev/gemini-api/docs/models, /thinking]
    _row(r"gemini~(2~5|[3-9])(?!.*lite)", first_token=THINKING),
    _row(r"gemini~decision", 262_144, host=r"\.googleapis\.com$", decisions="gemini"),
    _row(r"gemini~2~0~flash", 1_048_576, 8_192, reasoning=False),
    _row(
        r"gemini~(2~5|3(~\d)?)~(pro|flash)(?!.*(image|tts|live|audio))",
        1_048_576,
        65_536,
        reasoning=True,
    ),
    _row(r"gemini~[2-9](~\d)?~(pro|flash)(?!.*(image|tts|live|audio))", **_READS, json_schema=True),
)

_OTHERS: Final = (
    # Grok 4 shows nothing of what it thinks [docs.x.ai/docs/guides/reasoning]. Some gateways show
    # more of some of these, such as later Grok; then the time is longer than it need be, no more.
    _row(r"grok-[4-9](?!.*non-reasoning)|grok-build", first_token=THINKING),
    # An effort is an error for Grok 4, and known to Grok 3 mini alone of those before it
    # [docs.x.ai/docs/models].
    _row(r"grok-3-mini", 131_072, images=False, reasoning=True),
    _row(r"grok-3", 131_072, images=False, reasoning=False),
    _row(r"grok-code-fast-1", 256 * _K, tools=True, images=False),
    _row(r"grok-4(\.1)?-fast", 2 * _M, **_SEES),
    _row(r"grok-4(-0709|-latest)?$", 256 * _K, **_SEES, reasoning=False),
    # Jev, whoever serves it [docs.typesafe.ai; openrouter.ai/docs]
    _row(r"\bjev\b", decisions="systemone"),
    _row(host=r"(^|\.)typesafe\.ai$", decisions="systemone"),
    _row(host=r"(^|\.)x\.ai$", tools=True, json_schema=True),
    # DeepSeek's own API takes text alone, and JSON without a schema [api-docs.deepseek.com]. V4: 1M
    # and 384K.
    _row(r"deepseek-v4", _M, 384 * _K, tools=True, reasoning=True),
    _row(
        host=r"^api\.deepseek\.com$", images=False, documents=False, json_schema=False, tools=True
    ),
    _row(r"deepseek-(v[23]|r1|chat|reasoner|coder)", images=False, documents=False),
    # Mistral: vision by model, a schema and tools for all that chat [docs.mistral.ai/capabilities].
    _row(r"codestral|mathstral|open-mi[sx]tral", images=False),
    _row(
        r"pixtral|mistral-(large-(2512|latest)|medium-(2505|2508|latest)|small-(2503|2506|latest))"
        r"|magistral-(small|medium)-(2509|latest)",
        host=r"(^|\.)mistral\.ai$",
        images=True,
    ),
    _row(
        r"mistral|codestral",
        host=r"(^|\.)mistral\.ai$",
        tools=True,
        json_schema=True,
    ),
    # Kimi: pictures since K2.5, 256K since September 2025 [platform.moonshot.ai/docs].
    _row(r"kimi-k2\.[5-9]", 262_144, tools=True, images=True),
    _row(r"kimi-k2-(0905|thinking|turbo)", 262_144, tools=True, images=False),
    _row(r"kimi-k2(-0711|-instruct|-base|$)", tools=True, images=False),
    # Qwen: those that see say so in their names, up to 3 [help.aliyun.com/model-studio].
    _row(r"qwen.*-(vl|omni)|^qvq", host=r"^dashscope[a-z-]*\.aliyuncs\.com$", images=True),
    _row(
        r"qwq|qwen(2(\.5)?|3)?-(coder|math|long)|qwen-(max|turbo)|qwen3-max|qwen-?3-\d+b",
        images=False,
    ),
    _row(r"^qwen", host=r"^dashscope[a-z-]*\.aliyuncs\.com$", tools=True),
    # GLM: a V in the name sees; thinking is a switch since 4.5 [docs.z.ai].
    _row(r"\bglm-4(\.\d)?v", images=True),
    _row(
        r"\bglm-4\.5(?!v)",
        128 * _K,
        tools=True,
        images=False,
        reasoning=True,
    ),
    _row(
        r"\bglm-4\.[67](?!v)",
        200 * _K,
        tools=True,
        images=False,
        reasoning=True,
    ),
    # Llama: only some of 3.2 and all of 4 see; whether a server has what that takes is known of
    # these alone [console.groq.com/docs/models, docs.together.ai, docs.fireworks.ai].
    _row(r"llama~?(?:2|3~[13]|3(?!~[24]))(?!.*vision)", images=False, reasoning=False),
    _row(r"llama~?3~2~(1|3)b", images=False, reasoning=False),
    _row(
        r"llama~?4|llama~?3~2~(11|90)b",
        host=r"(^|\.)(groq\.com|together\.(ai|xyz)|fireworks\.ai)$",
        images=True,
    ),
    _row(r"llama-3\.3-70b", 131_072, 32_768, host=r"(^|\.)groq\.com$", tools=True),
    _row(r"llama-4", 131_072, 8_192, host=r"(^|\.)groq\.com$", tools=True),
    # llama.cpp, known by its models' names: its Responses are `completed` however they ended
    # [ggml-org/llama.cpp, tools/server/server-task.cpp, to_json_oaicompat_resp]. LiteLLM makes
    # `stop` of that [BerriAI/litellm #37710].
    _row(r"gguf|llama[-_.]?cpp", hides_cuts=True),
)

# What is newer than every row inherits from the newest of its family; what a row says of it comes
# first. Dates are no versions, nor is Azure's `gpt-35`. So far nothing is stated of the windows and
# caps of GPT-6, GPT-6.1, GPT-6.2 and Gemini 4 [openai 3.57.0, google-genai 3.6.1; late November
# 2026].
_MINOR: Final = r"(?:~(\d{1,2})(?!\d))?"
_FAMILIES: Final = (
    Family(
        "openai azure azure_ai",
        rf"gpt~(?!35)(\d{{1,2}}){_MINOR}(?=.*(?:mini|nano))",
        "gpt-5.4-mini",
    ),
    Family(
        "openai azure azure_ai", rf"gpt~(?!35)(\d{{1,2}}){_MINOR}(?!\d|.*(?:mini|nano))", "gpt-5.5"
    ),
    Family("openai azure azure_ai", r"o(\d{1,2})(?!\w)", "o4-mini"),
    Family(
        "google gemini vertex_ai", rf"gemini~(\d{{1,2}}){_MINOR}(?=.*lite)", "gemini-3.5-flash-lite"
    ),
    Family(
        "google gemini vertex_ai", rf"gemini~(\d{{1,2}}){_MINOR}(?!\d|.*lite)", "gemini-3.8-flash"
    ),
    Family("anthropic vertex_ai", rf"claude~haiku~(\d{{1,2}}){_MINOR}(?!\d)", "claude-haiku-5-5"),
    Family(
        "anthropic vertex_ai",
        rf"claude~(?:opus|sonnet|fable|mythos)~(\d{{1,2}}){_MINOR}(?!\d)",
        "claude-opus-5-5",
    ),
    Family("deepseek deepseek-ai", r"deepseek-v(\d{1,2})(?!\d)", "deepseek-v4"),
    Family("moonshotai", rf"kimi-k(\d{{1,2}}){_MINOR}(?!\d)", "kimi-k2.5"),
    Family("z-ai zai-org", rf"glm-(\d{{1,2}}){_MINOR}(?!\d|v)", "glm-4.7"),
)

CAPABILITIES: Final[tuple[CapabilityRow, ...]] = (*_CLAUDE, *_OPENAI, *_GEMINI, *_OTHERS)


@lru_cache(maxsize=256)
def capabilities_of(api: str, base_url: str, model: str) -> Capabilities:
    """Return what is known of a model on a server.

    Arguments:
        api: the protocol; its own rows come before those of the table.
        base_url: the server; only its host counts.
        model: the id of the model, in any case.
    """
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        host = ""
    own: tuple[CapabilityRow, ...] = ()
    if api in APIS:
        own = WIRES[api].capabilities
    capabilities = Capabilities()
    for row in (*own, *CAPABILITIES):
        if row.fits(host, model.lower()):
            capabilities = capabilities.or_else(row.known)
    for family in _FAMILIES:
        if family.has_newer(model.lower()):
            inherited = capabilities_of(api, base_url, family.newest)
            return capabilities.or_else(evolve(inherited, inferred_from=family.newest))
    return capabilities

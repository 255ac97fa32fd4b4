"""The failure taxonomy as data: which codes, numbers, wordings and statuses of a response mean
which reason.

The rules are tried from top to bottom, the specific before the general. All wordings were seen from
providers, as of November 2026; `tests/fsm/replies/failures/overflow_wordings.toml` has many with
their sources. Patterns run on whatever a provider sends, so every repetition has a bound: `\\w*` is
written as `\\w{0,20}`.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import field, frozen

from rungwise.fsm.replies.failures.body import ErrorBody
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.values.patterns import Pattern

_Statuses = frozenset[int | None]  # None is an error inside a 2xx response or stream

_ANY: Final[_Statuses] = frozenset({None, *range(300, 1000)})
_CLIENT: Final[_Statuses] = frozenset({None, *range(400, 500)})
_BAD_REQUEST: Final[_Statuses] = frozenset({None, 400, 422})
_TOO_LONG: Final = _BAD_REQUEST | {413, 500}
_BUSY: Final[_Statuses] = frozenset({None, 408, 429, *range(500, 600)})
_VAGUE: Final = _BAD_REQUEST | {403, 404, 500}  # statuses so vague that a number counts more


def _pattern(text: str | None) -> Pattern | None:
    if not text:
        return None
    return Pattern(text, re.IGNORECASE | re.DOTALL)


@frozen
class Rule:
    """Name a reason by codes on any status, by numbers and prose on some statuses, or by these
    statuses alone.

    Numbers are business codes, as in `zai:1113`. Beside the wordings of `unless`, neither numbers
    nor prose count.
    """

    reason: Reason
    statuses: _Statuses
    codes: Pattern | None = field(default=None, converter=_pattern)
    prose: Pattern | None = field(default=None, converter=_pattern)
    numbers: Pattern | None = field(default=None, converter=_pattern, kw_only=True)
    unless: Pattern | None = field(default=None, converter=_pattern, kw_only=True)

    def is_named(self, error: ErrorBody, status: int | None) -> bool:
        """Tell whether a structured code or number of a response names this rule's reason."""
        if self.codes is not None and any(map(self.codes.fullmatch, error.words)):
            return True
        if self.numbers is None or status not in self.statuses:
            return False
        has_number = any(map(self.numbers.fullmatch, error.numbers))
        return has_number and not self._is_barred(error)

    def is_worded(self, error: ErrorBody, status: int | None) -> bool:
        """Tell whether the wording of a response, or its status alone, gives this rule's reason."""
        if status not in self.statuses:
            return False
        if self.prose is None:
            return self.codes is None and self.numbers is None
        return self.prose.search(error.text) is not None and not self._is_barred(error)

    def _is_barred(self, error: ErrorBody) -> bool:
        return self.unless is not None and self.unless.search(error.text) is not None


# A throttle may speak of too many tokens as well, but asks for a wait, not for a shorter prompt.
_THROTTLE: Final = (
    r"throttl|too many requests|rate[ _-]?limit|\b[rt]p[mds]\b|(tokens?|requests?)[ -]per[ "
    r"-](sec|min|hour|day)"
    r"|please wait|wait before|(try again|retry) (later|in \d)|slow down"
)

# Who pays, and what keeps an account from being used.
_HOLDER: Final = r"organi[sz]ation|account|project|team|workspace|subscription"
_SHUT: Final = (
    r"restricted|suspended|deactivated|disabled|closed|shut|blocked|terminated|banned|locked"
)

_NOT_TAKEN: Final = r"(\bnot|n't) (supported|available|allowed)\b"

RULES: Final = (
    # The model wrote what the server cannot read as a tool call or as JSON; it need not do so
    # again.
    Rule(
        "failed_generation",
        _BAD_REQUEST,
        r"tool_use_failed|json_validate_failed|output_parse_failed",
        r"failed to (call a function|generate json)\. please adjust your prompt|\Atool call "
        r"validation failed",
    ),
    Rule(
        "failed_generation",  # Ollama's, which reads the calls that a model writes
        _BAD_REQUEST | {500},
        prose=r"\Aerror parsing tool call\b|\breturned invalid tool call arguments\b",
    ),
    Rule("content_policy", _VAGUE, numbers=r"zai:130[01]|minimax:102[67]"),
    # MiniMax's, as 422 and as 500
    Rule("content_policy", _TOO_LONG, prose=r"\b(input|output) new_sensitive\b"),
    Rule(
        "content_policy",
        _CLIENT - {401, 402, 408, 413, 429},
        r"(image_)?content_?(filter(ed)?|policy(_\w+)?)|misalignment_policy_\w+|"
        r"responsibleaipolicyviolation|(.*\.)?data_?inspection_?failed|refusal"
        r"|(image_)?safety\w*|(image_)?prohibited_content|blocklist|spii|model_armor|(bio|"
        r"cyber)\w*_policy|invalid_prompt"
        r"|sensitive_words_detected|prompt_blocked|\w*moderation_(blocked|flagged|rejected|failed)",
        r"content (management|filter\w{0,10}) policy|safety system"
        r"|\b(violat|flagged)\w{0,10}\b.{0,40}\b(usage|content) (polic|guideline)"
        r"|inappropriate content|content exists risk|unsafe or sensitive content|due to "
        r"safety|datainspectionfailed"
        r"|(prompt|input|request|content) (was|has been) (flagged|blocked)|flagged (for "
        r"possible|as potentially)",
    ),
    Rule(
        "prefill_unsupported",
        _BAD_REQUEST,
        prose=r"message prefill|pre-?fill\w{0,10}\b.{0,60}\b(not "
        r"supported|unsupported|incompatible)"
        r"|ending with a model turn|must end with a user message|expected last role user"
        r"|final assistant content cannot end with"
        r"|expected `?thinking`? or `?redacted_thinking`?, but found",
    ),
    # Reasoning that a provider wants back, which is the opposite of what the next rule is about.
    Rule(
        "reasoning_missing",
        _BAD_REQUEST,
        prose=r"reasoning_content\b.{0,60}\bmust be (fully )?passed back|reasoning_content\W{0,3} "
        r"is (missing|required)"
        r"|missing (required )?(field )?\W?reasoning_content",
    ),
    Rule(
        "reasoning_signature",
        _BAD_REQUEST | {404},
        r"invalid_encrypted_content|(\w+_)?(thinking|thought)_signature",
        r"(thinking|thought)[_ ]?signature|signature\W{1,3}in\W{1,3}thinking|thinking\b.{0,40}"
        r"blocks.{0,80}cannot be"
        r"|encrypted[_ ]content.{0,200}\b(verified|decrypted)|decrypt.{0,40}encrypted[_ "
        r"]content|item with id\W{1,3}rs_"
        r"|without its required\W.{0,12}(following|reasoning)|property 'reasoning\w{0,20}' is "
        r"unsupported"
        r"|\bmessages\b[\w.\[\]]{0,30}\breasoning\w{0,20}\W.{0,120}"
        r"\b(unknown|unsupported|unrecognized|not (supported|permitted|allowed))",
    ),
    Rule("output_cap", _TOO_LONG | {402}),  # stands only where the message names a number
    # A rate limit that this one request exceeds by itself: no wait helps, a shorter request does.
    Rule(
        "payload_too_large", frozenset({None, 400, 413, 429}), prose=r"(\A|\n)request too large\b"
    ),
    Rule("context_overflow", _VAGUE, numbers=r"zai:1261|minimax:1039", unless=_THROTTLE),
    Rule(
        "context_overflow",
        _TOO_LONG,
        r"(model_)?context_((length|window)_)?exceeded|exceed_context_size_error|"
        r"model_max_prompt_tokens_exceeded"
        r"|tokens_limit_reached|prompt_too_long",
        r"\b(prompt|input|messages) (tokens? )?(length )?(is |are )?too long|prompt exceeds max "
        r"length"
        r"|maximum (context|prompt|model|input) length|context limit of|context size is \d"
        r"|exceed(s|ed|ing)? (the |this |max )?(available |model'?s? )?context\b"
        r"|context (length|window|limit|size) (is |has been |was )?exceed"
        r"|(longer|greater) than the (model's )?context length|longer than the maximum model length"
        r"|when (the )?context (the )?overflows|reached context length of \d|mid-generation "
        r"context overflow"
        r"|reduce the length of the|exceeds the maximum number of (input )?tokens|current length is"
        r"|input tokens exceed|model token limit|tokens length exceed|max_new_tokens`? must be"
        # what is left of the context for the answer
        r"|tokens\b.{0,40}\bmust be at least ?[01],? got:? ?-\d"
        r"|context length is only \d|prompt (is )?too large|too many total text bytes"
        r"|(less than|exceed\w{0,3}|(long|larg|great)er than|<=?) (the )?"
        r"max_(seq_len|model_len|num_tokens|input_len|prompt_tokens)|exceed\w{0,3} (the )?max "
        r"message tokens"
        r"|\bprompt_too_long\b|tokens in the prompt\b.{0,20} exceeds?\b|\bprompt exceeds the "
        r"\d[\d,]{0,14} token"
        r"|prompt tokens\b.{0,20}\+ max_\w{0,20}tokens\b.{0,20}> context (window|length|size)"
        r"|max_model_len\W{0,2} is no smaller|model max length exceeded|exceeds? (the "
        r")?max(imum)? (context )?length"
        r"|too large for model with|too many (input|prompt) tokens|token count of.{0,20}exceeds"
        r"|input token count is \d+ but|number of input tokens.{0,20}(cannot exceed|exceeds)"
        r"|(range of|maximum allowed) input length|exceeds maximum allowed token|must have less "
        r"than \d+ tokens"
        r"|message size:? \d+ exceeds|max size: \d+ tokens|input .{0,30}is too large to process"
        # A text, and no id or name, which no compaction shortens.
        r"|'(input|(messages|input)[\w.\[\]]{0,60}\.(content|text|output|arguments|input|url|"
        r"data))': string too long",
        unless=_THROTTLE,
    ),
    # These words alone say little: what asks for the same once more is a throttle.
    Rule(
        "context_overflow",
        _TOO_LONG,
        prose=r"too many tokens",
        unless=_THROTTLE + r"|(\A|[.,;!] {0,3})(please )?(try again|retry) {0,3}([.!\n]|\Z)",
    ),
    Rule(
        "payload_too_large",
        _BAD_REQUEST,
        r"(request|payload)(_body)?_too_large\w*",
        r"(entity|payload|body) (is )?too large|payload size exceeds",
    ),
    Rule("payload_too_large", frozenset({413})),
    # Google words a spent quota and a rate limit alike; the quota's name or a limit of 0 tells them
    # apart.
    Rule("billing", _ANY, r".*per_?day.*", r"quota exceeded for metric.{0,300}\blimit: 0\b"),
    Rule("overloaded", frozenset(), r"model_capacity_exhausted"),
    Rule("billing", _ANY, numbers=r"zai:(1113|13(0[89]|1\d|2[01]))|minimax:(1008|2056)"),
    Rule(
        "billing",
        _ANY,
        r"insufficient_(quota|balance|credits?|funds|user_quota)|\w*billing_\w+|credit_balance_\w+|"
        r"\w*spend(ing)?_(limit|cap)\w*"
        r"|exceeded_current_quota_error|arrearage|payment_required|creditserror|.*freetieronly|"
        r"\w*free_tier_daily",
        r"insufficient (account )?(balance|credits?|funds|quota)|credit balance|balance is "
        r"insufficient"
        r"|credits? (\w{1,20} ){0,3}(exhausted|depleted)|(out of|requires? more|add|add more|no "
        r"usable) credits"
        r"|billing (hard )?limit|spend(ing)? (limit|cap)|in arrears|payment (is )?(required|past "
        r"due)|please recharge"
        r"|extra usage is required|requires a subscription|key limit exceeded|free allocated quota"
        r"|(weekly|monthly)\W.{0,20}limit exhausted"
        r"|\bfree-models-per-day\b",
    ),
    Rule("rate_limit", frozenset(), r"resource_exhausted|throttling.*"),
    Rule("rate_limit", frozenset({402}), prose=r"\bresets?\b|try again|retry|temporar"),
    Rule(
        "billing",
        _ANY,
        prose=r"exceeded your current quota|check your plan and billing|api usage limits",
    ),
    # An account that is shut is not asked again either.
    Rule(
        "billing",
        _CLIENT - {429},
        rf"({_HOLDER})_({_SHUT})",
        rf"\b({_HOLDER})( \S{{1,60}})? (is|are|was|has been) (\w{{1,20}} ){{0,2}}({_SHUT})\b",
    ),
    Rule(
        "billing",
        frozenset({402, 403, 429}),
        prose=r"\bquota|usage limit",
        unless=r"per.(second|minute|hour)|\b[rt]pm\b|rate.?limit",
    ),
    Rule("overloaded", _ANY, numbers=r"zai:1305"),
    Rule(
        "overloaded",
        _BUSY,
        r"(\w+_)?overloaded(_error)?|slow_down|(service_?)?unavailable(exception|_?error)?|"
        r"modelnotready(exception)?",
        r"overload|(at|over|no) capacity|capacity exceeded|high (demand|traffic|load)"
        r"|(server|service) (is )?(too )?busy",
    ),
    # OpenAI's: tools or whole models that one of its two protocols does not take
    # [danny-avila/LibreChat #14231, pipecat-ai/pipecat #4043]; the last one is Azure's
    # [langchain-ai/langchain-azure #228, vanna-ai/vanna #967].
    Rule(
        "wrong_endpoint",
        _BAD_REQUEST | {404},
        prose=rf"\btools?\b.{{0,80}}\breasoning_effort\b.{{0,80}}{_NOT_TAKEN}"
        rf"|\breasoning_effort\b.{{0,80}}{_NOT_TAKEN}.{{0,80}}\btools?\b"
        rf"|{_NOT_TAKEN}.{{0,120}}\b(in|on|by|with|via) (the )?"
        r"(/?(v1/)?(chat/completions|responses)|(responses|chat completions) (api|endpoint))\b"
        r"|\b(use|only supported (in|on|by|with|via)) (the )?(/?v1/|/)?responses\b"
        r"|\b(chatcompletion|responses) operation does not work with\b",
        unless=r"\bnot a chat model\b",
    ),
    Rule(
        "parameter_unsupported",  # stands only where a parameter is named that may be left out
        _BAD_REQUEST | {404},
        r"unsupported_(parameter|value)|(unknown|unrecognized)_\w+|extra_forbidden",
        r"unsupported|(not|n't) support|unknown (parameter|argument|field|name)|unrecognized|"
        r"deprecated"
        r"|extra inputs are not permitted|cannot both be specified|that support the provided|no "
        r"longer supported"
        r"|only works in thinking mode|\binput should be ['\"`]|\bsupported values are:",
    ),
    Rule("model_not_found", _VAGUE, numbers=r"zai:1211|minimax:2061"),
    Rule(
        "model_not_found",
        _CLIENT - {401, 429},
        r"(model|deployment)_?not_?found|model_not_(available|supported)|model_decommissioned|"
        r"(invalid|unknown)_model",
        r"\bmodels?\b.{0,150}?\b((does not|doesn't) exist|not found|not "
        r"available|decommissioned|retired|no longer"
        r"|discontinued|end of (its )?life|marked by provider as legacy)"
        r"|(no such|unknown|invalid|unsupported|not found the) model|not a valid model|model "
        r"identifier is invalid"
        r"|\Amodel: "
        r"|models/\S{1,200} is not|\bmodel\b \S{1,200} (is|has been) (not "
        r"supported|deprecated)|no endpoints found"
        r"|api deployment for this resource does not exist",
    ),
    Rule("rate_limit", _BUSY | _VAGUE, numbers=r"zai:130[2-4]|minimax:(1002|1039|1041|2045)"),
    Rule(
        "rate_limit",
        frozenset({None, 400, 403, 429}),
        r"(rate|ramp)_?limit\w*|too_many_\w+|limit_requests|(request|token)_quota_exceeded|"
        r"servicequotaexceeded(exception)?",
        r"rate.?limit|too many (requests|tokens)|throttl|(requests?|tokens?) per "
        r"(sec|min|hour|day)|concurrency"
        r"|\b[rt]pm limit",
    ),
    Rule("auth", _VAGUE, numbers=r"zai:(100[0-4]|11(1[0-2]|21)|1220)|minimax:(1004|2049)"),
    Rule(
        "auth",
        _BAD_REQUEST | {404},
        r"auth\w*_error|permission_(error|denied)|unauthenticated|unauthorized|(invalid|incorrect|"
        r"missing)_(api_)?key"
        r"|organization_(on_hold|type_\w+)|parent_organization_required|cmek_key_(disabled|\w+blocked)"
        r"|api_key_\w+|access_?denied(exception)?|unrecognizedclient(exception)?|"
        r"expiredtoken(exception)?|invalid_token",
        r"(invalid|incorrect|missing|no|expired|wrong) "
        r"(api|secret|access).?(key|token)|authentication (fail|error)"
        r"|api.?key (is )?(not|invalid|expired|missing)|login fail|unauthorized",
    ),
    Rule("timeout", _VAGUE, numbers=r"minimax:1001"),
    Rule(
        "timeout",
        frozenset(),
        r"timeout(_error)?|request_timeout|vector_store_timeout|modeltimeout(exception)?|"
        r"deadline_exceeded",
    ),
    Rule("server_error", _VAGUE, numbers=r"minimax:(1013|1024|1033)|zai:(1120|1230|1234)"),
    Rule("connection", frozenset(), r"(network|connection)_error"),
    Rule("auth", frozenset({401})),
    Rule(
        "format",
        _VAGUE,
        numbers=r"minimax:(1042|2013)|zai:12(1[0-5]|2[0-2])",
        unless=r"context window",
    ),
    Rule("unknown", _BAD_REQUEST, prose=r"unknown error", numbers=r"minimax:(999|1000)"),
)

BY_CODE_FIRST: Final[frozenset[Reason]] = frozenset(
    {
        "content_policy",
        "context_overflow",
        "payload_too_large",
        "prefill_unsupported",
        "reasoning_missing",
        "reasoning_signature",
        "output_cap",
        "parameter_unsupported",
        "wrong_endpoint",
    }
)
"""The reasons that change the request or end the call: no wording outweighs a code that names
another reason.
"""

REFINED_BY_PROSE: Final[dict[Reason, frozenset[Reason]]] = {
    "context_overflow": frozenset({"output_cap", "payload_too_large"}),
    "payload_too_large": frozenset({"output_cap", "context_overflow"}),
    "rate_limit": frozenset({"payload_too_large"}),
    "parameter_unsupported": frozenset(
        {
            "output_cap",
            "prefill_unsupported",
            "reasoning_missing",
            "reasoning_signature",
            "wrong_endpoint",
        }
    ),
    "model_not_found": frozenset({"wrong_endpoint"}),
}
"""The reasons that a wording may still turn the reason of a code into."""

STATUSES: Final[dict[int, Reason]] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "not_found",
    408: "timeout",
    409: "unknown",
    424: "server_error",
    425: "unknown",
    429: "rate_limit",
    449: "rate_limit",  # iFlow's [mmeyerlein/meclaw#75]
    498: "overloaded",
    499: "unknown",
    503: "overloaded",
    529: "overloaded",
}
STATUS_CLASSES: Final[dict[int, Reason]] = {3: "format", 4: "format", 5: "server_error"}

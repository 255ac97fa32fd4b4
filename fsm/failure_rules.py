"""The failure taxonomy as data: which words, wordings and statuses of a response mean which reason.

The rules are tried from top to bottom, the specific before the general. All wordings are those that the providers were
seen to send, as of November 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from attrs import frozen

from fsm.reply import Reason

if TYPE_CHECKING:
    from fsm.failure_body import Said

_Statuses = frozenset[int | None]  # None stands for an error inside a 2xx response or stream

_ANY: Final[_Statuses] = frozenset({None, *range(300, 1000)})
_CLIENT: Final[_Statuses] = frozenset({None, *range(400, 500)})
_BAD_REQUEST: Final[_Statuses] = frozenset({None, 400, 422})
_TOO_LONG: Final = _BAD_REQUEST | {413, 500}
_BUSY: Final[_Statuses] = frozenset({None, 408, 429, *range(500, 600)})


@frozen
class Rule:
    """Name a reason by codes on any status, by prose on some statuses, or, without either, by these statuses alone."""

    reason: Reason
    codes: re.Pattern[str] | None
    prose: re.Pattern[str] | None
    statuses: _Statuses

    def fits(self, said: Said, status: int | None) -> bool:
        """Tell whether this rule names the reason of what a response says."""
        if self.codes is not None and any(self.codes.fullmatch(word) for word in said.words):
            return True
        if status not in self.statuses:
            return False
        return self.codes is None if self.prose is None else self.prose.search(said.text) is not None


def _rule(reason: Reason, statuses: _Statuses, codes: str = "", prose: str = "") -> Rule:
    in_codes, in_prose = (re.compile(text, re.IGNORECASE | re.DOTALL) if text else None for text in (codes, prose))
    return Rule(reason, in_codes, in_prose, statuses)


# The numbers among the codes are business codes: 11xx to 13xx Z.AI's, 999 and 1000 MiniMax's.
RULES: Final = (
    _rule(
        "content_policy",
        _CLIENT,
        r"content_?(filter(ed)?|policy(_\w+)?)|responsibleaipolicyviolation|(.*\.)?data_?inspection_?failed|refusal"
        r"|(image_)?safety\w*|(image_)?prohibited_content|blocklist|spii|model_armor|(bio|cyber)\w*_policy|invalid_prompt"
        r"|sensitive_words_detected|prompt_blocked|130[01]",
        r"content (management|filter\w*) policy|(violat|flagged)\w*.{0,40}\b(usage|content) polic|safety system"
        r"|inappropriate content|content exists risk|unsafe or sensitive content|due to safety|datainspectionfailed"
        r"|(prompt|input|request|content) (was|has been) (flagged|blocked)|flagged (for possible|as potentially)",
    ),
    _rule(
        "prefill_unsupported",
        _BAD_REQUEST,
        "",
        r"message prefill|pre-?fill\w*\b.{0,60}\b(not supported|unsupported|incompatible)|ending with a model turn"
        r"|must end with a user message|expected last role user|final assistant content cannot end with"
        r"|expected `?thinking`? or `?redacted_thinking`?, but found",
    ),
    _rule(
        "reasoning_signature",
        _CLIENT,
        r"invalid_encrypted_content|(\w+_)?(thinking|thought)_signature",
        r"(thinking|thought)[_ ]?signature|signature\W{1,3}in\W{1,3}thinking|thinking\b.{0,40}blocks.{0,80}cannot be"
        r"|encrypted[_ ]content.{0,200}\b(verified|decrypted)|decrypt.{0,40}encrypted[_ ]content|item with id\W{1,3}rs_"
        r"|without its required\W.{0,12}(following|reasoning)|property 'reasoning\w*' is unsupported"
        r"|reasoning_content.{0,60}must be passed back",
    ),
    _rule("output_cap", _ANY),  # stands only where the message names a number
    # A rate limit that this one request exceeds by itself: no wait helps, a shorter request does.
    _rule("payload_too_large", _CLIENT, "", r"request too large for\b"),
    _rule(
        "context_overflow",
        _TOO_LONG,
        r"(model_)?context_(length|window)_exceeded|exceed_context_size_error|1261",
        r"(prompt|input|messages) (token length )?(is )?too long|maximum (context|prompt|model|input) length"
        r"|exceeds? (the )?context (limit|window)|longer than the model's context length|reduce the length of the"
        r"|exceeds the available context size|exceeds the maximum number of (input )?tokens|current length is"
        r"|max_model_len|context (length|window|limit) (is )?exceed|context limit of|input tokens exceed"
        r"|model token limit|max_new_tokens`? must be|exceeds max(imum)? length|too large for model with"
        r"|too many (input )?tokens(?! per)|token count of.{0,20}exceeds|maximum allowed input length"
        r"|must have less than \d+ tokens",
    ),
    _rule("payload_too_large", _BAD_REQUEST, r"(request|payload)_too_large", r"(entity|payload|body) (is )?too large"),
    _rule("payload_too_large", frozenset({413})),
    # Google words a spent quota and a rate limit alike; the quota's name or a limit of 0 tells them apart.
    _rule("billing", _ANY, r".*per_?day.*", r"quota exceeded for metric.{0,300}\blimit: 0\b"),
    _rule("overloaded", frozenset(), r"model_capacity_exhausted"),
    _rule(
        "billing",
        _ANY,
        r"insufficient_(quota|balance|credits?|funds|user_quota)|billing_\w+|credit_balance_\w+|\w*spend_limit_\w+"
        r"|exceeded_current_quota_error|arrearage|payment_required|creditserror|.*freetieronly|1113|13(0[89]|1\d|2[01])",
        r"insufficient (account )?(balance|credits?|funds|quota)|credit balance|balance is insufficient"
        r"|credits? (\w+ ){0,3}(exhausted|depleted)|(out of|requires? more|add|add more|no usable) credits"
        r"|billing (hard )?limit|spend(ing)? (limit|cap)|in arrears|payment (is )?(required|past due)|please recharge"
        r"|extra usage is required|key limit exceeded|free allocated quota|(weekly|monthly)\W.{0,20}limit exhausted",
    ),
    _rule("rate_limit", frozenset(), r"resource_exhausted|throttling.*"),
    _rule("rate_limit", frozenset({402}), "", r"\bresets?\b|try again|retry|temporar"),
    _rule("billing", _ANY, "", r"exceeded your current quota|check your plan and billing|api usage limits"),
    _rule(
        "billing",
        frozenset({402, 403, 429}),
        "",
        r"\A(?!.*(per.(second|minute|hour)|\b[rt]pm\b|rate.?limit)).*(\bquota|usage limit)",
    ),
    _rule(
        "overloaded",
        _BUSY,
        r"(\w+_)?overloaded(_error)?|slow_down|(service_?)?unavailable(exception|_?error)?|modelnotready(exception)?|1305",
        r"overload|(at|over|no) capacity|capacity exceeded|high (demand|traffic|load)|(server|service) is (too )?busy",
    ),
    _rule(
        "parameter_unsupported",  # stands only where a parameter is named that may be left out
        _BAD_REQUEST | {404},
        r"unsupported_(parameter|value)|(unknown|unrecognized)_\w+|extra_forbidden",
        r"unsupported|(not|n't) support|unknown (parameter|argument|field|name)|unrecognized|deprecated"
        r"|extra inputs are not permitted|cannot both be specified|that support the provided",
    ),
    _rule(
        "model_not_found",
        _CLIENT - {401, 429},
        r"model_?not_?found|model_not_(available|supported)|model_decommissioned|(invalid|unknown)_model|1211",
        r"\bmodels?\b.{0,150}?\b((does not|doesn't) exist|not found|not available|decommissioned|retired|no longer)"
        r"|(no such|unknown|invalid|unsupported) model|not a valid model|model identifier is invalid|\Amodel: "
        r"|models/\S+ is not|\bmodel\b \S+ (is|has been) (not supported|deprecated)|no endpoints found",
    ),
    _rule(
        "rate_limit",
        frozenset({None, 400, 403, 429}),
        r"rate_?limit\w*|too_many_\w+|limit_requests|(request|token)_quota_exceeded|servicequotaexceeded(exception)?|130[2-4]",
        r"rate.?limit|too many requests|throttl|(requests|tokens) per (second|minute|hour|day)|concurrency",
    ),
    _rule(
        "auth",
        _BAD_REQUEST | {404},
        r"auth\w*_error|permission_(error|denied)|unauthenticated|unauthorized|(invalid|incorrect|missing)_(api_)?key"
        r"|api_key_\w+|access_?denied(exception)?|unrecognizedclient(exception)?|expiredtoken(exception)?|invalid_token",
        r"(invalid|incorrect|missing|no|expired|wrong) (api|secret|access).?(key|token)|authentication (fail|error)"
        r"|api.?key (is )?(not|invalid|expired|missing)|login fail|unauthorized",
    ),
    _rule("timeout", frozenset(), r"timeout(_error)?|request_timeout|modeltimeout(exception)?|deadline_exceeded"),
    _rule("connection", frozenset(), r"(network|connection)_error"),
    _rule("auth", frozenset({401})),
    _rule("unknown", _BAD_REQUEST, r"999|1000", r"unknown error"),
)

STATUSES: Final[dict[int, Reason]] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "unknown",
    408: "timeout",
    409: "unknown",
    424: "server_error",
    425: "unknown",
    429: "rate_limit",
    498: "overloaded",
    499: "unknown",
    503: "overloaded",
    529: "overloaded",
}
STATUS_CLASSES: Final[dict[int, Reason]] = {3: "format", 4: "format", 5: "server_error"}

# An error inside a stream has no status; these codes are the names of one.
STATUS_OF_CODE: Final = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "validationexception": 400,
    "badrequesterror": 400,
    "bad_request": 400,
    "not_found_error": 404,
    "not_found": 404,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "internal_error": 500,
    "internal": 500,
    "internalserverexception": 500,
    "modelstreamerrorexception": 500,
}

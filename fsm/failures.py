"""Why a call failed, as one of few reasons, from whatever a provider or a transport said.

A response is read in three steps: `_Said` gathers what its body says, in whatever shape; `_RULES` names the reason,
tried from top to bottom, the specific before the general; `_STATUSES` has the last word. A structured code is believed
on any status; prose only on the statuses of its rule, because providers quote prompts in it. An exception is named by
the classes it derives from, so that no HTTP client need be imported here.

All wordings are those that the providers were seen to send, as of November 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from attrs import Factory, define, frozen

from fsm.asked_wait import asked_wait, plain_headers
from fsm.errors import RungwiseError
from fsm.reply import Failure, Reason

KEY_HINT_REASONS: Final[frozenset[Reason]] = frozenset({"auth"})
"""The reasons that call for a look at the API key."""

_EVENTS: Final[dict[Reason, str]] = {
    "auth": "failed_permanently",
    "billing": "failed_permanently",
    "rate_limit": "failed_transiently",
    "overloaded": "failed_transiently",
    "server_error": "failed_transiently",
    "timeout": "failed_transiently",
    "connection": "failed_transiently",
    "certificate": "failed_permanently",
    "context_overflow": "overflowed",
    "payload_too_large": "overflowed",
    "output_cap": "rejected_fixably",
    "prefill_unsupported": "rejected_fixably",
    "parameter_unsupported": "rejected_fixably",
    "reasoning_signature": "rejected_fixably",
    "model_not_found": "failed_permanently",
    "content_policy": "refused",
    "format": "failed_permanently",
    "malformed": "malformed",
    "unknown": "failed_transiently",
}
_EVENT_IF_RETRYABLE: Final = {True: "failed_transiently", False: "failed_permanently"}


def event_of_failure(failure: Failure) -> str:
    """Return the machine's event for a failure.

    The service's own word on retrying overrides ours; it does not touch refusals, repairs and overflows.
    """
    event = _EVENTS[failure.reason]
    if failure.should_retry is None or event not in _EVENT_IF_RETRYABLE.values():
        return event
    return _EVENT_IF_RETRYABLE[failure.should_retry]


# ---- responses: the rules --------------------------------------------------------------------------------------------

_Statuses = frozenset[int | None]  # None stands for an error inside a 2xx response or stream

_ANY: Final[_Statuses] = frozenset({None, *range(300, 1000)})
_CLIENT: Final[_Statuses] = frozenset({None, *range(400, 500)})
_BAD_REQUEST: Final[_Statuses] = frozenset({None, 400, 422})
_TOO_LONG: Final = _BAD_REQUEST | {413, 500}
_BUSY: Final[_Statuses] = frozenset({None, 408, 429, *range(500, 600)})


@frozen
class _Rule:
    """Name a reason by codes on any status, by prose on some statuses, or, without either, by these statuses alone."""

    reason: Reason
    codes: re.Pattern[str] | None
    prose: re.Pattern[str] | None
    statuses: _Statuses

    def fits(self, said: _Said, status: int | None) -> bool:
        if self.codes is not None and any(self.codes.fullmatch(word) for word in said.words):
            return True
        if status not in self.statuses:
            return False
        return self.codes is None if self.prose is None else self.prose.search(said.text) is not None


def _rule(reason: Reason, statuses: _Statuses, codes: str = "", prose: str = "") -> _Rule:
    in_codes, in_prose = (re.compile(text, re.IGNORECASE | re.DOTALL) if text else None for text in (codes, prose))
    return _Rule(reason, in_codes, in_prose, statuses)


# The numbers among the codes are business codes: 11xx to 13xx Z.AI's, 999 and 1000 MiniMax's.
_RULES: Final = (
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

_STATUSES: Final[dict[int, Reason]] = {
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
_STATUS_CLASSES: Final[dict[int, Reason]] = {3: "format", 4: "format", 5: "server_error"}

# An error inside a stream has no status; these codes are the names of one.
_STATUS_OF_CODE: Final = {
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

# ---- responses: what a message names ---------------------------------------------------------------------------------

# How many output tokens there is room for: `cap` outright, `below` exclusively, or `limit` less `used` and `more`.
# vLLM gives no more than a lower bound of the prompt; there, where what was `asked` for fills most of the `limit`, half
# of it is tried, and otherwise the prompt is to blame. What OpenRouter's remaining credit affords is a cap too: one
# shorter request succeeds now, and where it is too short the next refusal leads on to the fallback.
_AVAILABLE: Final = tuple(
    re.compile(pattern.replace(r"\d+", r"\d[\d,]{0,14}"), re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"exceed context limit: (?P<used>\d+) \+ \d+ > (?P<limit>\d+)",
        r"context length is (?P<limit>\d+) tokens.{0,40}requested (?:about )?\d+ tokens \((?P<used>\d+) "
        r"(?:in (?:the|your) (?:messages|prompt)|of text input)"
        r"(?:[,;] (?P<more>\d+) (?:in the functions|of tool input))?",
        r"context length of (?P<limit>\d+) tokens\. you requested a total of \d+ tokens: (?P<used>\d+) tokens from",
        r"context length is (?P<limit>\d+) tokens.{0,40}requested (?P<asked>\d+) output tokens",
        r"context length is\s+(?P<limit>\d+) tokens and your request has (?P<used>\d+) input tokens",
        r"max_new_tokens`? must be <= (?P<limit>\d+)\. given: (?P<used>\d+)",
        r"max_tokens: \d+ > (?P<cap>\d+), which is the maximum",
        r"supports at most (?P<cap>\d+) (?:completion|output) tokens",
        r"max_?(?:completion_?|output_?|new_?)?tokens\b.{0,120}?(?:less than or equal to|<=) ?[`'\"]?(?P<cap>\d+)",
        r"range of max_?(?:completion_?|output_?|new_?)?tokens (?:should be|is) \[\d+, ?(?P<cap>\d+)\]",
        r"maxoutputtokens\b.{0,120}? to (?P<below>\d+) \(exclusive\)",
        r"maximum tokens you requested exceeds the model limit of (?P<cap>\d+)",
        r"can only afford (?P<cap>\d+)",
    )
)

_NAME: Final = r"(?<![\w.])['\"`]?([A-Za-z_][\w.\[\]]{0,60})['\"`]?"
_QUOTED: Final = rf"(?=['\"`]){_NAME}"
_NAMED: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"(?:unsupported|unknown|unrecognized) (?:parameter|argument|field|name|value)(?:s|\(s\))?:? ?{_QUOTED}",
        rf"(?:unrecognized request arguments? supplied|argument not supported[^:]{{0,30}}): {_NAME}",
        rf"{_NAME}: extra inputs are not permitted",
        rf"'loc': [(\[]'body', {_NAME}.{{0,60}}extra inputs",
        rf"and {_NAME} cannot both be specified",
        rf"(?:^|[.:] |\b(?:the|property|option) ){_QUOTED} (?:is|are) (?:not supported|unsupported|deprecated)",
        rf"parameters?:? {_NAME} (?:is|are) (?:not supported|unsupported|deprecated)",
        rf"not support (?:the )?parameter:? {_NAME}",
        rf"not support (?:the )?{_NAME} parameter",
        rf"that support the provided {_NAME} value",
    )
)
_CONTAINERS: Final = frozenset({"body", "extra_body", "generation_config", "generationConfig"})

_PARAMETER: Final = re.compile(r"[A-Za-z_][\w.\[\]-]{0,80}", re.ASCII)

# Without these it would be another question, or another kind of answer: never dropped to please a provider.
_KEPT_PARAMETERS: Final = frozenset(
    {
        *("model", "messages", "message", "input", "contents", "content", "prompt", "role", "tools", "functions"),
        *("system", "system_instruction", "systemInstruction", "instructions", "stream", "text", "response_format"),
        *("output_format", "output_config", "response_schema", "responseSchema"),
    }
)

# ---- responses: reading ----------------------------------------------------------------------------------------------

_LONGEST_TEXT: Final = 10_000  # characters; an error page can be of any length
_DEEPEST: Final = 8
_MOST_VALUES: Final = 500
_FIRST_PLACES: Final = ("response", "error")  # read before the words beside them, which only say that this is an error
_PLACES: Final = (
    *("message", "msg", "status_msg", "error_description", "detail", "details", "errors", "violations", "metadata"),
    *("raw", "innererror", "upstream_error", "base_resp", "promptFeedback"),
)
_WORDS: Final = ("code", "status", "type", "__type", "reason", "blockReason", "error_code", "status_code", "quotaId")
_CODE: Final = re.compile(r"[\w.:#/-]{1,80}", re.ASCII)  # anything else in a code's place is prose, and may be private
_PAGE: Final = re.compile(r"\s*<[!?/a-z]", re.IGNORECASE)
_HTTP_ERROR: Final = re.compile(r"[45]\d\d", re.ASCII)
_MOST_TOKENS: Final = 10**9


@define
class _Said:
    """Gather what a body says: its words (codes and types), its prose, and the parameters that it names."""

    words: list[str] = Factory(list)
    prose: list[str] = Factory(list)
    parameters: list[str] = Factory(list)
    values: int = 0

    def read(self, value: object, depth: int = 0) -> None:
        self.values += 1
        if depth > _DEEPEST or self.values > _MOST_VALUES:
            return
        if isinstance(value, Mapping):
            self._read_object(value, depth + 1)
        elif isinstance(value, list):
            for item in value[:_MOST_VALUES]:
                self.read(item, depth + 1)
        elif isinstance(value, str):
            inner = _decoded(value)
            if inner is not value:
                self.read(inner, depth + 1)
            elif value:
                self.prose.append(value[:_LONGEST_TEXT])

    def _read_object(self, value: Mapping[str, object], depth: int) -> None:
        for place in _FIRST_PLACES:
            self.read(value.get(place), depth)
        self.add_words(value.get(name) for name in _WORDS)
        location = value.get("loc")
        path = [part for part in location if isinstance(part, str)] if isinstance(location, list) else []
        self.parameters += [name for name in (value.get("param"), ".".join(path)) if isinstance(name, str) and name]
        for place in _PLACES:
            self.read(value.get(place), depth)

    def add_words(self, values: Iterable[object]) -> None:
        plain = (value for value in values if isinstance(value, str) or (type(value) is int and abs(value) < 10**9))
        self.words += [word.rpartition("#")[2] for word in map(str, plain) if _CODE.fullmatch(word)]

    @cached_property
    def text(self) -> str:
        """Join what the rules look at; a page in HTML may quote anything, so only its status counts."""
        pieces = (piece for piece in (*self.parameters, *self.prose) if not _PAGE.match(piece))
        return "\n".join(pieces)[:_LONGEST_TEXT]

    @property
    def code(self) -> str | None:
        """Return the first code that says more than an HTTP status does."""
        telling = (word for word in self.words if not _HTTP_ERROR.fullmatch(word))
        return next(telling, self.words[0] if self.words else None)

    @property
    def status(self) -> int | None:
        """Return the HTTP status that the body itself gives, or means by its code."""
        given = (int(word) for word in self.words if _HTTP_ERROR.fullmatch(word))
        meant = (_STATUS_OF_CODE[word.lower()] for word in self.words if word.lower() in _STATUS_OF_CODE)
        return next(given, None) or next(meant, None)

    @cached_property
    def available_tokens(self) -> int | None:
        """Work out for how many output tokens the provider said there is room, where there is any."""
        found = next(filter(None, (pattern.search(self.text) for pattern in _AVAILABLE)), None)
        if found is None:
            return None
        number = {name: int((digits or "0").replace(",", "")) for name, digits in found.groupdict().items()}
        limit, asked = number.get("limit", 0), number.get("asked")
        if asked is not None:
            available = asked // 2 if asked * 2 > limit else 0
        else:
            room = limit - number.get("used", 0) - number.get("more", 0)
            available = number.get("cap") or number.get("below", 1) - 1 or room
        return available if 0 < available < _MOST_TOKENS else None

    @cached_property
    def parameter(self) -> str | None:
        """Return the parameter that the provider rejected, if it is one that may be left out."""
        in_text = (match[1] for match in (pattern.search(self.text) for pattern in _NAMED) if match)
        named = next((name for name in self.parameters if _PARAMETER.fullmatch(name)), None) or next(in_text, "")
        parts = [part for part in re.split(r"[.\[\]]+", named) if part and part not in _CONTAINERS]
        return parts[0] if parts and parts[0] not in _KEPT_PARAMETERS else None


def _decoded(body: object) -> object:
    if isinstance(body, (bytes, bytearray)):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body


def classify_response(status: int | None, headers: Mapping[str, str], body: object) -> Failure:
    """Say why a response is a failure; never raises, whatever it is given.

    Arguments:
        status: the HTTP status; None for an error event inside a stream that began with 200.
        headers: the response's headers, in any case.
        body: the decoded JSON, or the text or the bytes of the body.
    """
    names, decoded, said = plain_headers(headers), _decoded(body), _Said()
    said.read(decoded)
    said.add_words([names.get("x-amzn-errortype", "").partition(":")[0]])
    reason = _reason_of(said, status, is_object=not isinstance(decoded, str))
    return Failure(
        reason,
        status=status,
        code=said.code,
        message=said.prose[0] if said.prose else "",
        asked_wait=asked_wait(names, decoded, said.text),
        should_retry={"true": True, "false": False}.get(names.get("x-should-retry", "").lower()),
        parameter=said.parameter if reason == "parameter_unsupported" else None,
        available_tokens=said.available_tokens if reason == "output_cap" else None,
    )


def _reason_of(said: _Said, status: int | None, *, is_object: bool) -> Reason:
    known = said.status if status is None or 200 <= status < 300 else status
    missing = {
        name
        for name, value in (("output_cap", said.available_tokens), ("parameter_unsupported", said.parameter))
        if value is None
    }
    for rule in _RULES:
        if rule.reason not in missing and rule.fits(said, known):
            return rule.reason
    if known is not None:
        return _STATUSES.get(known) or _STATUS_CLASSES.get(known // 100, "unknown")
    return "unknown" if status is None or (is_object and (said.words or said.prose)) else "malformed"


# ---- exceptions ------------------------------------------------------------------------------------------------------

# The names of httpx, httpx2, httpcore and the standard library; None marks files, which are no network.
_TRANSPORT: Final[dict[str, Reason | None]] = {
    "TimeoutException": "timeout",
    "ConnectTimeout": "timeout",
    "ReadTimeout": "timeout",
    "WriteTimeout": "timeout",
    "PoolTimeout": "timeout",
    "TimeoutError": "timeout",
    "SSLCertVerificationError": "certificate",
    "NetworkError": "connection",
    "ConnectError": "connection",
    "ReadError": "connection",
    "WriteError": "connection",
    "CloseError": "connection",
    "ProtocolError": "connection",
    "LocalProtocolError": "connection",
    "RemoteProtocolError": "connection",
    "ProxyError": "connection",
    "TransportError": "connection",
    "RequestError": "connection",
    "DecodingError": "malformed",
    "UnsupportedProtocol": "format",
    "InvalidURL": "format",
    "TooManyRedirects": "format",
    "FileNotFoundError": None,
    "FileExistsError": None,
    "IsADirectoryError": None,
    "NotADirectoryError": None,
    "OSError": "connection",
}

# Under a failed connection: what it really was. A header that cannot be sent is nearly always a key with a line break.
_UNDERLYING: Final[dict[str, Reason]] = {"certificate.verify.failed": "certificate", "illegal header value": "auth"}

# Wrapped or not, these are ours or the caller's own; a failure of the network may merely have been handled before them.
_NEVER_WRAPPERS: Final = (
    *(RungwiseError, ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError),
    *(NotImplementedError, RecursionError, OSError, TypeError, ValueError),
)
_DEPTH: Final = 5


def is_local_bug(exception: BaseException) -> bool:
    """Tell whether an exception comes from our own or the caller's code, not from the network or the service."""
    return isinstance(exception, Exception) and _transport_reason(exception) is None


def classify_exception(exception: BaseException) -> Failure:
    """Say why a transport failed.

    Arguments:
        exception: what the transport raised; its causes are looked at to a depth of 5.

    Raises:
        BaseException: `exception` itself, where it is a local bug or no error at all (a cancellation, an interrupt).
    """
    reason = _transport_reason(exception) if isinstance(exception, Exception) else None
    if reason is None:
        raise exception
    return Failure(reason, message=str(exception), exception=exception)


def _transport_reason(exception: BaseException) -> Reason | None:
    links = tuple(_chain(exception))
    named: list[Reason] = [reason for reason in map(_named_reason, links) if reason is not None]
    reason = _named_reason(exception)
    if reason is None and named and not isinstance(exception, _NEVER_WRAPPERS):
        reason = named[0]
    if reason != "connection":
        return reason
    if "certificate" in named:
        return "certificate"
    text = "\n".join(map(str, links))
    for wording, underlying in _UNDERLYING.items():
        if re.search(wording, text, re.IGNORECASE):
            return underlying
    return reason


def _named_reason(exception: BaseException) -> Reason | None:
    for kind in type(exception).__mro__:
        if kind.__name__ in _TRANSPORT:
            return _TRANSPORT[kind.__name__]
    return None


def _chain(exception: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = exception
    for _ in range(_DEPTH + 1):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)

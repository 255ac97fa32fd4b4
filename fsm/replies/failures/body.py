"""Reading the body of a failed response, in whatever shape a provider writes it.

There is no common form. A code stands under `code`, `type`, `status` or `reason`; an error stands
under `error`, in a list, or as JSON within a string of another error, since proxies quote what they
got. So a body is searched for the names that some provider uses (`_PLACES`, `_WORDS`), to a bounded
depth and size, and the words and the prose found there are judged by the `RULES`.

All of it may be hostile or huge. Nothing here raises, each pattern has bounds, and no text of a
body leaves this module but as a code of plain letters, a number, or the message, which no log
shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Final

from attrs import Factory, define

from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.values.patterns import Pattern

# How many output tokens there is room for: `cap`, one less than `below`, or `limit` less `used` and
# `more`. vLLM gives only a lower bound of the prompt: if the `asked` tokens fill most of the
# `limit`, half of them are tried; otherwise the prompt is too long. What OpenRouter's remaining
# credit affords is a cap too: one shorter request succeeds now, and if it is too short, the next
# refusal leads to the fallback.
_AVAILABLE_WORDINGS: Final = (
    r"exceed context limit: (?P<used>\d+) \+ \d+ > (?P<limit>\d+)",
    r"context length is (?P<limit>\d+) tokens.{0,40}requested (?:about )?\d+ tokens "
    r"\((?P<used>\d+) "
    r"(?:in (?:the|your) (?:messages|prompt)|of text input)"
    r"(?:[,;] (?P<more>\d+) (?:in the functions|of tool input))?",
    r"context length of (?P<limit>\d+) tokens\. you requested a total of \d+ tokens: "
    r"(?P<used>\d+) tokens from",
    r"context length is (?P<limit>\d+) tokens.{0,40}requested (?P<asked>\d+) output tokens",
    r"context length is\s+(?P<limit>\d+) tokens and your request has (?P<used>\d+) input tokens",
    r"max_new_tokens`? must be <= (?P<limit>\d+)\. given: (?P<used>\d+)",
    r"max_tokens: \d+ > (?P<cap>\d+), which is the maximum",
    r"supports at most (?P<cap>\d+) (?:completion|output) tokens",
    r"max_?(?:completion_?|output_?|new_?)?tokens\b.{0,120}?(?:less than or equal to|<=) "
    r"?[`'\"]?(?P<cap>\d+)",
    r"range of max_?(?:completion_?|output_?|new_?)?tokens (?:should be|is) \[\d+, "
    r"?(?P<cap>\d+)\]",
    r"maxoutputtokens\b.{0,120}? to (?P<below>\d+) \(exclusive\)",
    r"max_\w{0,20}tokens \(\d+\) cannot exceed (?P<cap>\d+)",
    r"prompt tokens \((?P<used>\d+)\) \+ max_\w{0,20}tokens \(\d+\) > context window "
    r"\((?P<limit>\d+)\)",
    r"maximum tokens you requested exceeds? the model limit of (?P<cap>\d+)",
    r"can only afford (?P<credit>\d+)",
)
_AVAILABLE: Final = tuple(
    Pattern(wording.replace(r"\d+", r"\d[\d,]{0,14}"), re.IGNORECASE | re.DOTALL)
    for wording in _AVAILABLE_WORDINGS
)

_NAME: Final = r"(?<![\w.])['\"`]?([A-Za-z_][\w.\[\]]{0,60})['\"`]?"
_QUOTED: Final = rf"(?=['\"`]){_NAME}"
_NAMED_WORDINGS: Final = (
    rf"(?:unsupported|unknown|unrecognized) (?:parameter|argument|field|name|value)(?:s|"
    rf"\(s\))?:? ?{_QUOTED}",
    rf"(?:unrecognized request arguments? supplied|argument not supported[^:]{{0,30}}): {_NAME}",
    rf"{_NAME}: (?:extra inputs are not permitted|input should be ['\"`])",
    rf"'loc': [(\[]'body', {_NAME}.{{0,60}}extra inputs",
    rf"and {_NAME} cannot both be specified",
    rf"(?:^|[.:] |\b(?:the|property|option) ){_QUOTED} (?:is|are) (?:not "
    rf"supported|unsupported|deprecated)",
    rf"parameters?:? {_NAME} (?:is|are) (?:not supported|unsupported|deprecated)",
    rf"parameters?:? {_NAME} of type ['\"`]?\w{{1,40}}['\"`]? (?:is|are) not supported",
    rf"not support (?:the )?parameter:? {_NAME}",
    rf"not support (?:the )?{_NAME} (?:parameter|level)",
    rf"that support the provided {_NAME} value",
    r"(?:^|[.:] |\bbecause )(temperature|top_?[pk]|thinking_?\w{0,10}) (?:is|are) (?:not|no "
    r"longer) supported",
    # Gemini's words, as are the next ones
    r"(?:^|[.:] )(thinking) (?:level|budget)\b.{0,40}?\bnot supported",
    r"\bbudget -?\d{1,9} is invalid\. this model only works in (thinking) mode",
    r"\bdoes not support (thinking)\s*\Z",  # Ollama's
    # not `tool_choice 'required'`: without it, the request asks for something else
    r"(?:^|[.:] )(think(?= value)|(?!tool_choice)\w{1,40}[._]\w{1,40})(?: value)? \W\w{1,40}\W "
    r"is not supported",
)
_NAMED: Final = tuple(Pattern(wording, re.IGNORECASE | re.MULTILINE) for wording in _NAMED_WORDINGS)
_CONTAINERS: Final = frozenset(  # they hold parameters and are none
    [
        "body",
        "extra_body",
        "generation_config",
        "generationConfig",
        "inferenceConfig",
        "additionalModelRequestFields",
        "options",
    ]
)

_PARAMETER: Final = Pattern(r"[A-Za-z_][\w.\[\]-]{0,79}", re.ASCII)

# Without these it would be another question or another kind of answer, so they are never dropped.
_NEVER_DROPPED: Final = frozenset(
    {
        "model",
        "messages",
        "message",
        "input",
        "contents",
        "content",
        "prompt",
        "role",
        "tools",
        "functions",
        "system",
        "system_instruction",
        "systemInstruction",
        "instructions",
        "text",
    }
)

# What asks for JSON, by whichever protocol's name; it is one parameter, and there is one repair for
# it.
_FORMATS: Final = frozenset(
    {
        "response_format",
        "responseFormat",
        "output_format",
        "format",
        "guided_json",
        "json_schema",
        "responseMimeType",
        "responseJsonSchema",
        "responseSchema",
        "response_mime_type",
        "response_json_schema",
        "response_schema",
        "text.format",
        "output_config.format",
        "outputConfig.textFormat",
    }
)

_LONGEST_TEXT: Final = 10_000  # characters; an error page may have any length
_DEEPEST: Final = 8
_MOST_VALUES: Final = 500
_MOST_WORDS: Final = 100
# read before the words beside them, which only call this an error
_FIRST_PLACES: Final = ("response", "error")
_PLACES: Final = (
    "message",
    "msg",
    "error_msg",
    "error_message",
    "status_msg",
    "error_description",
    "detail",
    "details",
    "errors",
    "violations",
    "metadata",
    "raw",
    "innererror",
    "upstream_error",
    "base_resp",
    "promptFeedback",
)
_WORDS: Final = (
    "code",
    "status",
    "type",
    "__type",
    "reason",
    "blockReason",
    "error_code",
    "errcode",
    "status_code",
    "http_code",
    "quotaId",
    "error_type",
    "limit_source",
)
# anything else in place of a code is prose, and may be private
_CODE: Final = Pattern(r"[\w.:#/-]{1,80}", re.ASCII)
_NUMBER: Final = Pattern(r"\d{3,4}", re.ASCII)
_LAST_NUMBER: Final = Pattern(r"\((\d{4})\)\s{0,10}\Z", re.ASCII)
_PAGE: Final = Pattern(r"\A\s*<[!?/a-z]", re.IGNORECASE)
_HTTP_ERROR: Final = Pattern(r"[45]\d\d", re.ASCII)
_MOST_TOKENS: Final = 10**9


# An error inside a stream has no status; these codes are the names of one.
STATUS_OF_CODE: Final = {
    code: status
    for status, codes in {
        400: "invalid_request_error invalid_argument failed_precondition validationexception "
        "badrequesterror bad_request bad_request_error data_residency_mismatch invalid_image "
        "invalid_image_format invalid_base64_image invalid_image_url image_too_large "
        "image_too_small image_parse_error invalid_image_mode image_file_too_large "
        "unsupported_image_media_type empty_image_file failed_to_download_image "
        "image_file_not_found",
        404: "not_found_error not_found",
        500: "api_error server_error internal_server_error internal_error internal "
        "internalserverexception modelstreamerrorexception",
    }.items()
    for code in codes.split()
}


@define
class ErrorBody:
    """Collect the words (codes and types) of a body, its prose, and the parameters that it names.

    A business code means something to one provider only, so it also stands among the `numbers`,
    behind that name.
    """

    words: list[str] = Factory(list)
    numbers: list[str] = Factory(list)
    prose: list[str] = Factory(list)
    parameters: list[str] = Factory(list)
    values: int = 0

    def read(self, value: object, depth: int = 0, place: str = "") -> None:
        """Read a decoded body to a bounded depth and size; `place` is the key under which it stood
        in another.
        """
        self.values += 1
        if depth > _DEEPEST or self.values > _MOST_VALUES:
            return
        if isinstance(value, Mapping):
            self._read_object(value, depth + 1)
            self._add_number(value, place)
        elif isinstance(value, list):
            for item in value[:_MOST_VALUES]:
                self.read(item, depth + 1, place)
        elif isinstance(value, str):
            inner = decoded_body(value)
            count = len(self.prose)
            if inner is not value:
                self.read(inner, depth + 1)
            if value and len(self.prose) == count:  # JSON of an unknown shape may be readable prose
                self.prose.append(value[:_LONGEST_TEXT])

    def _read_object(self, value: Mapping[str, object], depth: int) -> None:
        for place in _FIRST_PLACES:
            self.read(value.get(place), depth, place)
        self.add_words(value.get(name) for name in _WORDS)
        name = value.get("param")
        if isinstance(name, str) and name:
            self.parameters.append(name)
        location = value.get("loc")  # pydantic's path to a value, as FastAPI servers return it
        if isinstance(location, list):
            path = ".".join([part for part in location if isinstance(part, str)])
            if path:
                self.parameters.append(path)
        for place in _PLACES:
            self.read(value.get(place), depth, place)

    def _add_number(self, value: Mapping[str, object], place: str) -> None:
        """Add a business code of MiniMax or Z.AI, recognised by its place and its neighbours."""
        code = _word(value.get("code"))
        kind = value.get("type")
        message = value.get("message")
        provider = ""
        number = ""
        if place == "base_resp":
            provider = "minimax"
            number = _word(value.get("status_code"))
        elif "http_code" in value and isinstance(message, str):
            match = _LAST_NUMBER.search(message[-40:])
            provider = "minimax"
            if match:
                number = match[1]
        elif place == "error" and ("type" not in value or kind == code):
            # other providers put a type beside a number
            provider = "zai"
            number = code
        if _NUMBER.fullmatch(number) and len(self.numbers) < _MOST_WORDS:
            self.numbers.append(f"{provider}:{number}")

    def add_words(self, values: Iterable[object]) -> None:
        """Add the values in place of a code that look like one."""
        self.words += [word.rpartition("#")[2] for word in map(_word, values) if word]
        del self.words[_MOST_WORDS:]

    @cached_property
    def text(self) -> str:
        """The text that the rules search; an HTML page may quote anything, so only its status
        counts.
        """
        pieces = (piece for piece in (*self.parameters, *self.prose) if not _PAGE.match(piece))
        return "\n".join(pieces)[:_LONGEST_TEXT]

    @property
    def code(self) -> str | None:
        """The first code that says more than an HTTP status."""
        for word in self.words:
            if not _HTTP_ERROR.fullmatch(word):
                return word
        return self.words[0] if self.words else None

    @property
    def status(self) -> int | None:
        """The HTTP status that the body holds, or that its code stands for."""
        for word in self.words:
            if _HTTP_ERROR.fullmatch(word):
                return int(word)
        for word in self.words:
            if word.lower() in STATUS_OF_CODE:
                return STATUS_OF_CODE[word.lower()]
        return None

    @cached_property
    def _room(self) -> Mapping[str, int]:
        """The numbers of the wording that says how much may be written, by their names."""
        for pattern in _AVAILABLE:
            match = pattern.search(self.text)
            if match is not None:
                groups = match.groupdict(default="0")
                return {name: int(digits.replace(",", "")) for name, digits in groups.items()}
        return {}

    @property
    def largest_output(self) -> int | None:
        """The most output tokens that the model ever writes, where the provider named that."""
        if self._room.keys() & {"cap", "below"}:
            return self.available_tokens
        return None

    @cached_property
    def available_tokens(self) -> int | None:
        """The output tokens that there is room for, as far as the provider said so."""
        number = self._room
        if not number:
            return None
        limit = number.get("limit", 0)
        requested = number.get("asked")
        if requested is None:
            room = limit - number.get("used", 0) - number.get("more", 0)
            below = number.get("below", 1) - 1
            available = number.get("cap") or number.get("credit") or below or room
        elif requested * 2 > limit:
            available = requested // 2
        else:
            return None
        return available if 0 < available < _MOST_TOKENS else None

    @cached_property
    def parameter(self) -> str | None:
        """The parameter that the provider rejected, if it may be left out.

        A member of one is named with a dot before it (`reasoning.effort`), for it can be left out
        alone; what stands in a list cannot.
        """
        path = self._named_parameter()
        parts = [part for part in re.split(r"[.\[\]]+", path) if part and part not in _CONTAINERS]
        if not parts:
            return None
        if parts[0] in _FORMATS or ".".join(parts[:2]) in _FORMATS:
            return FORMAT_PARAMETER
        members = list(takewhile(str.isidentifier, parts))
        # under `text`, Responses keeps settings; elsewhere it is the question itself
        is_setting = parts[0] == "text" and len(members) > 1
        if parts[0] in _NEVER_DROPPED and not is_setting:
            return None
        return ".".join(members) or None

    def _named_parameter(self) -> str:
        """Return the path of the rejected parameter, from a field or the prose; "" for none."""
        for name in self.parameters:
            if _PARAMETER.fullmatch(name):
                return name
        for pattern in _NAMED:
            match = pattern.search(self.text)
            if match is not None:
                return match[1]
        return ""


def _word(value: object) -> str:
    """Return a value as text if it may be a code, otherwise \"\"."""
    if type(value) is int and abs(value) < 10**9:
        return str(value)
    if isinstance(value, str) and _CODE.fullmatch(value):
        return value
    return ""


def decoded_body(body: object) -> object:
    """Decode a body that holds JSON; return any other as it is."""
    if isinstance(body, (bytes, bytearray)):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body

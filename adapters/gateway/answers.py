"""What a program gets for the end of a call: an answer, or an error with the status that its SDK
understands.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from rungwise.adapters.gateway.languages.language import Completion, SpokenLanguage
from rungwise.adapters.gateway.statuses import FAULTS, LATE, LIMITED, failure_of, status_of, wait_of
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.run.result import CallError, Result, describe
from rungwise.fsm.replies.parts import (
    CommentaryPart,
    MediaPart,
    OpaquePart,
    ReasoningPart,
    ToolCall,
)
from rungwise.fsm.replies.text.contents import is_json

PREFIX: Final = "x-rungwise-"
"""How the names of our headers begin."""

_MAY_BE_KEY: Final = re.compile(r"[\w.~+/=-]{8,}")
"""A word that may be a key: eight or more of the letters that RFC 6750 allows in a token."""

LONGEST_HEADER: Final = 1_000
"""The most characters of a header that lists what was lost; servers refuse long ones."""


def ended(answer: Completion, result: Result, language: SpokenLanguage) -> Completion:
    """Return an answer with how its call ended, but for its text and reasoning."""
    refusal = ""
    if result.outcome == "refused" and result.reply is not None:
        refusal = _plain_text(result.reply.refusal or "")
    finish = None  # the one that fits
    if result.outcome == "partial":
        finish = "length"
    elif result.outcome == "refused" and not refusal:
        finish = "content_filter"
    return evolve(
        answer,
        tool_calls=tuple(map(_plain_call, result.tool_calls)),
        refusal=refusal,
        finish=finish,
        model=result.model or answer.model,
        usage=language.counts(result.usage),
        signature=_signature(result, answer.reasoning, language.api),
    )


def _plain_text(text: str) -> str:
    """Return a text that can be written as JSON: a lone half of a surrogate pair cannot."""
    return str(mended(text))


def _plain_call(call: ToolCall) -> ToolCall:
    """Return a tool call that can be written as JSON, without what only its provider reads."""
    return ToolCall(_plain_text(call.id), _plain_text(call.name), _plain_text(call.arguments))


def _signature(result: Result, reasoning: str, api: str) -> str | None:
    """Return the signature of the reasoning, for a program that can send it back; None if it has
    none, or several.

    Anthropic signs the text of the reasoning, Gemini the part beside it, such as the first tool
    call, Interactions and Responses a whole step or item.

    Arguments:
        result: of the call.
        reasoning: the text that the program gets.
        api: the protocol of the program. It can only use what a backend of that protocol signed.
    """
    own = f"{api}:"
    signatures: list[Any] = []
    for part in result.message.parts:
        if not isinstance(part, ReasoningPart) or not part.signature:
            continue
        if isinstance(part, CommentaryPart):
            continue
        is_of_text = api != "anthropic" or part.text == reasoning
        if part.provider.startswith(own) and is_of_text:
            signatures.append(part.signature)
    if api == "gemini":
        calls = [call for call in result.tool_calls if call.provider.startswith(own)]
        signatures += [call.extras for call in calls[:1]]
        signatures = signatures[-1:]
    if len(signatures) != 1:
        return None
    [signature] = signatures
    if isinstance(signature, Mapping):
        names = ("thoughtSignature", "encrypted_content", "signature")
        signature = next((signature[name] for name in names if signature.get(name)), None)
    return signature if isinstance(signature, str) else None


def text_of(result: Result, *, is_json_wanted: bool) -> str:
    """Return the text of a result.

    Where a program wants JSON and a model has put it into a fence, or into an object that we asked
    for, the text is the value alone.
    """
    if not is_json_wanted or result.value is None:
        return _plain_text(result.text)
    is_bare = is_json(result.text) and orjson.loads(result.text) == result.value
    return result.text if is_bare else orjson.dumps(result.value).decode()


def headers_of(
    result: Result | None, journal: str, *, is_forwarded: bool = False
) -> dict[str, str]:
    """Return our headers about a call.

    Arguments:
        result: of the call; None while it runs.
        journal: its id.
        is_forwarded: whether the answer is passed on word for word, and loses nothing.
    """
    headers = {f"{PREFIX}journal": journal}
    if result is None:
        return headers
    headers[f"{PREFIX}outcome"] = result.outcome
    headers[f"{PREFIX}attempts"] = str(result.attempts)
    headers[f"{PREFIX}backend"] = _ascii(result.backend)
    if result.cost is not None:
        headers[f"{PREFIX}cost"] = f"{result.cost:.6f}"
    lost: list[str] = []
    for losses in result.journal.setting.links.losses:
        lost += losses or ()
    if not is_forwarded:
        lost += _unwritten(result)
    return {**headers, **header_of_losses(lost)}


def _unwritten(result: Result) -> Iterator[str]:
    """Name what of an answer is neither text nor a call, and is not written."""
    for part in result.message.parts:
        if isinstance(part, MediaPart):
            yield f"{part.kind} in the answer: it has no form here"
        elif isinstance(part, OpaquePart) and part.is_answer:
            yield "a provider's own part of the answer: it has no form here"


def header_of_losses(losses: Iterable[str]) -> dict[str, str]:
    """Return the header that names what backends did not get; none if they got everything."""
    text = "; ".join(dict.fromkeys(losses))  # what several lose, once
    return {f"{PREFIX}lost": _ascii(text)[:LONGEST_HEADER]} if text else {}


def _ascii(text: str) -> str:
    """Return a text as a header may hold it, with question marks for other letters."""
    return text.encode("ascii", "replace").decode()


@frozen(eq=False)
class HttpResponse:
    """Hold what goes back: a body, or the pieces of one as they come."""

    status: int
    headers: Mapping[str, str]
    body: bytes | Iterator[bytes] | AsyncIterator[bytes]


@frozen
class Problem(Exception):
    """An error in the form of a protocol."""

    status: int
    fields: Mapping[str, Any]  # what the body says: at least a `message`

    @classmethod
    def saying(cls, status: int, message: str, **fields: Any) -> Problem:
        """Return a problem with a message."""
        return cls(status, {"message": message, **fields})

    @classmethod
    def of(cls, error: CallError, chain: Iterable[Any]) -> Problem:
        """Return what the error of a call is for a program.

        The status is that of the cause. A request at fault has the provider's own words.
        """
        result = error.result
        failure = failure_of(result)
        status = status_of(result)
        code = result.outcome
        if failure is not None and failure.code:
            code = without_keys(failure.code, chain)
        if failure is not None and failure.reason in FAULTS and 400 <= status < 500:
            message = without_keys(failure.message, chain) or describe(failure)
            return cls.saying(status, message, code=code)
        if status == LATE:
            code = "deadline_passed"
        causes: list[str | None] = []
        for name, each in result.failures:
            causes.append(f"{name}: {describe(each)}")
        about: dict[str, Any] = {"attempts": result.attempts, "causes": causes or [result.cause]}
        wait = wait_of(result)
        if wait is not None and (status == LIMITED or status >= 500):
            about["retry_after"] = wait
        return cls.saying(status, str(error), code=code, **about)

    def response(
        self, language: SpokenLanguage, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Return it as a response, which tells SDKs not to ask again."""
        about = {
            "content-type": "application/json",
            **(headers or {}),
            "x-should-retry": "false",
        }
        wait = self.fields.get("retry_after")
        if wait is not None:
            about["retry-after"] = str(wait)
        return HttpResponse(self.status, about, language.error(self.fields, self.status))

    def event(self) -> dict[str, Any]:
        """Return the error that ends a stream; for Responses it also has the member that SDKs raise
        for.
        """
        return {**self.fields, "error": dict(self.fields)}


def without_keys(text: str, chain: Iterable[Any]) -> str:
    """Return a provider's text without what may be a key of a backend: some providers repeat
    them.
    """
    checks = [each.is_secret for each in chain if hasattr(each, "is_secret")]

    def hidden(word: re.Match[str]) -> str:
        return "***" if any(is_secret(word[0]) for is_secret in checks) else word[0]

    return _MAY_BE_KEY.sub(hidden, text)

"""What a program gets for the end of a call: an answer, or an error with the status that its SDK
understands.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from rungwise.adapters.gateway.languages.language import Completion, SpokenLanguage
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.run.result import CallError, Result, describe
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.replies.parts import ReasoningPart, ToolCall
from rungwise.fsm.replies.text.contents import is_json

PREFIX: Final = "x-rungwise-"
"""How the names of our headers begin."""
BUSY: Final = "too_many_requests_at_once"
"""The code of a problem that passes by itself."""

_FAULTS: Final[tuple[Reason, ...]] = (
    "context_overflow",
    "payload_too_large",
    "output_cap",
    "prefill_unsupported",
    "parameter_unsupported",
    "reasoning_signature",
    "reasoning_missing",
    "content_policy",
    "format",
)
"""The failures that are the request's fault: the program gets the provider's own status and words.
"""


def ended(answer: Completion, result: Result, language: SpokenLanguage) -> Completion:
    """Return an answer with how its call ended, but for its text and reasoning."""
    calls = [
        ToolCall(*map(str, map(mended, (call.id, call.name, call.arguments))))
        for call in result.tool_calls
    ]
    is_refused = result.outcome == "refused"
    refusal = str(mended((result.reply and result.reply.refusal) or "")) if is_refused else ""
    return evolve(
        answer,
        tool_calls=tuple(calls),
        refusal=refusal,
        finish="length"
        if result.outcome == "partial"
        else "content_filter"
        if is_refused and not refusal
        else None,
        model=result.model or answer.model,
        usage=language.counts(result.usage),
        signature=_signature(result, answer.reasoning, language.api),
    )


def _signature(result: Result, reasoning: str, api: str) -> str | None:
    """Return the signature of the reasoning for a client that can send it back: the only one, of
    this protocol.

    Anthropic signs the text of the reasoning, Gemini the part beside it, and Responses a whole
    item.
    """
    own = f"{api}:"
    signed: list[Any] = [
        part.signature
        for part in result.message.parts
        if isinstance(part, ReasoningPart) and part.signature and part.provider.startswith(own)
        if api != "anthropic" or part.text == reasoning
    ]
    if api == "gemini":
        signed = [
            *signed,
            *[call.extras for call in result.tool_calls if call.provider.startswith(own)][:1],
        ][-1:]
    signature = signed[0] if len(signed) == 1 else None
    if isinstance(signature, Mapping):
        signature = signature.get("thoughtSignature") or signature.get("encrypted_content")
    return signature if isinstance(signature, str) else None


def text_of(result: Result, *, is_json_wanted: bool) -> str:
    """Return the text of a result; of a value that came in a fence or an object of ours, the
    value.
    """
    if is_json_wanted and result.value is not None:
        is_bare = is_json(result.text) and orjson.loads(result.text) == result.value
        return result.text if is_bare else orjson.dumps(result.value).decode()
    return str(mended(result.text))


def headers_of(result: Result | None, journal: str) -> dict[str, str]:
    """Return our headers about a call; None while it runs."""
    headers = {f"{PREFIX}journal": journal}
    if result is None:
        return headers
    headers[f"{PREFIX}outcome"] = result.outcome
    headers[f"{PREFIX}attempts"] = str(result.attempts)
    headers[f"{PREFIX}backend"] = result.backend.encode("ascii", "replace").decode()
    if result.cost is not None:
        headers[f"{PREFIX}cost"] = f"{result.cost:.6f}"
    if lost := dict.fromkeys(
        each for losses in result.journal.setting.links.losses for each in losses or ()
    ):
        headers[f"{PREFIX}lost"] = "; ".join(lost).encode("ascii", "replace").decode()[:1000]
    return headers


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

        A request at fault has the provider's own status and words. Anything else is 503, or 504
        where time ran out: what the chain does not bring, no retry of the program's brings either.
        """
        result = error.result
        faults = [
            each
            for _, each in result.failures
            if each.reason in _FAULTS and 400 <= (each.status or 0) < 500
        ]
        if faults and result.outcome in ("failed", "refused"):
            message = without_keys(faults[-1].message, chain) or describe(faults[-1])
            return cls.saying(faults[-1].status or 400, message, code=faults[-1].code)
        causes = [f"{name}: {describe(failure)}" for name, failure in result.failures]
        status, code = (504, "deadline_passed") if _is_late(result) else (503, result.outcome)
        return cls.saying(
            status, str(error), code=code, attempts=result.attempts, causes=causes or [result.cause]
        )

    def response(
        self, language: SpokenLanguage, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Return it as a response, which tells SDKs not to ask again."""
        about = {"content-type": "application/json", **(headers or {}), "x-should-retry": "false"}
        about |= {"retry-after": "1"} if self.fields.get("code") == BUSY else {}
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
    tell = [each.is_secret for each in chain if hasattr(each, "is_secret")]
    return re.sub(
        r"[\w.~+/=-]{8,}",
        lambda word: "***" if any(is_key(word[0]) for is_key in tell) else word[0],
        text,
    )


def _is_late(result: Result) -> bool:
    setting = result.journal.setting
    last = result.journal.last
    limits = (setting.policy.budget.seconds, setting.deadline, setting.within_deadline)
    limit = min((each for each in limits if each is not None), default=inf)
    return result.seconds >= limit or (
        last.event == "ran_out" and " begin after " in (last.note or "")
    )

"""Make a reply from what was gathered, or say why there is none: the same for every protocol.

A wire gathers a `Draft` from a body or a stream. `Draft.reply` decides whether that is a reply, a
reply that was cut, or a failure. Beside it are what every wire needs on the way: finish reasons,
counts of tokens, and what a body is that is no reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, frozen

from rungwise.adapters.wires.json_text import as_json, digest_of, is_heavy, load, mended
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.replies.failures.classify import classify_response
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import (
    Part,
    ToolCall,
    calls_of,
    final_text_of,
    reasoning_of,
    text_of,
)
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.values.usage import Usage

_LARGEST: Final = 10**12
"""The largest count of tokens that is believed."""
LONGEST_WORD: Final = 200
"""The most characters of a finish reason or a model's id that go into the journal."""

_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,60}")

# the most bytes of a body that is kept: its objects take many times as much memory
_RAW: Final = 2**16


def malformed(message: str) -> Failure:
    """Return the failure of a response of status 200 without a usable shape."""
    return Failure("malformed", status=200, message=message)


NO_END: Final = malformed("the stream has no end")
"""What cut a stream that is complete but has no end."""


def classified(status: int | None, headers: Mapping[str, str], body: bytes) -> Failure:
    """Classify a failed response; a body with more objects than any error has is ignored."""
    return classify_response(status, headers, b"" if is_heavy(body) else body)


def described(reply: Reply | Failure, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
    """Classify a body that is not a reply. The result never quotes the body."""
    if not isinstance(reply, Failure) or reply.reason != "malformed":
        return reply
    return evolve(reply, found=_kind_of(headers, body))


def _kind_of(headers: Mapping[str, str], body: bytes) -> str:
    """Name what a body is, in our own words and its media type."""
    if not body.strip():
        return "empty"
    if is_heavy(body):
        return "too much JSON"
    with suppress(ValueError):
        load(body)
        return "JSON of another shape"
    kind = ""
    for name, value in headers.items():
        if name.lower() == "content-type":
            kind = value.partition(";")[0].strip().lower()
            break
    if not _MEDIA_TYPE.fullmatch(kind):
        return "no JSON"
    if "json" in kind:
        return f"called {kind} and no JSON"
    return f"{kind} and no JSON"


def stop_of(raw: object, words: Mapping[str, StopReason]) -> tuple[StopReason | None, str | None]:
    """Return the finish reason and the provider's word for it.

    Arguments:
        raw: what the provider wrote.
        words: its words, in lower case and without gRPC's prefix, with what each means.
    """
    if raw is None or raw in ("", "null"):
        return None, None
    if not isinstance(raw, str):
        return "unknown", as_json(raw)[:LONGEST_WORD]
    raw = str(mended(raw[:LONGEST_WORD]))
    word = known_word(raw, words)
    if word is not None:
        return words[word], raw
    # what is a refusal as the code of an error is one here, too
    refuses = classify_response(None, {}, {"code": raw}).reason == "content_policy"
    return "content_filter" if refuses else "unknown", raw


COMMON: Final[Mapping[str, StopReason]] = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
}
"""Words that mean one thing in every protocol, and that gateways leave as they found them."""
_CUTS: Final = ("length", "content_filter", "overflow", "error")
_CLEAN: Final = ("stop", "tool_calls")


def known_word(raw: str, words: Mapping[str, StopReason]) -> str | None:
    """Return the word in a finish reason that decides; None if nobody knows what it means.

    Some put a second word behind a colon, and either may be the known one: Gemini's compatible
    endpoint writes `function_call_filter: MALFORMED_FUNCTION_CALL`. A word for a cut or a refusal
    decides, whatever stands beside it. One for a clean end does not: what nobody knows beside it
    may take it back.

    Arguments:
        raw: what the provider wrote.
        words: as for `stop_of`.
    """
    if raw in words:  # as nearly always
        return raw
    said = []
    for each in (raw, *raw.split(":")):
        # as enumerations begin: gRPC's, and Python's where one is written out
        word = each.strip().lower().rpartition(".")[2]
        word = word.removeprefix("finish_").removeprefix("reason_")
        said.append(word)
    if said[0] in words:
        return said[0]
    parts = said[1:]
    for word in parts:
        if words.get(word) in _CUTS:
            return word
    if all(word in words for word in parts):
        return parts[-1]
    return None


def settled(earlier: object, later: object, words: Mapping[str, StopReason]) -> object:
    """Return the later of two finish reasons of one stream, unless it is a clean or unknown end
    after a cut.

    Some proxies end every stream with a clean reason of their own, after the server's. `words` are
    as for `stop_of`.
    """
    is_cut = earlier is not None and stop_of(earlier, words)[0] in _CUTS
    if is_cut and stop_of(later, words)[0] in (*_CLEAN, "unknown"):
        return earlier
    return later


NATIVE: Final = "native_finish_reason"  # of OpenRouter [reVrost/go-openrouter#43]

NAMES: Final = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason")
"""The names of a finish reason in all protocols."""


def finish_in(value: Mapping[str, Any], name: str, words: Mapping[str, StopReason]) -> object:
    """Return the finish reason in an object, by its name here or in other protocols."""
    own = value.get(name)
    if own is None:
        named = [value[each] for each in NAMES if each in value]
        own = next((each for each in named if each is not None), None)
    if own is None:
        # gpt-4-vision-preview's, and that of gateways which were written for it
        details = value.get("finish_details")
        own = details.get("type") if isinstance(details, dict) else None
    return decisive(own, value.get(NATIVE), words)


def decisive(own: object, native: object, words: Mapping[str, StopReason]) -> object:
    """Return the finish reason of a gateway, or that of the server behind it if that says more.

    A gateway may say `stop` where the server has cut or refused; and its word may be one that
    nobody knows while the server's is known. Without a word of its own, nothing has ended.

    Arguments:
        own: what the gateway says.
        native: what the server said; None if that is not passed on.
        words: as for `stop_of`.
    """
    if native is None:
        return own
    own_reason = stop_of(own, words)[0]
    native_reason = stop_of(native, words)[0]
    is_worse = own_reason in _CLEAN and native_reason in _CUTS
    is_known = own_reason == "unknown" and native_reason not in (None, "unknown")
    return native if is_worse or is_known else own


def count_of(value: object) -> int:
    """Return a count of tokens, which may be written as text; 0 for anything else."""
    if isinstance(value, str) and len(value) < 16 and value.isdecimal():
        value = int(value)
    if type(value) in (int, float) and 0 < value <= _LARGEST and value == int(value):  # type: ignore[operator, call-overload]
        return int(value)  # type: ignore[call-overload, no-any-return]
    return 0


def beyond(total: int, counted: int) -> int:
    """Return the tokens that only the total of a report shows.

    They were written and are paid for: some gateways count thoughts nowhere else
    [mozilla-ai/any-llm#1290].
    """
    return max(0, total - counted)


_MOST_COUNTS: Final = 100


def grown(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a usage report with a later one.

    Counts only grow: tokens that the later one omits, or sets to zero, were used all the same. One
    that it lowers may have moved under another name; `more_of` looks at what the names mean.
    """
    if len(earlier) > _MOST_COUNTS:
        return dict(later)
    merged = {**later, **earlier}
    for name, value in later.items():
        if count_of(value) or (value and isinstance(value, dict | list | float | str)):
            merged[name] = value
    return merged


def at_least(usage: Usage, parts: Sequence[Part]) -> Usage:
    """Return the tokens of a reply whose end the provider did not count.

    They are at least an estimate of what came.
    """
    estimate = estimated(text_of(parts), reasoning_of(parts), calls_of(parts))
    output = max(usage.output_tokens, estimate.output_tokens)
    reasoning = min(output, max(usage.reasoning_tokens, estimate.reasoning_tokens))
    return evolve(
        usage,
        output_tokens=output,
        reasoning_tokens=reasoning,
        estimated=True,
    )


def raw_of(value: object, body: bytes) -> object:
    """Return a body for diagnosis, or None if it is too large."""
    if len(body) > _RAW:
        return None
    try:
        return mended(value) if b"\\u" in body else value
    except RecursionError:
        return None


@frozen(kw_only=True)
class Draft:
    """Hold what a provider sent of a reply, whole or in a stream."""

    parts: Sequence[Part]  # the parts, in order, without halves of surrogate pairs
    # The normalised finish reason and the provider's own word for it; see `stop_of`.
    stop: tuple[StopReason | None, str | None]
    # the tokens that the provider counted; None estimates them from the parts
    usage: Usage | None = None
    model: object = None  # the model that answered, as the provider says
    refusal: str = ""  # the text of a refusal
    is_ordered: bool = True  # whether the parts are in the order in which the model wrote them
    # what distinguishes this reply from others, for the ids of calls that have none
    about: object = None
    made_up: str = "call_"  # how such ids begin

    def reply(
        self,
        *,
        error: Failure | None = None,
        cut: bool = False,
        cause: Failure | None = None,
        raw: object = None,
    ) -> Reply | Failure:
        """Make the reply, or a failure if an error left nothing of it.

        Arguments:
            error: what the provider reported within the reply.
            cut: whether it broke off before its end.
            cause: what cut it, if that is known.
            raw: the body, for diagnosis.
        """
        draft = self
        if self.stop[0] == "error" and not error:
            message = "the provider gave the reply up"
            error = Failure(
                "server_error",
                status=200,
                code=self.stop[1],
                message=message,
            )
            has_text = text_of(self.parts) != ""
            if not (has_text or self.refusal or self.usage):
                return error
            if not has_text:
                # a call that the provider gave up must not be run
                parts = [part for part in self.parts if not isinstance(part, ToolCall)]
                draft = evolve(self, parts=parts)
        if cut and not error and cause and cause.reason == "malformed":
            error = cause  # what cannot be read is the provider's own doing
        if error and not (draft._has_content or self.refusal or self.usage):
            return error
        failure = error
        if cut and not error:
            failure = cause
        return draft._written(failure, interrupted=cut or error is not None, raw=raw)

    @property
    def _has_content(self) -> bool:
        return bool(text_of(self.parts) or reasoning_of(self.parts) or calls_of(self.parts))

    def _identified(self, *, interrupted: bool) -> tuple[Part, ...]:
        """Return the parts with a unique id for each tool call, as results refer to it.

        A call that came twice, with its id, is one [HKUDS/nanobot#4443, rynfar/meridian#73]; and
        one that brought no arguments in a reply that is whole has an empty object.
        """
        taken: set[str] = set()
        delivered: set[tuple[str, str, str]] = set()
        ends = ("stop", "tool_calls") if interrupted else (None, "stop", "tool_calls")
        is_whole = self.stop[0] in ends
        digest = ""
        unique: list[Part] = []
        for part in self.parts:
            if isinstance(part, ToolCall):
                if is_whole and not part.arguments.strip():
                    part = evolve(part, arguments="{}")
                call = (part.id, part.name, part.arguments)
                if part.id.strip() and call in delivered:
                    continue
                delivered.add(call)
                if not part.id.strip() or part.id in taken:
                    # once: it may be as long as the calls are many
                    digest = digest or digest_of(self.about)
                    made_up = digest_of([digest, len(taken), part.name, part.arguments])
                    part = evolve(part, id=f"{self.made_up}{made_up[:24]}")
                taken.add(part.id)
            unique.append(part)
        return tuple(unique)

    def _written(
        self,
        failure: Failure | None,
        *,
        interrupted: bool,
        raw: object,
    ) -> Reply:
        """Make the reply."""
        parts = self._identified(interrupted=interrupted)
        text = text_of(parts)
        final_text = None
        if self.is_ordered:
            final_text = final_text_of(parts)
        reasoning = reasoning_of(parts)
        calls = calls_of(parts)
        usage = self.usage
        # nobody writes that with no tokens
        if usage is not None and not usage.output_tokens and self._has_content:
            usage = at_least(usage, parts)
        model = None
        if isinstance(self.model, str):
            model = mended(self.model[:LONGEST_WORD])
        return Reply(
            text=text,
            final_text=final_text,
            parts=parts,
            tool_calls=calls,
            usage=usage or estimated(text, reasoning, calls),
            model=model,
            interrupted=interrupted,
            reasoning=reasoning,
            stop_reason=self.stop[0],
            stop_raw=self.stop[1],
            refusal=self.refusal or None,
            failure=failure,
            raw=raw,
        )


def estimated(text: str, reasoning: str, calls: Iterable[ToolCall]) -> Usage:
    """Estimate the tokens of a reply: a quarter of its bytes, rounded up."""
    thought = bytes_of(reasoning)
    rest = bytes_of(text) + sum(bytes_of(call.arguments) for call in calls)
    return Usage(
        output_tokens=-(-(thought + rest) // 4), reasoning_tokens=-(-thought // 4), estimated=True
    )

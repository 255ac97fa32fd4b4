"""Read replies of generateContent, whole or as a stream of objects of the same form.

Each object of a stream holds the parts that are new, and counts that are totals so far. Parts have
no index: text goes on with the last block of its kind, and anything else, a signature included,
begins a new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import (
    Draft,
    at_least,
    finish_in,
    grown,
    malformed,
    raw_of,
    settled,
    stop_of,
)
from rungwise.adapters.wires.gemini.calls import GatheredCall, call_in, forget, listed
from rungwise.adapters.wires.gemini.reply import (
    ABOUT,
    ENDS,
    EVENTS,
    STOP_REASONS,
    Checkpoint,
    TextBlock,
    aside_of,
    blocks_of,
    failure_of,
    going_on,
    is_again,
    is_thought,
    is_usage,
    own_candidates,
    parts_of,
    usage_of,
)
from rungwise.adapters.wires.gemini.shapes import MADE_UP
from rungwise.adapters.wires.json_text import as_json, load, mended
from rungwise.adapters.wires.plain.parts import text_in
from rungwise.adapters.wires.provider_data import (
    Aside,
    copy_if_sendable,
    grounding_of,
    media_parts,
    size_of,
)
from rungwise.adapters.wires.reading.alike_lines import AlikeLines, Piece
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import (
    OpaquePart,
    Part,
    ReasoningPart,
    reasoning_of,
    text_of,
)
from rungwise.fsm.replies.reply import Reasoning, Reply, Text

_COUNT: Final = re.compile(rb'okenCount": ?\d+')
"""The counts that differ in each event's usage."""
_TEXT: Final[Kind] = (Text, None)
_THOUGHT: Final[Kind] = (Reasoning, None)
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data")
_MOST_PARTS: Final = 100_000
"""No reply has as many parts; each takes some 40 times the memory of its bytes."""
_WEIGHT: Final = 300
"""The bytes that a block counts for, without its text."""


@define(eq=False, repr=False)
class GeminiDecoder(StreamDecoder):
    """Gather one reply from GenerateContentResponse objects; `StreamDecoder` does the rest."""

    EVENTS = BODIES = EVENTS

    _events: EventReader = field(init=False)
    _order: list[TextBlock | GatheredCall | Part] = field(factory=list, init=False)
    _calls: int = field(default=0, init=False)  # so far
    _open: type[Text] | type[Reasoning] | None = field(default=None, init=False)
    """The kind of the open block; None if the next piece must begin another one."""
    _place: Kind = field(default=_TEXT, init=False)  # of its text in the assembly
    _usage: Mapping[str, Any] = field(factory=dict, init=False)
    _most: Any = field(default=None, init=False)  # that any report has counted
    _last: Any = field(default=None, init=False)  # what the last one has counted
    _model: Any = field(default=None, init=False)
    _id: Any = field(default=None, init=False)
    _finish: Any = field(default=None, init=False)  # the provider's word for why it ended
    _message: str = field(default="", init=False)  # what the provider says about that
    _is_blocked: bool = field(default=False, init=False)  # whether the prompt was refused
    _pieces: list[tuple[str, Mapping[str, Any]]] = field(factory=list, init=False)  # of calls
    _checkpoint: Checkpoint | None = field(default=None, init=False)
    _aside: Aside = field(factory=Aside, init=False)

    def _make_reader(self) -> EventReader:
        self._events = EventReader(ignores_names=True, alike=AlikeLines(_COUNT))
        return self._events

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text of an event that holds one piece of it and nothing else but counts.

        The counts are recorded. None if there may be more.
        """
        try:
            (candidate,) = value["candidates"]
            content = candidate["content"]
            (part,) = content["parts"]
            text = part["text"]
        except (KeyError, ValueError, TypeError):
            return None
        if type(text) is not str or not text or not value.keys() <= ABOUT:
            return None
        # Each has one other member at most, and that is known; this is quicker than to compare
        # sets.
        if len(candidate) > 1 and (len(candidate) > 2 or candidate.get("index") != 0):
            return None
        if len(content) > 1 and (len(content) > 2 or content.get("role", "tool") in FOREIGN_ROLES):
            return None
        id = value.get("responseId")
        if id == self._origin.id:
            self._origin.lasts = True
        elif id and type(id) is str and not self._origin.says_nothing:
            return None
        kind = _TEXT
        if len(part) > 1:
            if len(part) > 2 or not is_thought(part):
                return None
            kind = _THOUGHT
        self._note_last()
        self._note(value)
        return kind, text

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the text or of the reasoning, for the open block or a new one."""
        if kind[0] is not self._open:
            self._begin(kind[0])
        self.assembly.piece(self._place, text)

    def _begin(self, kind: type[Text] | type[Reasoning], signature: Any = None) -> None:
        """Begin a block of text."""
        self._place = (kind, len(self._order))
        self._order.append(TextBlock(self._place, signature))
        self.assembly.held += _WEIGHT
        self._open = kind

    def _note_last(self) -> None:
        """Record the counts of the last event that was not parsed."""
        if last := self._events.take_last_alike():
            self._note(load(last.removeprefix(b"data:")))

    def _note(self, value: Mapping[str, Any]) -> None:
        """Record what an object says of the whole reply; its counts are totals so far."""
        if not self.started:
            self.started = True
            self._model = value.get("modelVersion")
            self._id = value.get("responseId")
        if is_usage(value.get("usageMetadata")):
            self._report(value["usageMetadata"])

    def _report(self, usage: Mapping[str, Any]) -> None:
        """Take a report of the tokens so far."""
        self._last = usage_of(usage, ())
        self._most = more_of(self._most, self._last)
        self._usage = grown(self._usage, usage)

    def take_event(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take any other object."""
        self._note_last()
        self.take_id(value.get("responseId"))
        if is_error or value.get("error"):
            self.take_error(data)
            return
        feedback = value.get("promptFeedback")
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if reason:
            self._finish = reason
            self._is_blocked = True
            self.done = True
            self._note(value)
            self._message = text_in(feedback, "blockReasonMessage")
        own, letters = own_candidates(value)
        self.letters_beside += letters
        if own:
            self._note(value)
        elif is_usage(value.get("usageMetadata")):
            self._report(value["usageMetadata"])
        for candidate in own:
            self._take_candidate(candidate, value)

    def _take_candidate(self, candidate: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        """Take what is new of the reply: its parts, its end, and what comes besides."""
        finish = finish_in(candidate, "finishReason", ENDS)
        finish = finish or finish_in(value, "finishReason", ENDS)
        parts = blocks_of(candidate)
        calls = [call for call in map(call_in, parts) if call is not None]
        # any other number needs no look at the whole reply
        if finish and len(calls) == self._calls > 0 and is_again(parts, self.parts()):
            parts = []
        elif self._lists.is_all(calls, listed):
            forget(self._order)
            self._pieces.clear()
            self._calls = 0
            self.assembly.unshown = 0
        for part in parts:
            if len(self._order) >= _MOST_PARTS:
                self.take_broken()
                return
            self._take_part(part)
        if finish and not self._is_blocked:
            self.take_finish()
            self._finish = settled(self._finish, finish, ENDS)
            self.done = True
            self._message = text_in(candidate, "finishMessage") or self._message
        if token := text_in(candidate, "continuationToken", "continuation_token"):
            self._checkpoint = self._here(token)
        self.assembly.held += self._aside.take(aside_of(candidate))

    def _here(self, token: str) -> Checkpoint:
        """Return how far the reply has come, for a token from which it can go on."""
        self.assembly.flush()
        letters = self.assembly.text_at(self._place).size
        return Checkpoint(token, len(self._order), letters, len(self._pieces))

    def _take_part(self, part: Mapping[str, Any]) -> None:
        """Take a part of any kind."""
        spoken: Any = part.get("audioTranscription") or part.get("audio_transcription")
        if text_in(spoken, "text"):
            part = {"text": spoken["text"]}
        text = part.get("text")
        call = call_in(part)
        if call is not None:
            if text and isinstance(text, str):
                self._take_part({"text": text, "thought": part.get("thought")})
            rest = {name: each for name, each in part.items() if name not in ("text", "thought")}
            self._take_call(rest, call)
        elif isinstance(text, str) and is_thought(part):
            self._take_thought(text, part)
        elif isinstance(text, str):
            rest = {name: each for name, each in part.items() if name not in ("text", "thought")}
            self._take_text(text, rest)
        elif part:
            self._take_other(part)

    def _take_text(self, text: str, members: Mapping[str, Any]) -> None:
        """Take a piece of text; with other members, it is signed.

        What is signed is a part of its own, and goes back as one.
        """
        if not members:
            if text:
                self.take_piece(_TEXT, text)
        elif text:
            self._keep_members(members)
            self.take_piece(_TEXT, text)
            self._open = None
        else:
            self._keep_members({"text": "", **members})

    def _take_thought(self, text: str, part: Mapping[str, Any]) -> None:
        """Take a piece of reasoning; with a signature, it is a block of its own."""
        signature = text_in(part, "thoughtSignature")
        if not signature:
            if text:
                self.take_piece(_THOUGHT, text)
            return
        self.assembly.held += len(signature)
        self._begin(Reasoning, signature)
        if text:
            self.assembly.piece(self._place, text)
        self._open = None

    def _take_call(self, part: Mapping[str, Any], piece: Mapping[str, Any]) -> None:
        """Take the `functionCall` in a part: a call, or the next piece of the last one."""
        last = self._order[-1] if self._order else None
        size = size_of(piece)
        self._pieces.append((self.provider, part))
        self.assembly.unshown += len(text_in(piece, "name"))
        if piece.get("args"):
            self.assembly.unshown += len(as_json(piece["args"]))
        if isinstance(last, GatheredCall) and last.goes_on_with(piece):
            self.assembly.unshown -= last.letters
            last.take(piece)
            self.assembly.unshown += last.letters
            self.assembly.held += size
            return
        if not piece:
            return  # the end of a call that is over
        self._calls += 1
        call = GatheredCall.of(part, piece)
        self.assembly.unshown += call.letters
        self._keep(call, part)

    def _take_other(self, part: Mapping[str, Any]) -> None:
        """Take a picture or a file; anything else stays unchanged, such as code that ran."""
        media: list[Part] = []
        if not is_thought(part):
            media = media_parts(part, self.provider)
        rest = {name: each for name, each in part.items() if name not in _MEDIA}
        if media and 0 < len(rest) < len(part):
            self._keep_members(rest)
        if not media:
            self.letters_beside += len(as_json(part))
            block = copy_if_sendable(part)
            media = [] if block is None else [OpaquePart(self.provider, block)]
        for each in media:
            self._keep(each, part)

    def _keep_members(self, members: Mapping[str, Any]) -> None:
        """Keep the members of the part that follows, or a part without text."""
        copy = copy_if_sendable(members)
        self._open = None
        if copy is not None:
            self._keep(ReasoningPart("", copy, self.provider), members)

    def _keep(self, part: GatheredCall | Part, raw: Any) -> None:
        """Append a part that is no text; `raw` is what it was made of."""
        self._open = None
        self._order.append(part)
        self.assembly.held += _WEIGHT + size_of(raw)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, in order."""
        return parts_of(self._order, self.assembly.text_of, self.provider)

    def reply(self, *, is_cut: bool, cause: Failure | None, raw: object = None) -> Reply | Failure:
        """Put the reply together.

        Arguments:
            is_cut: whether it broke off before its end.
            cause: what cut it, if that is known.
            raw: the body, for diagnosis; None takes what came besides the reply.
        """
        self._note_last()
        reason, word = stop_of(self._finish, STOP_REASONS)
        if self._is_blocked:
            reason = "content_filter"  # whatever the word
        message = str(mended(self._message))
        error = self.error or failure_of(word, message)
        parts = (*self.parts(), *grounding_of(self._aside.members, self.provider))
        checkpoint = self._checkpoint
        if checkpoint and not is_cut:  # a whole reply ends in its token
            is_at_end = checkpoint == self._here(checkpoint.token)
            checkpoint = checkpoint if is_at_end and reason == "length" else None
        if checkpoint:
            parts = tuple(checkpoint.before(parts))
        usage = more_of(self._most, usage_of(self._usage, parts))
        # an earlier report counted the answer up to there
        if usage is not None and not (self._last and self._last.output_tokens):
            usage = at_least(usage, parts)
        about = [self._id, self._model, self._usage, text_of(parts), reasoning_of(parts)]
        draft = Draft(
            parts=parts,
            stop=(reason, word),
            usage=usage,
            model=self._model,
            refusal=message if reason == "content_filter" else "",
            about=about,
            made_up=MADE_UP,
        )
        if raw is None and self._aside.members:
            raw = {"candidates": [self._aside.members]}
        reply = draft.reply(error=error, cut=is_cut, cause=cause, raw=raw)
        if isinstance(reply, Failure):
            return reply
        return going_on(reply, self._pieces, checkpoint)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read a whole body that is one object."""
        return self._read([value], body, value)

    def read_other(self, value: object, body: bytes) -> Reply | Failure:
        """Read a whole body, which may be a list of the objects of a stream."""
        return self._read(value if isinstance(value, list) else [], body, value)

    def _read(self, objects: Sequence[object], body: bytes, value: object) -> Reply | Failure:
        """Read the objects of a whole body, whose JSON is `value`."""
        # this one may have begun to read a stream
        reader = GeminiDecoder(self.headers, self.provider)
        for each in objects:
            if not isinstance(each, dict) or reader.finished:
                continue
            data = b""  # only read for an error
            if "error" in each:
                data = body if len(objects) == 1 else as_json(each).encode()
            reader.take_value(each, data, is_error=False)
        if not reader.started and not reader.error and not reader._usage:
            return malformed("the body has no usable candidate")
        return reader.reply(is_cut=False, cause=None, raw=raw_of(value, body))

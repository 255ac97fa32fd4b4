"""OpenAI's Responses.

A stream is a list of named server-sent events with a `sequence_number`. `response.created` has an
empty response. Then each item of the output (reasoning, the message, a call) is added, grows and is
done, with its id and its `output_index` in every event; the parts of the message likewise, with a
`content_index`. The last event has the whole response and says how it ended: `completed`,
`incomplete`, `failed`. Pieces are padded with `obfuscation`, so that their lengths tell nothing,
unless the request turns that off.

Source: platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.chat import LANGUAGE as CHAT
from rungwise.adapters.gateway.languages.language import (
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    event,
)
from rungwise.adapters.gateway.languages.response_parts import (
    COMMENTARY,
    MESSAGE,
    REASONING,
    Item,
    commentary_of,
    counts_of,
    ended,
    error_of,
    message_of,
    output_of,
    part_of,
    reasoning_of,
    response_of,
)
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

_CHUNK: Final = 16  # characters that padding makes a piece a multiple of
_EMPTY: Final[Mapping[str, tuple[str, Any]]] = {
    MESSAGE: ("content", []),
    COMMENTARY: ("content", []),
    REASONING: ("summary", []),
}
"""What an item that begins has nothing of yet; a call has no arguments."""
_TEXTS: Final = {"output_text": "text", "refusal": "refusal"}
"""The member of each kind of part that holds its text."""


class _Responses(SpokenLanguage):
    """Write answers as responses, whose errors and usage look as those of chat completions do."""

    api = "responses"
    paths = "/responses"
    has_phases = True
    conversation = "input"
    caps = ("max_output_tokens",)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error, which is that of chat completions."""
        return CHAT.error(fields, status)

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return the usage under the names of this protocol."""
        return counts_of(usage)

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of a response that is not streamed: the event that would end a stream."""
        output = list(output_of(answer, request).values())
        return orjson.dumps(ended(answer, request, output))

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write a response that is streamed."""
        return _ResponseStream(request, answer)


class _ResponseStream(AnswerStream):
    """Write a response item by item; reasoning whose signature is not known yet is done at the
    end.
    """

    def __init__(self, request: AnswerRequest, answer: Completion) -> None:
        super().__init__(request, answer)
        self._number = 0
        self._places: dict[str, Item] = {}  # by the key of an item, in their order
        # the key of the item that is open, and of those that are done at the end
        self._open = ""
        self._late: list[str] = []
        self._parts: list[str] = []  # of the message
        options = mapping_of(request.body.get("stream_options"))
        self._pads = options.get("include_obfuscation") is not False

    def begin(self) -> Iterator[bytes]:
        """Write the two events that begin every response; neither has an item yet."""
        begun = {**response_of(self.answer, self.request), "status": "in_progress"}
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Add reasoning: a text of the summary, the only form in which OpenAI shows it."""
        if REASONING not in self._places:
            yield from self._begin(REASONING)
            yield self._event(
                "response.reasoning_summary_part.added",
                **self._summary,
                part={"type": "summary_text", "text": ""},
            )
        yield self._delta("reasoning_summary_text", piece, self._summary)

    def commentary(self, piece: str) -> Iterator[bytes]:
        """Add commentary: a message of its own, which is done at the end."""
        if COMMENTARY not in self._places:
            yield from self._begin(COMMENTARY)
            part = {**part_of("output_text", Completion()), "text": ""}
            yield self._event("response.content_part.added", **self._comment, part=part)
        yield self._delta("output_text", piece, self._comment)

    def text(self, piece: str) -> Iterator[bytes]:
        """Add text to the message, in a part of its own kind."""
        yield from self._begin_part("output_text")
        yield self._delta("output_text", piece, self._place_of_part)

    def refusal(self, pieces: Iterable[str]) -> Iterator[bytes]:
        """Add a refusal to the message, in a part of its own kind."""
        for piece in pieces:
            yield from self._begin_part("refusal")
            yield self._delta("refusal", piece, self._place_of_part)

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Add an item for a call; its key is the one that `output_of` gives it."""
        number = sum(each.startswith("call") for each in self._places)
        key = f"call {number}"
        yield from self._begin(key)
        for piece in pieces:
            yield self._delta("function_call_arguments", piece, self._places[key])

    def end(self) -> Iterator[bytes]:
        """End the response: what never came in pieces, reasoning that waited for its signature, and
        the whole of it.
        """
        answer = self.answer
        if answer.error_event is not None:
            yield self._event("error", **{"param": None, **error_of(answer.error_event)})
            return
        yield from self._close()
        for key, item in output_of(answer, self.request).items():
            if key not in self._places:  # such as a text that never came
                yield from self._begin(key)
                for part in item.get("content", ()):
                    yield from self._begin_part(part["type"])
                yield from self._close()
        for key in self._late or [self._open]:
            if key:
                yield from self._done(key)
        items = output_of(answer, self.request)
        output = [items[key] for key in self._places if key in items]
        response = ended(answer, self.request, output)
        status = response["status"]
        if answer.done and status is not None:
            name = status if status in ("completed", "failed", "cancelled") else "incomplete"
            yield self._event(f"response.{name}", response=response)

    @property
    def _summary(self) -> Item:
        """Return the members that say which text of reasoning an event is of."""
        return {**self._places[REASONING], "summary_index": 0}

    @property
    def _comment(self) -> Item:
        """Return the members that say which text is commentary."""
        return {**self._places[COMMENTARY], "content_index": 0}

    @property
    def _place_of_part(self) -> Item:
        """Return the members that say which part of the message an event is of."""
        return {**self._places[MESSAGE], "content_index": len(self._parts) - 1}

    def _event(self, name: str, /, **members: Any) -> bytes:
        """Write an event with its number."""
        written = event(
            {
                "type": name,
                "sequence_number": self._number,
                **members,
            },
            name,
        )
        self._number += 1
        return written

    def _delta(
        self,
        name: str,
        piece: str,
        where: Item,
    ) -> bytes:
        """Write a piece of a text, which belongs where `where` says."""
        members: Item = {**where, "delta": piece}
        if name == "output_text":
            members["logprobs"] = []
        if self._pads:
            members["obfuscation"] = "x" * (-len(piece) % _CHUNK)
        return self._event(f"response.{name}.delta", **members)

    def _begin(self, key: str) -> Iterator[bytes]:
        """Begin an item, unless it is open."""
        if self._open == key:
            return
        # The signature is that of reasoning without a text.
        if key != REASONING and not self._places and self.answer.signature:
            yield from self._begin(REASONING)
        yield from self._close()
        item = self._item(key)
        index = len(self._places)
        self._places[key] = {"item_id": item["id"], "output_index": index}
        self._open = key
        begun = {name: value for name, value in item.items() if name != "encrypted_content"}
        member, empty = _EMPTY.get(key, ("arguments", ""))
        begun[member] = empty
        if "status" in item:
            begun["status"] = "in_progress"
        yield self._event("response.output_item.added", output_index=index, item=begun)

    def _begin_part(self, kind: str) -> Iterator[bytes]:
        """Begin a part of the message, unless the last one is of its kind."""
        yield from self._begin(MESSAGE)
        if self._parts[-1:] != [kind]:
            yield from self._close_part()
            self._parts.append(kind)
            part = {**part_of(kind, self.answer), _TEXTS[kind]: ""}
            yield self._event("response.content_part.added", **self._place_of_part, part=part)

    def _close_part(self) -> Iterator[bytes]:
        """End the last part of the message, if it has any."""
        if not self._parts:
            return
        kind = self._parts[-1]
        where = self._place_of_part
        part = part_of(kind, self.answer)
        member = _TEXTS[kind]
        done: Item = {**where, member: part[member]}
        if member == "text":
            done["logprobs"] = []
        yield self._event(f"response.{kind}.done", **done)
        yield self._event("response.content_part.done", **where, part=part)

    def _close(self) -> Iterator[bytes]:
        """End the item that is open; reasoning without a signature stays for the end."""
        key = self._open
        self._open = ""
        if key == COMMENTARY or (key == REASONING and self.answer.signature is None):
            self._late.append(key)
        elif key:
            yield from self._done(key)

    def _done(self, key: str) -> Iterator[bytes]:
        """Write the events that end an item."""
        item = self._item(key)
        place = self._places[key]
        if key == MESSAGE:
            yield from self._close_part()
        elif key == COMMENTARY:
            [part] = item["content"]
            done = {"text": part["text"], "logprobs": []}
            yield self._event("response.output_text.done", **self._comment, **done)
            yield self._event("response.content_part.done", **self._comment, part=part)
        elif key == REASONING:
            for part in item["summary"]:
                yield self._event(
                    "response.reasoning_summary_text.done", **self._summary, text=part["text"]
                )
                yield self._event(
                    "response.reasoning_summary_part.done", **self._summary, part=part
                )
        else:
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **place, **done)
        yield self._event(
            "response.output_item.done", output_index=place["output_index"], item=item
        )

    def _item(self, key: str) -> Item:
        """Return an item, as far as the answer is known."""
        if key == REASONING:
            return reasoning_of(self.answer, self.request)
        if key == COMMENTARY:
            return commentary_of(self.answer, self.request)
        if key == MESSAGE:
            return message_of(self.answer, self.request)
        return output_of(self.answer, self.request)[key]


LANGUAGE: Final = _Responses()

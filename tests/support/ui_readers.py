"""Readers of the protocols of user interfaces, as strict as the official ones: what a user has on
the screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import define, field


def frames_in(data: bytes) -> Iterator[dict[str, str]]:
    """Yield the whole frames of a body as their fields; what follows the last of them was cut
    off.
    """
    *frames, _ = data.decode(errors="ignore").split("\n\n")
    for frame in frames:
        lines = [line.partition(": ") for line in frame.split("\n") if not line.startswith(":")]
        if lines:
            yield {name: value for name, _, value in lines}


def last_text(texts: list[str]) -> str:
    """Return the last text that shows anything."""
    return next((text for text in reversed(texts) if text.strip()), "")


@define
class SseReader:
    """Read plain server-sent events, and resume by the id of the last one."""

    texts: list[str] = field(factory=lambda: [""])
    reasoning: str = ""
    tools: dict[str, Any] = field(factory=dict)
    steps: list[dict[str, Any]] = field(factory=list)
    value: Any = None
    last_id: int = 0
    end: tuple[str, dict[str, Any]] | None = None

    def feed(self, data: bytes) -> SseReader:
        for frame in frames_in(data):
            assert self.end is None, f"{frame} follows the end"
            assert int(frame["id"]) == self.last_id + 1, frame
            self.last_id += 1
            self._take(frame["event"], json.loads(frame["data"]))
        return self

    def _take(self, name: str, data: dict[str, Any]) -> None:
        match name:
            case "text":
                self.texts[-1] += data["text"]
            case "discard":
                assert self.texts[-1].endswith(data["text"])
                self.texts[-1] = self.texts[-1][: len(self.texts[-1]) - len(data["text"])]
            case "reasoning":
                self.reasoning += data["text"]
            case "value":
                self.value = data["value"]
            case "tool":
                self.tools.setdefault(data["id"], {}).update(data)
            case "step":
                self.steps.append(data)
                if (data["of"], data["event"]) == ("turn", "tools_ran"):
                    self.texts.append("")
            case "result" | "error":
                self.end = name, data
            case _:
                raise AssertionError(name)

    @property
    def text(self) -> str:
        return last_text(self.texts)


@define
class VercelReader:
    """Read a UI message stream as `readUIMessageStream` of npm's `ai` does."""

    id: str = ""
    parts: list[dict[str, Any]] = field(factory=list)
    open: dict[str, dict[str, Any]] = field(factory=dict)
    seen: list[dict[str, Any]] = field(factory=list)
    error: str | None = None
    finish: dict[str, Any] | None = None
    is_done: bool = False

    def feed(self, data: bytes) -> VercelReader:
        for frame in frames_in(data):
            assert not self.is_done
            if frame["data"] == "[DONE]":
                self.is_done = True
            else:
                self._take(json.loads(frame["data"]))
        return self

    def _take(self, chunk: dict[str, Any]) -> None:
        self.seen.append(chunk)
        kind, _, what = chunk["type"].rpartition("-")
        match chunk["type"]:
            case "start":
                self.id = chunk["messageId"]
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "text-start" | "reasoning-start":
                self.open[f"{kind} {chunk['id']}"] = part = {"type": kind, "text": ""}
                self.parts.append(part)
            case "text-delta" | "reasoning-delta":
                self.open[f"{kind} {chunk['id']}"]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                del self.open[f"{kind} {chunk['id']}"]
            case "tool-input-available":
                self.parts.append({**chunk, "type": "tool"})
            case "tool-output-available" | "tool-output-error":
                part = [
                    each for each in self._step() if each.get("toolCallId") == chunk["toolCallId"]
                ][-1]
                part["ended"] = chunk["output"] if what == "available" else chunk["errorText"]
            case "finish-step":
                self.open.clear()
            case "reset-step":
                del self.parts[len(self.parts) - len(self._step()) :]
                self.open.clear()
            case "finish":
                assert not self.open
                self.finish = chunk
            case "error":
                self.error = chunk["errorText"]
            case "data-rungwise" | "data-value":
                assert chunk["transient"]
            case _:
                raise AssertionError(chunk)

    def _step(self) -> list[dict[str, Any]]:
        """Return the parts since the last step began."""
        starts = [place for place, part in enumerate(self.parts) if part["type"] == "step-start"]
        return self.parts[starts[-1] + 1 :]

    @property
    def texts(self) -> list[str]:
        texts = [""]
        for part in self.parts:
            if part["type"] == "step-start":
                texts.append("")
            elif part["type"] == "text":
                texts[-1] += part["text"]
        return texts

    @property
    def text(self) -> str:
        return last_text(self.texts)


@define
class AgUiReader:
    """Read AG-UI events as `verifyEvents` and `defaultApplyEvents` of `@ag-ui/client` do."""

    messages: list[dict[str, Any]] = field(factory=list)
    own: list[str] = field(factory=list)  # the ids of the run's assistant messages, in order
    open: set[str] = field(factory=set)
    custom: list[tuple[str, Any]] = field(factory=list)
    seen: list[dict[str, Any]] = field(factory=list)
    end: dict[str, Any] | None = None

    def feed(self, data: bytes) -> AgUiReader:
        for frame in frames_in(data):
            self._take(json.loads(frame["data"]))
        return self

    def _take(self, event: dict[str, Any]) -> None:
        assert self.end is None
        assert bool(self.seen) is (event["type"] != "RUN_STARTED")
        self.seen.append(event)
        id = event.get("messageId")
        match event["type"]:
            case "RUN_STARTED" | "TOOL_CALL_END":
                pass
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                assert id not in self.open
                self.open.add(id)
                self._message(id, event["role"]).setdefault("content", "")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                assert id in self.open
                self._message(id)["content"] += event["delta"]
            case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END":
                self.open.remove(id)
            case "TOOL_CALL_START":
                calls = self._message(event["parentMessageId"], "assistant").setdefault(
                    "toolCalls", []
                )
                called = {"name": event["toolCallName"], "arguments": ""}
                calls.append(
                    {
                        "id": event["toolCallId"],
                        "type": "function",
                        "function": called,
                    }
                )
            case "TOOL_CALL_ARGS":
                calls = [call for message in self.messages for call in message.get("toolCalls", ())]
                [call] = [each for each in calls if each["id"] == event["toolCallId"]][-1:]
                call["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                result = {
                    "id": id,
                    "role": "tool",
                    "toolCallId": event["toolCallId"],
                    "content": event["content"],
                }
                self.messages.append(result)
            case "MESSAGES_SNAPSHOT":
                assert len(event["messages"]) >= len(self.messages)
                self.messages = event["messages"]
            case "CUSTOM":
                self.custom.append((event["name"], event["value"]))
            case "RUN_FINISHED":
                assert not self.open
                self.end = event
            case "RUN_ERROR":
                self.end = event
            case _:
                raise AssertionError(event)

    def _message(self, id: str, role: str = "") -> dict[str, Any]:
        found = [message for message in self.messages if message["id"] == id]
        if not found:
            assert role
            found = [{"id": id, "role": role}]
            self.messages += found
            self.own += [id] if role == "assistant" else []
        return found[0]

    @property
    def text(self) -> str:
        return last_text(
            [message.get("content", "") for message in self.messages if message["id"] in self.own]
        )

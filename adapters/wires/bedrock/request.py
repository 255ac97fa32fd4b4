"""Write the body of a request to Converse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.anthropic.parameters import Generation
from rungwise.adapters.wires.bedrock.parameters import (
    INFERENCE,
    choice_of,
    fit_budget,
    forbids_tools,
    lower_reasoning,
    set_thinking,
    thinking_in,
    translated,
)
from rungwise.adapters.wires.bedrock.shapes import CONVERSE, UNMARKED, unmarked, without_marks
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.portability import BEGINNING, NO_TEXT, written
from rungwise.adapters.wires.request import BodyWriter, without_end
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, PlainMessage

RESERVED: Final = {
    **request.RESERVED,
    "modelId": "give it to the backend",
    "system": "give it to the call, as a message of role 'system'",
    "maxTokens": "it is called 'max_tokens'",
    "toolConfig": "give tools to the call, and 'tool_choice' to the parameters",
}

_CAPS: Final = frozenset({*CAP_PARAMETERS, "maxTokens", "inferenceConfig"})
"""The names of the output cap here and on the server, and the object that holds it there."""


@frozen(kw_only=True)
class ConverseBody(BodyWriter):
    """Write the body of a request to Converse."""

    generation: Generation | None
    cap: int | None
    takes_marks: bool | None
    marks_tools: bool

    def body(self) -> Body:
        """Return the body."""
        send, cap, generation = self.send, self.cap, self.generation
        form = CONVERSE if self.takes_marks else UNMARKED
        messages = written(send.messages, form, self.own, is_portable=send.portable)
        system, turns = _parted([*map(without_marks, messages)] if self.takes_marks is False else messages)
        if send.prefill:
            turns[-1] = without_end(turns[-1]) if turns[-1]["role"] == "assistant" else turns[-1]
        parameters = {name: each for name, each in self.all_parameters.items() if name not in send.dropped}
        # If a budget rests on the cap, no error of a server removes it.
        dropped = send.dropped - _CAPS if send.must_cut else send.dropped
        if _CAPS & dropped:
            cap = None
        tools = parameters.pop("tools", send.tools)
        if self.takes_marks is False:
            tools = unmarked(tools)
        body: Body = {**translated(parameters, generation, cap=cap), "messages": turns}
        if system:
            body["system"] = system
        made = (CONVERSE if self.marks_tools else UNMARKED).written_tools(tools)
        config = _tool_config(made, parameters.get("tool_choice"), turns)
        if config:
            body["toolConfig"] = config
        if send.lower_reasoning:
            lower_reasoning(body, generation)
        fit_budget(body, cap)
        if generation is not None:
            _soothe_thinking(body, turns)
        _drop(body, dropped)
        return body


def _drop(body: Body, names: frozenset[str]) -> None:
    """Remove the fields that the server rejected from the body and its parts."""
    if "response_format" in names:
        names |= {"textFormat"}
    for name in names - {"messages", "system", "toolConfig"}:
        body.pop(name, None)
        for place in ("inferenceConfig", "additionalModelRequestFields", "outputConfig"):
            fields = mapping_of(body.get(place))
            for key in {name, INFERENCE.get(name, name)} & fields.keys():
                fields = {each: value for each, value in fields.items() if each != key}
                body[place] = fields
            if place in body and not fields:
                del body[place]


def _tool_config(tools: Sequence[Any], choice: Any, turns: Sequence[PlainMessage]) -> Body | None:
    """Return the tools; the API requires them if the conversation has calls, even if none may be called."""
    made = [] if forbids_tools(choice) else [*tools]
    if not any("toolSpec" in tool or "systemTool" in tool for tool in made):
        names = dict.fromkeys(
            str(block["toolUse"].get("name"))
            for turn in turns
            for block in turn["content"]
            if isinstance(block.get("toolUse"), Mapping)
        )
        made = [*tools] if names else []
        made = made or [CONVERSE.tool_of(name, "", {"type": "object"}) for name in names]
    written = choice_of(choice)
    return {"tools": made, **({"toolChoice": written} if written else {})} if made else None


def _parted(messages: Sequence[PlainMessage]) -> tuple[list[Any], list[PlainMessage]]:
    """Return the system prompt and the turns; consecutive turns of one role are joined, as the API requires."""
    not_empty = [message for message in messages if message["content"]]
    system = [block for message in not_empty if message["role"] == "system" for block in message["content"]]
    others = [message for message in not_empty if message["role"] != "system"]
    turns: list[PlainMessage] = []
    for role, row in groupby(others, lambda message: message["role"]):
        group = [*row]
        if len(group) > 1:
            blocks = [block for each in group for block in each["content"]]
            blocks.sort(key=lambda block: "toolResult" not in block)
            group = [{"role": role, "content": blocks}]
        turns += group
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [{"text": BEGINNING if turns else NO_TEXT}]})
    return system, turns


def _soothe_thinking(body: Body, turns: Sequence[PlainMessage]) -> None:
    """Remove parameters that cannot be combined with reasoning, or reasoning itself if the API would refuse it."""
    kind = thinking_in(body).get("type")
    if kind not in ("enabled", "adaptive"):
        return
    choice = mapping_of(mapping_of(body.get("toolConfig")).get("toolChoice"))
    if choice.keys() & {"any", "tool"} or (kind == "enabled" and _lacks_thinking(turns)):
        set_thinking(body, None)
        return
    config = mapping_of(body.pop("inferenceConfig", None))
    inference = {name: value for name, value in config.items() if name not in ("temperature", "topP")}
    if inference:
        body["inferenceConfig"] = inference


def _lacks_thinking(turns: Sequence[PlainMessage]) -> bool:
    """Tell whether the running tool loop began without reasoning, as with another provider."""
    last = turns[-1]
    if last["role"] == "user" and any("toolResult" in block for block in last["content"]):
        last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), last)
    return last["role"] == "assistant" and "reasoningContent" not in last["content"][0]

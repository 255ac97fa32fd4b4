"""The cases: what goes wrong at the primary, and what must hold of a program that meets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from attrs import frozen

from rungwise.adapters.exam.answer import rest_of
from rungwise.adapters.exam.wanted import Wanted
from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import render
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.files import toml_in

QUICK: Final = 20
MOST: Final = 6
"""Requests that a primary in trouble may get of one call."""

LIMIT: Final = 30.0
CALL_ID: Final = "call_of_the_exam"
CUT_ARGUMENTS: Final = '{"cut": "in the mid'
OWN: Final = ("share", "fill", "half", "calls")
"""The members of a reply in the catalogue that a scripted reply does not have."""

Then = Literal["repeat", "answer"]


@frozen(kw_only=True, eq=False)
class ExamCase:
    """Describe a case; `cases.toml` says what each member means."""

    name: str
    title: str
    replies: Sequence[Mapping[str, Any]]
    then: Then = "repeat"
    needs: Literal["", "tools", "schema"] = ""
    limit: float = LIMIT
    most: int = MOST
    at_first: tuple[int, float] | None = None
    waits: float = 0.0
    again: bool = False
    within: float | None = None
    ideal: Literal["answer", "reason"] = "answer"

    @property
    def words(self) -> str:
        """Return its title without how often it happens."""
        return self.title.removesuffix(", once").removesuffix(", for ever")

    @property
    def is_fault(self) -> bool:
        """Tell whether its replies go wrong, and are not only said in another manner."""
        return not any("manner" in reply for reply in self.replies)

    def fits(self, wanted: Wanted) -> bool:
        """Tell whether a program that sends such requests can meet this."""
        if self.needs == "tools" and not wanted.tool:
            return False
        if self.needs == "schema" and wanted.schema is None:
            return False
        manners = [MANNERS[reply["manner"]] for reply in self.replies if "manner" in reply]
        return all(each.is_in(wanted.api, streams=wanted.streams) for each in manners)

    def reply(self, index: int, wanted: Wanted) -> ScriptedReply:
        """Return what the primary does with its request of this number, counted from 0."""
        if index >= len(self.replies):
            if self.then == "answer":
                return healthy(wanted)
            index = len(self.replies) - 1
        return _scripted(self.replies[index], wanted)


def healthy(wanted: Wanted) -> ScriptedReply:
    """Return the whole answer, or what of it a request has not got yet."""
    return ScriptedReply(text=rest_of(wanted.prefix, wanted.answer))


def _scripted(given: Mapping[str, Any], wanted: Wanted) -> ScriptedReply:
    fields = {name: value for name, value in given.items() if name not in OWN}
    if given.get("fill"):
        fields["body"] = "<html>" + "x" * given["fill"]
    if given.get("half"):
        fields["text"] = wanted.answer[: len(wanted.answer) // 2]
    if given.get("calls"):
        fields["tool_calls"] = (ToolCall(CALL_ID, wanted.tool, CUT_ARGUMENTS),)
    is_plain = fields.get("status", 200) == 200 and "body" not in fields
    if is_plain and "text" not in fields:
        fields["text"] = wanted.answer
    if "share" in given:
        whole = render(ScriptedReply(text=fields["text"]), wanted.body, wanted.number, wanted.path)
        fields["cut_after"] = int(len(whole.body) * given["share"])
    return ScriptedReply(**fields)


@cache
def catalogue() -> Mapping[str, ExamCase]:
    """Return every case by its name, in the order in which they are asked."""
    cases = toml_in(__package__, "cases.toml")
    return {name: ExamCase(name=name, **case) for name, case in cases.items()}

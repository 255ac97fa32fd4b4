"""Check what a model answered: its JSON, its tool calls, and what the caller's verdicts say of it.

A reply is judged once, when it would be a success. What needs no code of the caller's is found
here; the driver calls the verdicts and passes in what they found. The journal records both, so that
a replay judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import evolve, frozen

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import (
    RAISED,
    WRONG,
    Finding,
    Judged,
    Observation,
    Verdict,
    verdicts_of,
)
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.schemas.given import Misfit, Schema, schema_of
from rungwise.fsm.replies.text.contents import is_blank, is_json, json_in
from rungwise.fsm.values.label import close_to, label, short

if TYPE_CHECKING:
    from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
    from rungwise.fsm.replies.schemas.returns import Returns

RIGHT: Final = Finding()
NO_JSON: Final = Finding.wrong(["the answer is not JSON"])


@frozen
class Judge:
    """Judge the replies of a call."""

    returns: Returns | None = None
    verdicts: tuple[Verdict, ...] = ()
    checks_tools: bool = True  # whether tool calls are checked against the tools that were offered

    @classmethod
    def of(cls, request: Request, turn: TurnContext | None, returns: Any, verdict: Any) -> Judge:
        """Read what the caller wants back, or raise a ConfigurationError.

        Arguments:
            request: what the caller asks.
            turn: the turn around the call, which may check the tool calls itself.
            returns: what the answer must be; None for any.
            verdict: one function or several that judge each reply; None for none.
        """
        read = None
        if returns is not None:
            # schemas are for calls that want values
            from rungwise.fsm.replies.schemas.returns import returns_of

            read = returns_of(returns)
        if read is not None and FORMAT_PARAMETER in request.parameters:
            raise ConfigurationError(
                "give either returns or response_format: both say what the answer is like"
            )
        # what is no TurnContext is refused later, with the other arguments
        runs_tools = isinstance(turn, TurnContext) and turn.runs_tools
        return cls(read, verdicts_of(verdict), checks_tools=not runs_tools)

    def checked(self, observation: Observation, proposal: Proposal, gathered: str) -> Observation:
        """Return an observation with what the schemas find of it, behind the text that it
        continues.
        """
        if observation.event == "called_tools":
            tools = None
            if self.checks_tools:
                tools = self._tools_of(proposal)
            finding = _of_calls(observation, tools)
        elif observation.event == "answered":
            finding = self._of_answer(_whole_text(observation, gathered), observation, proposal)
        else:
            return observation
        return with_finding(observation, finding, gathered)

    @property
    def decided(self) -> OpenQuestions | None:
        """Return the answers of a decision so far; None for none."""
        if self.returns is None or not self.returns.is_decision:
            return None
        asked = cast("OpenQuestions", self.returns)
        return asked if asked.answers else None

    def judged(self, observation: Observation, gathered: str) -> Judged | None:
        """Return what the verdicts must judge of a checked observation; None for nothing."""
        if not self.verdicts or not observation.is_answer or observation.reply is None:
            return None
        if observation.event == "called_tools" and not self.checks_tools:
            return None  # in a turn, only what ends it is an answer
        reply = observation.reply
        text = _whole_text(observation, gathered)
        if text != reply.text:
            reply = evolve(reply, text=text, final_text=None, parts=None)
        return Judged(reply, observation.finding or RIGHT, self.verdicts)

    def _tools_of(self, proposal: Proposal) -> Mapping[str, Schema] | None:
        """Return the checks of the tools that were offered, by name; None if not all are known."""
        backend = proposal.for_backend
        if not backend.tools:
            # then a call is only wrong if the caller wants a value
            wants_value = self.returns is not None and "tools" not in backend.request.parameters
            return {} if wants_value else None
        offered = backend.shapes.offered(backend.tools)
        if offered is None:
            return None
        return {name: _schema_of(schema) for name, schema in offered.items()}

    def _of_answer(self, text: str, observation: Observation, proposal: Proposal) -> Finding:
        assert observation.reply is not None
        if self.returns is None:
            is_other = not proposal.for_backend.expects_json or observation.reply.has_own_answer
            if is_other or is_json(text):
                return RIGHT
            return NO_JSON
        try:
            return Finding(value=self.returns.read_text(text))
        except Misfit as fault:
            return Finding.wrong([str(fault)], fault.places)


def _whole_text(observation: Observation, gathered: str) -> str:
    """Return the text of an answer, together with what it continues."""
    if observation.unsays:
        return observation.new
    return gathered + observation.new


def with_finding(observation: Observation, finding: Finding, gathered: str) -> Observation:
    """Return an observation with what was found of it; a wrong reply is no answer, and its whole
    text is spare.
    """
    if finding is RIGHT:
        return observation
    if finding.is_right:
        return evolve(observation, finding=finding)
    event = RAISED
    if finding.raised is None:
        event = WRONG[observation.event]
    text = _whole_text(observation, gathered)
    return evolve(
        observation,
        evidence=evolve(observation.evidence, event=event),
        finding=finding,
        part="",
        new="",
        spare="" if is_blank(text) else text,
    )


def _of_calls(observation: Observation, tools: Mapping[str, Schema] | None) -> Finding:
    """Check the names and the arguments of tool calls; without tools, only whether they are calls
    at all.
    """
    assert observation.reply is not None
    calls = observation.reply.tool_calls
    reasons: list[str] = []
    places: list[str] = []
    of_calls: list[str] = []
    for call in calls:
        fault = _fault_of(call, tools)
        if fault is None:
            of_calls.append("")
            continue
        of_calls.append(str(fault))
        reasons.append(f"{label(call.name)}: {fault}".removeprefix(": "))
        places += _places(call, fault, tools)
    if not reasons:
        return RIGHT
    return Finding.wrong(reasons, places, of_calls)


def _places(call: ToolCall, fault: Misfit, tools: Mapping[str, Schema] | None) -> tuple[str, ...]:
    if tools is None or call.name not in tools:
        return ("a tool",)  # the name is the model's own
    return tuple(f"{call.name}.{place}" for place in fault.places) or (call.name,)


def _fault_of(call: ToolCall, tools: Mapping[str, Schema] | None) -> Misfit | None:
    try:
        if is_blank(call.name):
            raise Misfit("the call names no tool")
        if tools is not None and call.name not in tools:
            raise Misfit(f"there is no tool {short(call.name)}{close_to(call.name, tools)}")
        arguments = _arguments_of(call)
        if tools is not None:
            tools[call.name].read(arguments)
    except Misfit as fault:
        return fault
    return None


def _arguments_of(call: ToolCall) -> Any:
    if not call.arguments.strip():
        return {}
    arguments, is_one = json_in(call.arguments)
    if not is_one:
        raise Misfit("the arguments are not JSON; give one JSON object")
    if not isinstance(arguments, dict):
        raise Misfit("the arguments are no JSON object; give one")
    return arguments


def _schema_of(schema: Mapping[str, Any] | None) -> Schema:
    """Return the check of a tool; one whose schema is unknown, or is none, takes any arguments."""
    if not schema:
        return Schema()
    try:
        return schema_of(schema, "a tool")
    except ConfigurationError:
        return Schema()  # it is the provider's to refuse

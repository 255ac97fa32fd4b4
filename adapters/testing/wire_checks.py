"""Whether a call returns what the provider sent, and sends what its journal records."""

from __future__ import annotations

from collections.abc import Sequence

from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import ReceivedRequest, render
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.text.contents import is_blank
from rungwise.fsm.text.stitching import stitch
from rungwise.fsm.text.thinking import part_thinking, split_thinking

SENT = "what is done is what the provider sent"
ASKED = "what goes over the wire is what the journal says"
CAPS = ("max_tokens", "max_completion_tokens")


def check_requests(result: Result, requests: Sequence[ReceivedRequest]) -> None:
    """Check that every attempt was one request, and that its output cap reached the wire."""
    steps = result.journal.steps
    sent = [step.cap for step in steps if step.event == "sent"]
    # A connection that the server had closed breaks before the request arrives, and one whose time was up may not bring
    # it either. A consumer that leaves when it is told of a request ends the call before that one goes out.
    lost = sum(step.reason in ("connection", "timeout") for step in steps) + (result.outcome == "cancelled")
    if not 0 <= len(sent) - len(requests) <= lost:
        raise Dishonest(ASKED, f"{len(requests)} requests arrived, and the journal has {len(sent)}")
    remaining = iter(sent)
    for request in requests:
        caps = [request.body[name] for name in CAPS if name in request.body]
        if len(caps) > 1 or not any(cap == (caps[0] if caps else None) for cap in remaining):
            raise Dishonest(ASKED, f"a request carried {caps or 'no cap'}, and the journal says {sent}")


def check_answer(result: Result, reply: ScriptedReply, request: ReceivedRequest, *, seeds: bool) -> None:
    """Check that only a whole reply makes a call done, and that nothing of it was changed.

    With `seeds`, a reply may begin with what it was seeded with, which is no text.
    """
    if result.outcome != "done" or reply.body is not None:
        return
    streams = request.body.get("stream") is True
    if not 200 <= reply.status < 300 or reply.error is not None or reply.error_event is not None:
        raise Dishonest(SENT, "the last reply was an error")
    body = render(reply, request.body).body
    arrived = body[: reply.cut_after]
    if b'"finish_reason":"' not in arrived or not (streams or arrived == body):
        raise Dishonest(SENT, "the last reply broke off before its end")
    text = reply.final_message if streams and isinstance(reply.final_message, str) else reply.text
    visible, part = _readings(text, result), result.parts[-1] if result.parts else ""
    is_seeded = seeds and any(each.endswith(part) for each in visible)
    if part not in visible and not is_seeded and not is_blank(visible[0]):
        raise Dishonest(SENT, f"the text sent was {visible[0][:80]!r}, and the last part is {part[:80]!r}")
    # A call without id, name and arguments is a piece with nothing in it.
    sent = [(call.name, call.arguments) for call in reply.tool_calls if call.id or call.name or call.arguments]
    if result.tool_calls and sent != [(call.name, call.arguments) for call in result.tool_calls]:
        raise Dishonest(SENT, f"{len(sent)} tool calls were sent, and others were handed out")


def _readings(text: str, result: Result) -> list[str]:
    """Return the possible visible texts of a reply; the text before it may end within code or quotes."""
    before = ""
    for part in result.parts[:-1]:
        before += stitch(before, part)
    ways = [(more, new) for more in (False, True) for new in (False, True)]
    parted = [part_thinking(text, before, after_block=more, is_new_turn=new) for more, new in ways]
    return [split_thinking(text)[0], *(each.visible for each in parted)]

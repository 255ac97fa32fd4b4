"""Notice a call that a reply holds where its reader did not look.

Gateways that translate leave calls in the form, or in the place, of another protocol: a list
`tool_calls` beside the blocks of a message, a block `tool_use` among the parts of a completion. A
reader passes over what it does not know, and the text beside it would be a whole answer, the call
lost. So a text without a call is in doubt if anything in the reply looks like one. What the server
runs itself is none, and neither is what another choice or an echo of the request holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.json_text import load
from rungwise.fsm.replies.assembly.origin import ASKING_ROLES, FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply

UNREAD: Final = "a tool call that could not be read"
"""The finish reason of a reply in doubt, in place of the provider's."""
UNREAD_PIECE: Final = "a piece of the reply that could not be read"
BEHIND_END: Final = "a piece of the reply behind its end"
TWICE: Final = "pieces of the reply that may have come twice"
MIXED: Final = "pieces of two replies"
TROUBLE: Final = "an error in words amid the reply"
GARBLED: Final = "characters of the reply that could not be read"
NOT_OWN: Final = "a message of another role"
MARKED: Final = "reasoning that could not be told from the text"
LEFT: Final = "a tool call or reasoning that was left in the text"
"""The same, where a piece of a stream stands where none belongs, or may be none of the reply."""
MAY_HOLD_A_CALL: Final = re.compile(rb'"(?:tool_?[cC]alls?|function_?[cC]alls?|tool_?[uU]se)"')
"""What the bytes of a body or an event with a call in it have."""
_CONTAINERS: Final = frozenset(
    {
        "tool_calls",
        "tool_call",
        "toolCalls",
        "function_call",
        "function_calls",
        "functionCall",
        "functionCalls",
        "tool_use",
        "toolUse",
    }
)
"""The members that hold calls."""
_TEXTS: Final = ("delta", "text", "content", "parts", "content_block", "item")
"""The members that hold pieces of a reply."""
_TYPES: Final = ("tool_call", "tool_use", "function_call")
_CLOSED: Final = frozenset(
    {
        "tools",
        "tool_choice",
        "metadata",
        "instructions",
        "input",
        "args",
        "arguments",
        "parameters",
    }
)
"""The members that hold what the request said, or what a model wrote for a tool."""
ODD: Final = re.compile(
    rb'"(?:content|text|delta|response|thinking)"\s*:\s*-?\d'
    rb'|"(?P<thought>thought|isThought|is_thought)"\s*:\s*true|"(?P<channel>channel)"\s*:\s*"analysis"'
)
"""A piece of a text that is a number in JSON, or one that is marked as a thought."""
LEFT_IN_TEXT: Final = re.compile(
    r"\A\s*(?:"
    r"\[TOOL_CALLS\]|<tool_calls?>|<\|tool_calls?|<\|python_tag\|>"
    r"|<function=|<function_calls>|<invoke |<\uff5c(?:tool|DSML)|```tool_code"
    r"|\u25c1think\u25b7|\[THINK\]|<\|channel>|analysis.{0,65536}?assistantfinal"
    r"|functools\[|to=functions\.|commentary to=functions\."
    r")"
    r"|\A[^`]*(?:"
    r"\u25c1/think\u25b7|\[/THINK\]|<\|END_THINKING\|>"
    r"|<\|(?:im_end|eot_id)\|>\s*<\|(?:im_start|start_header_id)\|>"
    r")"
    r"|(?:"
    r"\[TOOL_CALLS\]\S[^\n]*"
    r"|</(?:minimax:|\uff5cDSML\uff5c)?(?:tool_call|function_calls)>|</invoke>"
    r"|<\|tool_calls_section_end\|>|<\uff5ctool\u2581calls\u2581end\uff5c>"
    r")\s*\Z",
    re.DOTALL,
)
"""How texts begin that are calls or reasoning in the words of a model (of Hermes, Mistral, Llama,
Qwen, Kimi, DeepSeek, Gemma, gpt-oss); what ends reasoning, or a turn before an invented one, where
no code stands before it; and how texts end whose last words are a call.
"""
_LARGEST: Final = 65_536
"""The longest line between events that is read, in bytes."""
_PREFIX: Final = 64
"""How many bytes may stand in such a line before an object."""
_MOST_TEXTS: Final = 100
"""How many texts of an announcement the reply is searched for."""
_GOOD: Final = (None, "stop", "tool_calls", "length")
"""How replies end that the call takes for what they are, or goes on with."""
_MOST: Final = 1_000
"""The most values that are looked at."""
_TROUBLE: Final = re.compile(
    rb"<html|\b(?:errors?|fail(?:ed|ure)|time(?:d[ -]?)?out|exceeded|unavailable|overloaded)\b",
    re.IGNORECASE,
)
"""What the words of a proxy have that could not go on with a stream."""
_LONGEST: Final = 1_000
"""How many bytes of such words are looked at."""


def holds_a_call(value: Any) -> bool:
    """Tell whether anything in a body or an event looks like a call."""
    pending = [value]
    for _ in range(_MOST):
        if not pending:
            return False
        each = pending.pop()
        if isinstance(each, list):
            pending += _served(each[:_MOST])
        elif isinstance(each, Mapping) and not _is_another_choice(each):
            if str(each.get("type")) in _TYPES and _is_named(each):
                return True
            for name, inner in each.items():
                if name in _CONTAINERS and _is_named(inner):
                    return True
                if name not in _CLOSED:
                    pending.append(inner)
    return False


def doubted(reply: Reply) -> Reply:
    """Return a reply that ended as if it were whole as one whose end is unclear."""
    return reply if reply.tool_calls else unclear(reply, UNREAD)


def unclear(reply: Reply, why: str) -> Reply:
    """Return a reply that would be an answer, or a part of one, as one whose end is unclear."""
    if reply.interrupted or reply.stop_reason not in _GOOD:
        return reply
    return evolve(reply, stop_reason="unknown", stop_raw=why)


def owned(reply: Reply | Failure, role: object) -> Reply | Failure:
    """Return a reply, in doubt if the role of its message is not the model's; see `Origin`."""
    if role in FOREIGN_ROLES and isinstance(reply, Reply):
        return unclear(reply, NOT_OWN)
    return reply


def object_within(line: bytes) -> Any:
    """Return the object in a line that begins as no event does, or None; comments have none."""
    start = line.find(b"{", 0, _PREFIX)
    if start < 0 or line.startswith(b":") or len(line) > _LARGEST:
        return None
    try:
        return load(line[start : line.rfind(b"}") + 1])
    except ValueError:
        return None


def is_garbled(data: bytes) -> bool:
    """Tell whether data is not the UTF-8 that JSON is, but for halves of surrogate pairs."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


def tells_of_trouble(line: bytes) -> bool:
    """Tell whether data between events is an error in words, as of a proxy, and no comment."""
    return _TROUBLE.search(line, 0, _LONGEST) is not None


def holds_a_text(value: Mapping[str, Any]) -> bool:
    """Tell whether an event that could not be read holds what may be a piece of the reply."""
    return any(value.get(name) for name in _TEXTS)


@define(eq=False)
class Doubts:
    """Note what leaves it unclear whether a streamed reply is whole."""

    why: str = field(default="", init=False)
    """Why the reply is in doubt, if anything has shown that it is."""
    is_own: bool | None = field(default=None, init=False)
    """Whether the message is the model's, as the roles in it say; None if none does."""
    written_at_end: int | None = field(default=None, init=False)
    """The characters that had come with the last finish reason."""
    ends_everywhere: bool = field(default=False, init=False)
    """Whether pieces came behind a finish reason and had one too, so that none of them says the
    end."""
    has_thoughts: bool = field(default=False, init=False)
    """Whether any piece was marked as a thought: then the reply has reasoning."""
    announced: list[str] = field(factory=list, init=False)
    """Texts and names of calls that stood beside the pieces, and must be in the reply."""
    _saw_call: bool = field(default=False, init=False)  # whether an event held what looks like one

    def take_finish(self, written: int) -> None:
        """Note a finish reason; `written` is how many characters have come."""
        if self.written_at_end is not None and written > self.written_at_end:
            self.ends_everywhere = True
        self.written_at_end = written

    def take_role(self, role: object) -> None:
        """Note the role that a piece of the message names; see `Origin`.

        The first role holds for what names none, until the model's own comes.
        """
        if role in ASKING_ROLES and self.is_own is None:
            self.is_own = False
        elif role and role not in FOREIGN_ROLES:
            self.is_own = True

    def announce(self, blocks: Any) -> None:
        """Note what an event holds of the reply besides its pieces."""
        pending = [blocks]
        while pending and len(self.announced) < _MOST_TEXTS:
            each = pending.pop()
            if isinstance(each, list):
                pending += each[:_MOST_TEXTS]
            elif isinstance(each, Mapping):
                texts = [each.get(name) for name in ("text", "name")]
                self.announced += [text for text in texts if isinstance(text, str)]
                pending.append(each.get("content"))

    def look_at(self, value: Mapping[str, Any]) -> None:
        """Note whether an event holds a call."""
        self._saw_call = self._saw_call or holds_a_call(value)

    def applied_to(self, reply: Reply, written: int) -> Reply:
        """Return a reply with the doubts about it; `written` is how many characters have come."""
        if self._saw_call:
            reply = doubted(reply)
        if self.announced:
            said = [reply.text, reply.reasoning, *(call.name for call in reply.tool_calls)]
            if not all(any(text in each for each in said) for text in self.announced):
                reply = unclear(reply, UNREAD_PIECE)
        if self.has_thoughts and not reply.reasoning:
            reply = unclear(reply, MARKED)
        if LEFT_IN_TEXT.search(reply.text) and not reply.tool_calls:
            reply = unclear(reply, LEFT)
        if self.is_own is False:
            reply = unclear(reply, NOT_OWN)
        if self.why:
            reply = unclear(reply, self.why)
        if self.written_at_end is not None and written > self.written_at_end:
            reply = unclear(reply, BEHIND_END)
        return reply


def _served(values: list[Any]) -> list[Any]:
    """Return the values behind Anthropic's last block of a fallback: what precedes was declined."""
    for at in range(len(values), 0, -1):
        block = values[at - 1]
        if isinstance(block, Mapping) and block.get("type") == "fallback":
            return values[at:]
    return values


def _is_another_choice(value: Mapping[str, Any]) -> bool:
    index = value.get("index")
    holds = any(name in value for name in ("message", "delta", "content"))
    return holds and isinstance(index, int) and index > 0


def _is_named(value: Any) -> bool:
    """Tell whether a value is a call with a name, or a list that begins with one."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping) or str(value.get("type", "")).startswith("server"):
        return False
    inner = value.get("function", value)
    return isinstance(inner, Mapping) and bool(inner.get("name"))

"""Read the choice of tools, in whichever form it was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.making import list_of, text_in

_WORDS: Final[Mapping[object, str]] = {"auto": "auto", "any": "required", "none": "none"}
"""What the choices without a name of Anthropic's, and of Bedrock's, are called in chat completions."""
_KINDS: Final[Mapping[object, str]] = {"tool": "function", "function": "function", "custom": "custom"}
_ALLOWED: Final = "allowed_tools"


def chat_choice(given: Any, tools: Any = ()) -> Any:
    """Return a choice of tools as chat completions have it, from the form of any protocol.

    Arguments:
        given: the choice; what is none that is known stays as it is.
        tools: those that are sent, in either of OpenAI's forms: one of free text is chosen as such.
    """
    if not isinstance(given, Mapping):
        return given
    kind = given.get("type")
    if kind is None:  # Bedrock's
        kind = next((name for name in (*_WORDS, "tool") if name in given), None)
        given = {"type": kind, **given["tool"]} if isinstance(given.get("tool"), Mapping) else given
    elif not isinstance(kind, str):
        return given
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == _ALLOWED:
        held = given.get(_ALLOWED)
        inner = held if isinstance(held, Mapping) else {name: each for name, each in given.items() if name != "type"}
        if "tools" in inner:
            inner = {**inner, "tools": [chat_choice(each, tools) for each in list_of(inner["tools"])]}
        return {"type": _ALLOWED, _ALLOWED: inner}
    name = name_of(given)
    if not name:
        return given
    written = "custom" if name in _free_text(tools) else _KINDS[kind]
    return given if isinstance(given.get(written), Mapping) else {"type": written, written: {"name": name}}


def forced_name(choice: Any) -> str:
    """Return the name of the one tool that a choice allows and forces, in any form; the empty text where it does not.

    Arguments:
        choice: of tools.
    """
    chosen = chat_choice(choice)
    if isinstance(chosen, Mapping) and chosen.get("type") == _ALLOWED:
        inner = chosen[_ALLOWED]
        held = list_of(inner.get("tools"))
        chosen = held[0] if inner.get("mode") == "required" and len(held) == 1 else None
    return name_of(chosen)


def name_of(chosen: Any) -> str:
    """Return the name of a tool that is meant by it, in either of OpenAI's forms; the empty text where none is."""
    kind = chosen.get("type") if isinstance(chosen, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return ""
    return text_in(chosen.get(_KINDS[kind]), "name") or text_in(chosen, "name")


def _free_text(tools: Any) -> Iterable[str]:
    """Return the names of the tools that take free text."""
    free = [each for each in list_of(tools) if isinstance(each, Mapping) and each.get("type") == "custom"]
    return {text_in(each.get("custom", each), "name") for each in free}

"""What a scenario of `rungwise demo` is: what is asked, and how the providers misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from rungwise.adapters.provider.script import ScriptedReply

Messages = str | tuple[Mapping[str, Any], ...]


@frozen(kw_only=True)
class Scenario:
    """Hold one scenario.

    Arguments:
        name: what `--scenario` calls it.
        title: its heading.
        says: one sentence on what the providers do.
        messages: what is asked.
        primary: the replies of the first backend, the last one for ever; None if it is down.
        fallback: the replies of the second backend; None for a chain of one.
        tools: the tools of the request; in a turn, what runs them.
        max_tokens: the caller's own output cap.
        auto_continues: how often the turn may go on by itself; None for a call.
        prefill: whether the first backend goes on from a trailing assistant turn.
    """

    name: str
    title: str
    says: str
    messages: Messages
    primary: tuple[ScriptedReply, ...] | None
    fallback: tuple[ScriptedReply, ...] | None = None
    tools: tuple[Mapping[str, Any] | Callable[..., Any], ...] = field(default=(), repr=False)
    auto_continues: int | None = None
    max_tokens: int = 300
    prefill: bool = False

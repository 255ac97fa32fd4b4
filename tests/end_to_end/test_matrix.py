"""Every scene of a call in every protocol, streamed and not, in threads and in event loops: the
same call each time.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from attrs import field, frozen

import rungwise
from rungwise import Policy
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY, MODES, WHOLE
from support.plain import assistant
from support.runs import MESSAGES, Ended, Run, Scripted, Stage

pytestmark = pytest.mark.sampled(8)

WELL: Final = ScriptedReply("In the reeds, mostly.")
HINTS: Final = rungwise.Hints(
    placeholder="(no reply)",
    continuation="Go on.",
    nudge="Answer now.",
    seed="You thought: {reasoning}",
)
POLICY: Final = Policy(hints=HINTS)
HASTY: Final = Policy(hints=HINTS, timeouts=rungwise.Timeouts(first_token=0.5, stall=0.2))
AFTER_A_TOOL: Final = [
    {"content": None, **message}
    for message in SCENARIOS["tool-round"].messages
    if isinstance(message, dict)
]
WEATHER_TOOL: Final = SCENARIOS["tool-round"].tools[0]
CHANNELS: Final = (
    "<|channel|>analysis<|message|>Herons like reeds.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>"
)
LONG: Final = "".join(reply.text for reply in SCENARIOS["truncated"].primary)
TIDES: Final = SCENARIOS["cut-stream"].primary[0].text
TOO_LONG: Final = {
    "message": "prompt is too long: 300 tokens > 200 maximum",
    "code": "context_length_exceeded",
}
CALL: Final = ToolCall("call_2", "get_weather", '{"city": "Reykjavik"}')
OTHER_CALL: Final = ToolCall("call_3", "get_weather", '{"city": "Oslo"}')
CUT_CALL: Final = ToolCall("call_1", "get_weather", '{"city": "Reykj')


def shorter(messages: Sequence[Any]) -> Any:
    return messages[-1:]


Check = Callable[[Ended], None]


@frozen(kw_only=True)
class Scene:
    """Hold what providers do, and what a call makes of it.

    Arguments:
        scripts: for each backend what it answers; the last reply is repeated.
        outcome: what the call ends with.
        text: the whole of it.
        path: the rungs and the outcome; `whole_path` where the reply was not asked for as a stream.
        modes: those in which it is played.
        options: for the call.
        check: looks at what was sent.
    """

    scripts: tuple[tuple[Scripted, ...], ...]
    outcome: str = "done"
    text: str = WELL.text
    path: str = "done"
    whole_path: str | None = None
    modes: tuple[str, ...] = EVERY
    options: dict[str, Any] = field(factory=dict)
    check: Check = lambda ended: None


def ends_with(*turns: tuple[str, str]) -> Check:
    """Check that the last request ends with these turns."""

    def check(ended: Ended) -> None:
        said = [(one.role, one.text.rstrip()) for one in protocols.said(ended.requests[-1])][
            -len(turns) :
        ]
        assert [role for role, _ in said] == [role for role, _ in turns]
        assert [text for _, text in said[1:]] == [text.rstrip() for _, text in turns[1:]]
        # it may share its turn with what was said before
        assert said[0][1].endswith(turns[0][1].rstrip())

    return check


def caps(*expected: int) -> Check:
    def check(ended: Ended) -> None:
        assert ended.caps == [*expected]

    return check


def waits(*seconds: float) -> Check:
    def check(ended: Ended) -> None:
        assert ended.waits == [*seconds]

    return check


def calls(*expected: ToolCall) -> Check:
    def check(ended: Ended) -> None:
        assert [
            (each.name, each.arguments.replace(" ", "")) for each in ended.result.tool_calls
        ] == [(each.name, each.arguments.replace(" ", "")) for each in expected]

    return check


def reasoned(text: str) -> Check:
    def check(ended: Ended) -> None:
        assert ended.result.reasoning == text

    return check


def both(*checks: Check) -> Check:
    def check(ended: Ended) -> None:
        for each in checks:
            each(ended)

    return check


SCENES: Final[dict[str, Scene]] = {
    "clean": Scene(scripts=((WELL,),)),
    "reasoning": Scene(scripts=((ScriptedReply(WELL.text, reasoning="Herons like reeds."),),)),
    "reasoning in channels of the text": Scene(
        scripts=((ScriptedReply(f"{CHANNELS}{WELL.text}<|return|>", chunk_size=7),),),
        check=reasoned("Herons like reeds."),
    ),
    "reasoning in channels of the text alone": Scene(
        scripts=((ScriptedReply(CHANNELS), WELL),),
        path="prefill done",
    ),
    "rate limit": Scene(
        scripts=((ScriptedReply(status=429, headers={"retry-after": "30"}), WELL),),
        path="retry done",
        check=waits(30),
    ),
    "nothing to say to a tool": Scene(
        scripts=((ScriptedReply(), WELL),),
        path="nudge done",
        options={"messages": AFTER_A_TOOL, "tools": [WEATHER_TOOL]},
        check=ends_with(("assistant", "(no reply)"), ("user", "Answer now.")),
    ),
    "thinking only": Scene(
        scripts=((ScriptedReply(reasoning="Herons like reeds."), WELL),),
        path="prefill done",
        check=ends_with(("user", "You thought: Herons like reeds.")),
    ),
    "truncated twice": Scene(
        scripts=(
            (
                ScriptedReply(LONG[:64], finish="length"),
                ScriptedReply(LONG[64:192], finish="length"),
                ScriptedReply(LONG[192:]),
            ),
        ),
        text=LONG,
        path="continuation continuation done",
        options={"max_tokens": 40},
        check=both(caps(40, 80, 120), ends_with(("assistant", LONG[:192]), ("user", "Go on."))),
    ),
    "a stream cut in the middle": Scene(
        scripts=((protocols.cut_in_half(ScriptedReply(TIDES)), ScriptedReply(TIDES)),),
        text=TIDES,
        path="continuation done",
        whole_path="retry done",
    ),
    "a stream that falls silent": Scene(
        scripts=(
            (protocols.cut_in_half(ScriptedReply(TIDES), hang=True),),
            (ScriptedReply(TIDES),),
        ),
        text=TIDES,
        path="fallback done",
        modes=MODES,
        options={"policy": HASTY},
    ),
    "a cut tool call": Scene(
        scripts=(
            (
                ScriptedReply("Let me look.", tool_calls=(CUT_CALL,), finish="length"),
                ScriptedReply(tool_calls=(CALL,)),
            ),
        ),
        text="",
        path="enlarge done",
        options={"tools": [WEATHER_TOOL], "max_tokens": 40},
        check=both(calls(CALL), caps(40, 80)),
    ),
    "tool calls": Scene(
        scripts=((ScriptedReply("I look.", tool_calls=(CALL, OTHER_CALL)),),),
        text="I look.",
        options={"tools": [WEATHER_TOOL]},
        check=calls(CALL, OTHER_CALL),
    ),
    "a refusal": Scene(
        scripts=(
            (ScriptedReply("To kill a zombie, you first", finish="content_filter"),),
            (WELL,),
        ),
        path="fallback done",
    ),
    "refused by all": Scene(
        scripts=((ScriptedReply(finish="content_filter"),),),
        outcome="refused",
        text="",
        path="refused",
    ),
    "everything is broken": Scene(
        scripts=(
            (
                ScriptedReply(status=500),
                ScriptedReply(),
                ScriptedReply(body="<html>It works!</html>"),
            ),
            (ScriptedReply(status=529), ScriptedReply(cut_after=0), ScriptedReply(status=401)),
        ),
        outcome="failed",
        text="",
        path="retry reask fallback retry retry failed",
    ),
    "a wrong key": Scene(scripts=((ScriptedReply(status=401),), (WELL,)), path="fallback done"),
    "no such model": Scene(scripts=((ScriptedReply(status=404),), (WELL,)), path="fallback done"),
    "an error inside": Scene(
        scripts=(
            (
                ScriptedReply(
                    TIDES, error_event={"message": "Overloaded", "type": "overloaded_error"}
                ),
                ScriptedReply(TIDES),
            ),
        ),
        text=TIDES,
        path="continuation done",
        whole_path="retry done",
    ),
    "a prompt that does not fit": Scene(
        scripts=((ScriptedReply(status=400, error=TOO_LONG), WELL),),
        path="compact done",
        options={
            "compactor": shorter,
            "messages": [
                *MESSAGES,
                assistant("Here."),
                {"role": "user", "content": "Shorter?"},
            ],
        },
        check=ends_with(("user", "Shorter?")),
    ),
    "a history that ends on an answer": Scene(
        scripts=((WELL,),),
        options={"messages": [*MESSAGES, assistant("They nest")]},
        check=ends_with(("assistant", "They nest"), ("user", "Go on.")),
    ),
    "empty for ever": Scene(
        scripts=((ScriptedReply(),),),
        outcome="exhausted",
        text="",
        path="reask reask reask exhausted",
    ),
    "a word that nobody knows": Scene(
        scripts=((ScriptedReply("In the", finish="gremlins"), WELL),), path="recheck done"
    ),
}

COMMON: Final = ("call", "stream")
"""The modes of the ordinary run for every protocol; the others are tried with a few scenes."""


def _cases() -> list[Any]:
    cases = []
    for api in protocols.PROTOCOLS:
        for number, (name, scene) in enumerate(SCENES.items()):
            for mode in scene.modes:
                is_full = mode != (*COMMON, "awhole", "whole")[(number + len(api)) % 4] and not (
                    mode == "stream" and name in ("clean", "tool calls", "truncated twice")
                )
                marks = [pytest.mark.full] if is_full else []
                cases.append(
                    pytest.param(
                        api, name, mode, id=f"{api}-{name.replace(' ', '-')}-{mode}", marks=marks
                    )
                )
    return cases


@pytest.mark.parametrize(("api", "name", "mode"), _cases())
def test_every_scene_is_the_same_call(
    api: str,
    name: str,
    mode: str,
    stages: tuple[Stage, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = SCENES[name]
    ended = Run(mode, stages, caplog, api)(*scene.scripts, **{"policy": POLICY, **scene.options})
    path = scene.whole_path if scene.whole_path and mode in WHOLE else scene.path
    ended.was(scene.outcome, scene.text, path=path)
    scene.check(ended)

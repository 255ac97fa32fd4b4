"""The official SDKs over `rungwise.Transport`: whatever protocol the backend speaks, each gets its
own.
"""

import json
from typing import Any, Final

import anyio
import httpx
import httpx2
import pytest

from rungwise import Limits, Policy, ToolCall
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import PATHS, TOOLS, asked, chained, written
from support.protocols import PROTOCOLS, cut_in_half
from support.runs import Stage, Stages
from support.sdks import APIS, FINISHES, WAYS

TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."
THOUGHT: Final = "Herons like reeds."
CALLS: Final = (
    ToolCall("call_1", "look", '{"bird": "heron"}'),
    ToolCall("call_2", "look", '{"bird": "egret"}'),
)
SIGNED: Final = "c2lnbmVkIGJ5IG1l"
THINKING: Final = ScriptedReply(reasoning=THOUGHT, signature=SIGNED, tool_calls=CALLS[:1])

every = pytest.mark.parametrize("api", APIS)
everywhere = pytest.mark.parametrize("backend", PROTOCOLS)
always = pytest.mark.parametrize("way", WAYS)


few = pytest.mark.sampled(8)


def usage_fields(api: str) -> dict[str, Any]:
    """Ask for usage in a stream, where a protocol wants to be asked."""
    return {"stream_options": {"include_usage": True}} if api == "openai" else {}


def asked_of(stage: Stage) -> str:
    return "".join(message.text for message in protocols.said(stage.requests[-1]))


@every
@everywhere
@always
def test_an_sdk_reads_text_reasoning_and_usage(
    api: str,
    backend: str,
    way: str,
    stages: Stages,
) -> None:
    reply = ScriptedReply(TEXT, reasoning=THOUGHT, chunk_size=5)
    fields = usage_fields(api) if sdks.streams(way) else {}
    seen = asked(stages, api, way, (backend, [reply]), **fields)
    assert seen.error is None
    is_shown = api != "anthropic" or backend == "anthropic"  # which was not asked to think
    assert (seen.text, seen.reasoning, seen.refusal) == (TEXT, THOUGHT if is_shown else "", "")
    assert seen.finish == FINISHES[api]["stop"]
    assert seen.model == "model-0"
    [request] = stages[0].requests
    assert sdks.QUESTION in asked_of(stages[0])
    assert protocols.model_of(request) == "model-0"
    assert seen.usage is not None
    assert min(seen.usage) > 0
    assert len(seen.events) > 2 or not sdks.streams(way)


def in_a_tool_loop(
    stages: Stages, api: str, way: str, backend: str, *asks: Any, **fields: Any
) -> tuple[sdks.Seen, sdks.Seen]:
    """Let a model call tools, send their results back with all that it said, and return both
    answers.
    """
    fields["tools"] = TOOLS[api]
    with chained(stages, (backend, [*asks, ScriptedReply(TEXT)])) as transport:
        first = sdks.ask(api, way, transport=transport, **fields)
        results = ("Grey.", "White.")[: len(first.calls)]
        turns = sdks.turn_after(api, sdks.QUESTION, first, *results)
        second = sdks.ask(api, way, turns, transport=transport, **fields)
    assert (first.error, second.error, second.text) == (None, None, TEXT)
    return first, second


@every
@everywhere
@always
def test_an_sdk_reads_calls_of_tools_and_sends_the_results_back(
    api: str,
    backend: str,
    way: str,
    stages: Stages,
) -> None:
    asks = ScriptedReply("I look.", reasoning=THOUGHT, signature=SIGNED, tool_calls=CALLS)
    first, second = in_a_tool_loop(stages, api, way, backend, asks)
    assert first.calls == [("look", {"bird": "heron"}), ("look", {"bird": "egret"})]
    assert first.finish == FINISHES[api]["tools"]
    sent = protocols.said(stages[0].requests[-1])
    assert [json.loads(call.arguments) for one in sent for call in one.tool_calls] == [
        {"bird": "heron"},
        {"bird": "egret"},
    ]
    assert [result.text for one in sent for result in one.tool_results] in (
        ["Grey.", "White."],
        ['{"output":"Grey."}', '{"output":"White."}'],
    )
    assert first.id != second.id


@always
@pytest.mark.parametrize("text", ["", "I look."])
@pytest.mark.parametrize("api", ["anthropic", "responses", "gemini", "interactions"])
def test_a_signature_without_words_comes_back_too(
    api: str,
    text: str,
    way: str,
    stages: Stages,
) -> None:
    """Providers may keep the words of the reasoning to themselves; without its signature it is lost
    all the same.
    """
    asks = ScriptedReply(text, signature=SIGNED, tool_calls=CALLS)
    first, _ = in_a_tool_loop(stages, api, way, api, asks)
    assert (first.text, len(first.calls)) == (text, 2)
    assert json.dumps(stages[0].requests[-1].body).count(SIGNED) == 1


@every
@always
def test_what_a_provider_has_signed_comes_back_to_it(api: str, way: str, stages: Stages) -> None:
    """A tool loop with thinking: without the signature, Anthropic, Gemini and Responses refuse or
    forget it.
    """
    wanted: dict[str, dict[str, Any]] = {
        "responses": {"include": ["reasoning.encrypted_content"], "store": False},
        "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
        "gemini": {"thinking_config": {"include_thoughts": True}},
    }
    in_a_tool_loop(stages, api, way, api, THINKING, **wanted.get(api, {}))
    body = json.dumps(stages[0].requests[-1].body)
    assert (SIGNED in body) is (api != "openai")  # whose reasoning nobody signs
    if api in ("anthropic", "responses"):
        assert THOUGHT in body


whole_or_streamed = pytest.mark.parametrize("way", ["whole", "stream"])


@every
@whole_or_streamed
def test_reasoning_of_two_attempts_has_no_signature(api: str, way: str, stages: Stages) -> None:
    """A signature holds for the words that were signed; a provider refuses it beside others."""
    cut = cut_in_half(ScriptedReply(reasoning="First, which lake?" * 9))
    in_a_tool_loop(stages, api, way, "anthropic", cut, THINKING)
    blocks = [
        block
        for turn in stages[0].requests[-1].body["messages"]
        for block in turn["content"]
        if turn["role"] == "assistant"
    ]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    assert all((block["thinking"], block["signature"]) == (THOUGHT, SIGNED) for block in thoughts)


@every
@whole_or_streamed
def test_signatures_stay_with_the_provider_that_made_them(
    api: str, way: str, stages: Stages
) -> None:
    """What one protocol signed is no signature in another: nothing unsigned is passed off as
    signed.
    """
    other = next(each for each in ("anthropic", "gemini") if each != api)
    first, _ = in_a_tool_loop(stages, api, way, other, THINKING)
    assert SIGNED not in str(first.said)
    assert SIGNED not in json.dumps(stages[0].requests[-1].body)


@every
@everywhere
@always
def test_a_partial_answer_ends_as_cut_by_length(
    api: str,
    backend: str,
    way: str,
    stages: Stages,
) -> None:
    cut = ScriptedReply(TEXT, finish="length")
    seen = asked(stages, api, way, (backend, [cut]), policy=Policy(limits=Limits(continuations=0)))
    assert (seen.error, seen.text, seen.finish) == (None, TEXT, FINISHES[api]["length"])


@every
@always
@pytest.mark.parametrize("backend", ["openai", "responses", "gemini"])
def test_a_cut_stream_that_nobody_continues_ends_as_cut_by_length(
    api: str,
    way: str,
    backend: str,
    stages: Stages,
) -> None:
    once = Policy(limits=Limits(retries=0, continuations=0))
    seen = asked(stages, api, way, (backend, [cut_in_half(ScriptedReply(TEXT))]), policy=once)
    assert (seen.error, seen.finish) == (None, FINISHES[api]["length"])
    assert seen.text
    assert TEXT.startswith(seen.text)


@every
@always
# which has no word for it
@pytest.mark.parametrize("backend", [api for api in PROTOCOLS if api != "ollama"])
def test_a_refusal_has_its_protocols_form(
    api: str,
    backend: str,
    way: str,
    stages: Stages,
) -> None:
    says_why = backend != "bedrock"
    reply = (
        ScriptedReply(refusal="I will not.") if says_why else ScriptedReply(finish="content_filter")
    )
    seen = asked(stages, api, way, (backend, [reply]))
    assert (seen.error, seen.text) == (None, "")
    if says_why and api != "gemini":  # whose SDK drops the message
        assert seen.refusal == "I will not."
    else:
        assert seen.finish == FINISHES[api]["filtered"]
    assert len(stages[0].requests) == 1


# what the ladder does meanwhile


@every
@always
@everywhere
@pytest.mark.sampled(3)
def test_a_cut_stream_is_continued_by_a_backend_of_another_protocol(
    api: str,
    way: str,
    backend: str,
    stages: Stages,
) -> None:
    other = PROTOCOLS[(PROTOCOLS.index(backend) + 1) % len(PROTOCOLS)]
    once = Policy(limits=Limits(retries=0, continuations=0))
    whole = ScriptedReply(TEXT, chunk_size=4)
    said: list[str] = []

    def rest(request: Any) -> ScriptedReply:
        said.append([one.text for one in protocols.said(request) if one.role == "assistant"][-1])
        return ScriptedReply(TEXT.removeprefix(said[0]))

    seen = asked(stages, api, way, (backend, [cut_in_half(whole)]), (other, [rest]), policy=once)
    assert (seen.error, seen.text, seen.finish) == (None, TEXT, FINISHES[api]["stop"])
    assert [len(stage.requests) for stage in stages[:2]] == [1, 1]
    assert said[0]
    if not sdks.streams(way):
        assert seen.model == "model-1"


@few
def test_one_transport_serves_threads_and_event_loops_at_once(stages: Stages) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def answer(request: Any) -> ScriptedReply:
        return ScriptedReply(protocols.said(request)[-1].text)

    cases = [
        (api, way, f"{api} {way} {number}") for number in range(3) for api in APIS for way in WAYS
    ]
    with chained(stages, ("openai", [answer])) as transport, ThreadPoolExecutor(8) as pool:
        seen = pool.map(
            lambda case: sdks.ask(case[0], case[1], case[2], transport=transport), cases
        )
        assert [(one.error, one.text) for one in seen] == [(None, text) for _, _, text in cases]


@few
@every
def test_an_sdk_that_is_closed_leaves_the_client_open(api: str, stages: Stages) -> None:
    with chained(stages, ("openai", [ScriptedReply(TEXT)])) as transport:
        for way in WAYS:
            assert sdks.ask(api, way, transport=transport).text == TEXT
        with transport:
            pass
        assert sdks.ask(api, "whole", transport=transport).text == TEXT


@few
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("streams", [False, True])
def test_it_serves_both_libraries_on_both_event_loops(
    loop: str,
    library: Any,
    streams: bool,
    stages: Stages,
) -> None:
    async def main(transport: Any) -> str:
        body = {**written("openai"), "stream": streams}
        async with library.AsyncClient(transport=transport) as program:
            response = await program.post(f"{sdks.HOST}{PATHS['openai']}", json=body)
        assert isinstance(response, library.Response)
        await transport._gateway.chains["*"].aclose()
        return str(response.text)

    with chained(stages, ("openai", [ScriptedReply("Reeds.")])) as transport:
        assert "Reeds." in anyio.run(main, transport, backend=loop)
        with library.Client(transport=transport) as program:
            response = program.post(
                f"{sdks.HOST}{PATHS['openai']}", json={**written("openai"), "stream": streams}
            )
        assert "Reeds." in response.text

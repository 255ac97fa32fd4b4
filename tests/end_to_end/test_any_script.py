"""Two providers do anything that a script can say."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import attrs
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.adapters.provider.server import render
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.modes import EVERY, ask, follow, options_of, streams, waits_into
from support.sampling import examples

MESSAGES = [{"role": "user", "content": "Where do herons nest?"}]
AFTER_A_TOOL = [
    *MESSAGES,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "Three nests."},
]
ONE = rungwise.Limits(**{**dict.fromkeys(rungwise.Limits(), 1), "fallbacks": None})
POLICIES = {
    "three attempts": rungwise.Policy(budget=rungwise.Budget(attempts=3)),
    "the default": rungwise.Policy(),
    "one of each": rungwise.Policy(limits=ONE, budget=rungwise.Budget(attempts=200)),
    "a thousand tokens": rungwise.Policy(budget=rungwise.Budget(output_tokens=1000)),
}

# What stands in braces becomes a word that no other reply holds: {a} and {b} are visible, {r} is
# reasoning.
TEXTS = (
    "",
    " \n",
    "{a}",
    "{a} {b} ",
    "< {a}",
    "{a} <thi",
    "{r}\n</think>{a}",
    "{a}\n\n{b}\n",
    "<think></think>",
    "<think>{r}</think>",
    "<think>{r}</think>{a}\n<think>{r}</think>{b}",
    "<think>{r}",
    "<reasoning>{r}</reasoning>",
    "<thought>{r}</thought>{a}",
    "<|channel|>analysis<|message|>{r}",
    "<|channel|>analysis<|message|>{r}<|end|><|start|>assistant<|channel|>final<|message|>{a}",
)
ARGUMENTS = ('{{"q": "{t}"}}', '{{"q": "{t}', "", "{{}}", "[1]", '{{"q": "{t}"}} x', "null")
FINISHES = (
    None,
    None,
    None,
    "stop",
    "stop",
    "length",
    "length",
    "length",
    "max_tokens",
    "",
    "tool_calls",
    "content_filter",
    "pause_turn",
    "banana",
    "error",
)
HONEST_FINISHES = ("stop", "tool_calls", "", None)
"""Those of a reply that is `done`: without a word, the terminal event says that it has ended."""
ERRORS = (
    {"message": "The server had an error.", "type": "server_error"},
    {"message": "Slow down.", "code": "rate_limit_exceeded"},
    {"message": "Try again in 7s.", "code": "rate_limit_exceeded"},
    {"message": "Try again in 10m.", "code": "rate_limit_exceeded"},
    {"message": "Bad key.", "code": "invalid_api_key"},
    {"message": "Filtered.", "code": "content_filter"},
    {"message": "Too long.", "code": "context_length_exceeded"},
    {
        "message": "Unsupported parameter: 'temperature'.",
        "code": "unsupported_parameter",
        "param": "temperature",
    },
    {"message": "This model does not support assistant message prefill."},
    {"message": "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"},
    {"message": "unknown error", "code": 999},
)
BODIES = (
    "",
    "null",
    "[]",
    "{}",
    '"text"',
    "<html></html>",
    '{"choices": []}',
    '{"choices": [{"index": 0',
    '{"choices": [{"index": 0, "message": null}]}',
    'data: {"choices": []}\n\n',
    "data: {\n\n",
    "data: [DONE]\n\n",
    ": ping\n\n",
    '{"error": {"message": "Overloaded.", "type": "overloaded_error"}}',
)
STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529, 599)
HEADERS = (
    {},
    {"retry-after": "3"},
    {"retry-after": "900"},
    {"x-should-retry": "false"},
    {"x-should-retry": "true"},
)
USAGES = (
    None,
    {},
    {"prompt_tokens": 9, "completion_tokens": 40},
    {"prompt_tokens": 9, "completion_tokens": 400},
)


def tool_calls() -> st.SearchStrategy[Any]:
    names = st.sampled_from(["look", "look", ""])
    arguments = st.sampled_from(ARGUMENTS)
    return st.lists(st.fixed_dictionaries({"name": names, "arguments": arguments}), max_size=2)


def optional(strategy: st.SearchStrategy[Any], otherwise: Any) -> st.SearchStrategy[Any]:
    """Draw something rather seldom."""
    return st.integers(0, 5).flatmap(lambda number: strategy if number == 5 else st.just(otherwise))


ANSWERS = st.builds(
    ScriptedReply,
    text=st.sampled_from(TEXTS),
    reasoning=st.sampled_from(["", "", "{r} "]),
    reasoning_field=st.sampled_from(
        ["reasoning_content", "reasoning", "reasoning_text", "reasoning_details"]
    ),
    tool_calls=optional(tool_calls(), ()),
    finish=st.sampled_from(FINISHES),
    refusal=optional(st.just("no"), ""),
    usage=st.sampled_from(USAGES),
    cut_after=optional(st.integers(0, 1500), None),
    chunk_size=st.sampled_from([1, 7, 100]),
    done=st.booleans(),
    error_event=optional(st.sampled_from(ERRORS), None),
    final_message=optional(st.sampled_from(["", True, "{b} "]), None),
)
FAILURES = st.builds(
    ScriptedReply,
    status=st.sampled_from(STATUSES),
    error=st.sampled_from([None, *ERRORS]),
    headers=st.sampled_from(HEADERS),
    cut_after=optional(st.integers(0, 80), None),
)
SHAPELESS = st.builds(
    ScriptedReply, body=st.sampled_from(BODIES), status=st.sampled_from([200, 200, 500])
)
REPLIES = st.one_of(ANSWERS, ANSWERS, ANSWERS, FAILURES, SHAPELESS)
SCRIPTS = st.lists(REPLIES, min_size=1, max_size=8)


def filled(reply: ScriptedReply, number: int, request: ReceivedRequest) -> ScriptedReply:
    """Put words into a reply that no other reply holds."""
    words = {
        "a": f"word{number:03}a.",
        "b": f"word{number:03}b.",
        "r": f"thought{number:03}",
        "t": f"query{number:03}",
    }
    calls = [
        attrs.evolve(call, arguments=call.arguments.format(**words)) for call in reply.tool_calls
    ]
    final = (
        reply.final_message.format(**words)
        if isinstance(reply.final_message, str)
        else reply.final_message
    )
    text = reply.text.format(**words)
    reasoning = reply.reasoning.format(**words)
    reply = attrs.evolve(
        reply, text=text, reasoning=reasoning, tool_calls=calls, final_message=final
    )
    if reply.cut_after is not None and reply.cut_after >= len(render(reply, request.body).body):
        # The server would close the connection behind a whole body, and the next request might be
        # lost on it.
        return attrs.evolve(reply, cut_after=None)
    return reply


class Theatre:
    """Two providers and an HTTP client, all kept open for as long as the examples last."""

    def __init__(self, http: httpx.Client) -> None:
        self.play([[ScriptedReply()]] * 2)
        self.providers = [EmbeddedProvider(self._responder(index)) for index in range(2)]
        self.waits: list[float] = []
        self._http = http

    def play(self, scripts: list[list[ScriptedReply]]) -> None:
        self.scripts = scripts
        self.requests: list[ReceivedRequest] = []
        self.replies: list[ScriptedReply] = []
        self.counts = [0, 0]

    def _responder(self, index: int) -> Callable[[ReceivedRequest], ScriptedReply]:
        def respond(request: ReceivedRequest) -> ScriptedReply:
            script = self.scripts[index]
            reply = filled(script[self.counts[index] % len(script)], len(self.requests), request)
            self.counts[index] += 1
            self.requests.append(request)
            self.replies.append(reply)
            return reply

        return respond

    def ask(
        self,
        mode: str,
        policy: str,
        prefill: Any,
        options: dict[str, Any],
        events: list[Any],
    ) -> rungwise.Result:
        chain = [
            OpenAIChat(
                f"model-{index}",
                base_url=provider.base_url,
                name=f"backend-{index}",
                prefill=prefill,
            )
            for index, provider in enumerate(self.providers)
        ]
        waits = self.waits = []

        told = {**waits_into(waits), **options_of(mode)}
        client = Client(
            chain,
            policy=POLICIES[policy],
            http=self._http,
            contents=True,
            **told,
        )

        return ask(client, mode, options.pop("messages"), events=events, **options)


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with httpx.Client(timeout=5) as http:
        theatre = Theatre(http)
        yield theatre
        for provider in theatre.providers:
            provider.close()


# An example sends up to some twenty requests over HTTP, so Hypothesis may find the generation of
# data slow.
CALM = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])


@CALM
@given(
    scripts=st.tuples(SCRIPTS, SCRIPTS),
    policy=st.sampled_from(sorted(POLICIES)),
    mode=st.sampled_from([*EVERY, "stream"]),
    prefill=st.sampled_from(["no", "trailing"]),
    max_tokens=st.sampled_from([None, 40, 5000]),
    after_a_tool=st.booleans(),
)
def test_whatever_two_providers_do_the_call_ends_within_its_budget_and_stays_honest(
    theatre: Theatre,
    scripts: tuple[list[ScriptedReply], list[ScriptedReply]],
    policy: str,
    mode: str,
    prefill: Any,
    max_tokens: int | None,
    after_a_tool: bool,
) -> None:
    theatre.play(list(scripts))
    events: list[Any] = []
    options = {
        "messages": AFTER_A_TOOL if after_a_tool else MESSAGES,
        "max_tokens": max_tokens,
        "parameters": {"temperature": 0.5},
    }
    error = None
    try:
        result = theatre.ask(mode, policy, prefill, options, events)
    except rungwise.CallError as raised:
        error = raised
        result = raised.result
    check_budget(theatre, result, policy, max_tokens)
    check_honesty(theatre, result, error, mode)
    if streams(mode):
        assert follow(events) == result.text
    replayed = rungwise.replay(rungwise.Journal.from_json(result.journal.to_json()))
    assert replayed.journal.steps == result.journal.steps
    assert (replayed.outcome, replayed.text) == (result.outcome, result.text)


@cache
def worst_of(policy: str, max_tokens: int | None) -> dict[str, float]:
    """Return the worst cases that the certificate states."""
    certificate = verify(POLICIES[policy], 2, max_tokens=max_tokens)
    assert certificate.ok
    return {case.name: case.value for case in certificate.worst if case.value is not None}


def check_budget(
    theatre: Theatre,
    result: rungwise.Result,
    policy: str,
    max_tokens: int | None,
) -> None:
    # A certificate takes half a second; what the caps can come to is looked at for one policy.
    worst = worst_of(policy, max_tokens if policy == "one of each" else None)
    budget = POLICIES[policy].budget
    assert len(theatre.requests) == result.attempts <= min(budget.attempts, worst["attempts"])
    assert sum(theatre.waits) <= worst["waiting seconds"]
    caps = [request.body.get("max_tokens") for request in theatre.requests]
    if max_tokens is not None and policy == "one of each":
        assert sum(caps) <= worst["output tokens"]
    left = budget.output_tokens
    if left is None:
        return
    sends = [step for step in result.journal.steps if step.event == "sent"]
    for cap, step in zip(caps, sends, strict=True):
        spent = sum(earlier.usage.output_tokens for earlier in result.journal.steps[: step.number])
        assert 1 <= cap <= left - spent


def check_honesty(
    theatre: Theatre,
    result: rungwise.Result,
    error: Any,
    mode: str,
) -> None:
    steps = [
        step for step in result.journal.steps if step.event not in ("sent", "skipped", "ran_out")
    ]
    answers = list(zip(steps, theatre.replies, strict=True))
    words = re.findall(r"word\d+[ab]", result.text)
    assert words == sorted(set(words)), "something is said twice, or out of order"
    # What goes on natively amid a line is text, whatever it begins with: only a turn of its own
    # opens reasoning there.
    goes_on = any(
        request.body["messages"][-1]["role"] == "assistant" for request in theatre.requests
    )
    assert goes_on or "thought" not in result.text
    assert "query" not in result.text
    assert (error is None) == (result.outcome in ("done", "salvaged", "partial"))
    if error is None:
        assert result.text.strip() or result.tool_calls
    for number, (step, reply) in enumerate(answers):
        said = set(re.findall(r"word\d+[ab]", reply.text))
        # A closing tag that nobody opened says of the text before it, in earlier parts as well,
        # that it was reasoning.
        unsaid = any("\n</think>" in later.text for _, later in answers[number:])
        # A wrong answer goes back with all its parts for a better one, and stands where none comes.
        corrected = any(later.target == "correct" for later, _ in answers[number:])
        if (
            step.event in ("truncated", "paused")
            and reply.final_message is None
            and not (unsaid or corrected)
        ):
            assert said <= set(words), "a part that was gathered is lost"
        elif step.event == "ended_unclearly" or step.event.endswith("_wrongly"):
            # It is what the call ends `partial` with if nothing better comes.
            assert not said & set(words) or result.outcome != "done"
        elif step.event not in (
            "truncated",
            "paused",
            "answered",
            "called_tools",
            "interrupted",
            "overflowed",
        ):
            assert not said & set(words) or result.outcome == "salvaged"
    if any(step.event.endswith("_wrongly") for step in steps):
        gathered = any("has_text" in step.facts for step in steps)
        assert result.outcome not in ("failed", "exhausted") or not gathered, (
            "text that was gathered is an error"
        )
    last_step, last = answers[-1]
    if result.outcome == "done":
        assert last.status == 200
        assert last.body is None
        assert not last.refusal
        assert last.finish in HONEST_FINISHES
    if last_step.event == "answered" and not streams(mode):
        # A whole message in the last chunk is what the provider means; where nobody has read the
        # deltas, it counts.
        final = last.final_message if theatre.requests[-1].body.get("stream") else None
        meant = final if final and isinstance(final, str) else last.text
        assert set(re.findall(r"word\d+[ab]", meant)) <= set(words)
    calls = [(call.name, call.arguments) for call in result.tool_calls]
    if calls:
        assert result.outcome == "done"
        assert calls == [(call.name, call.arguments) for call in last.tool_calls]
        assert all(isinstance(json.loads(arguments or "{}"), dict) for _, arguments in calls)
    # the first words of its text are what a repr is asked for
    told = f"{error} {attrs.evolve(result, text='')!r}"
    assert not re.search(r"word\d|thought\d|query\d", told)
    assert "herons" not in told

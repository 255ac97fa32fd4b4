"""What `rungwise fuzz` runs: calls through the real adapters and drivers, and turns in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import attrs
from attrs import define, evolve, field, frozen
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.adapters.client import Client
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.provider.server import ReceivedRequest, render
from rungwise.adapters.testing.case import (
    MODES,
    PRICES,
    Case,
    Squeeze,
    cases,
    is_streaming,
    names_no_river,
    squeezes,
)
from rungwise.adapters.testing.runner import KEY, CaseRunner
from rungwise.adapters.testing.scripts import scripted_replies, scripts
from rungwise.adapters.testing.search import FuzzFinding, Search, Shrinkable, with_defaults
from rungwise.adapters.testing.survival import assert_survives, check_requests
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.learned import LEARNED
from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.chain.for_backend import longest_json_instruction
from rungwise.fsm.call.chain.link import PlainLink, most_keys
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy, Timeouts
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.replies.text.stitching import stitch
from rungwise.fsm.replies.text.thinking import part_thinking, split_thinking
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.honesty import check_all, check_turn, record_turn
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.hostile.raw import RawResponse, write_responses
from rungwise.fsm.testing.hostile.responses import raw_responses
from rungwise.fsm.testing.scripted import ScriptedLink
from rungwise.fsm.testing.turn_player import run_turn
from rungwise.fsm.testing.turn_script import TurnScript, write_turn_script
from rungwise.fsm.testing.turn_strategies import scripts_of_turns
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy

SENT = "what is done is what the provider sent"

# the budget of a hostile call: real time, as nobody can tell a socket that time has passed
SECONDS = 0.4
LONGEST_WAIT = 0.05
TIMEOUTS = Timeouts(connect=0.3, first_token=0.3, stall=0.2, total=0.3)


@frozen
class HostileCase(Shrinkable):
    """One call to a server that writes hostile bytes."""

    responses: tuple[RawResponse, ...]  # request by request; the last one repeats
    mode: str = "call"

    def describe(self) -> Iterator[str]:
        """Describe what the responses do not show."""
        yield f"mode: {self.mode}"
        yield f"hostile bytes: {', '.join(response.kind for response in self.responses)}"
        yield (
            "replay: rungwise.testing.assert_survives(client_of, "
            "rungwise.testing.read_responses(text), mode=...)"
        )

    def to_toml(self) -> str:
        """Write the responses as TOML, which `rungwise.testing.read_responses` takes."""
        return write_responses(self.responses)

    def run(
        self,
        policy: Policy,
        backends: int,
        key: str,
        certificate: Certificate | None,
        prices: Prices,
    ) -> Result:
        """Make the call, and a healthy one after it; return the result of the first."""
        LEARNED.forget()

        def client_of(base_url: str) -> Client:
            chain = [
                OpenAIChat(
                    f"model-{number}",
                    name=f"backend-{number}",
                    base_url=base_url,
                    api_key=key,
                    prices=prices,
                )
                for number in range(1, backends + 1)
            ]
            return Client(chain, policy=hurried(policy))

        return assert_survives(
            client_of, self.responses, mode=self.mode, certificate=certificate, secrets=[key]
        )

    def shrunk(self, fails: Callable[[HostileCase], bool]) -> HostileCase:
        """Return a smaller failing case: a single response and the simplest method, since every try
        takes real time.
        """
        alone = [attrs.evolve(self, responses=(response,)) for response in self.responses]
        case = next(filter(fails, alone), self) if len(alone) > 1 else self
        plain = HostileCase(case.responses, case.mode.removeprefix("a"))
        return plain if plain != case and fails(plain) else case


def hurried(policy: Policy) -> Policy:
    """Return a policy with the same rungs and little time, so that drips end soon."""
    waits = attrs.asdict(policy.waits)
    shorter = {name: min(value, LONGEST_WAIT) for name, value in waits.items() if name != "jitter"}
    return attrs.evolve(
        policy,
        budget=attrs.evolve(policy.budget, seconds=min(policy.budget.seconds or SECONDS, SECONDS)),
        timeouts=TIMEOUTS,
        waits=attrs.evolve(policy.waits, **shorter),
    )


@st.composite
def hostile_cases(draw: DrawFn) -> HostileCase:
    """Generate calls."""
    mode = draw(st.sampled_from(MODES))
    streams = is_streaming(mode) or draw(st.booleans())  # a client may have a call streamed too
    return HostileCase(tuple(draw(raw_responses(streams=streams))), mode)


SQUEEZED = 4  # one call in so many has little room

STEADY = (
    ScriptedReply(body="<html>"),
    ScriptedReply(status=500),
    ScriptedReply(),
    ScriptedReply(status=429, headers={"retry-after": "3"}),
    ScriptedReply(text="Half", finish="length"),
)
"""What a provider may answer for ever, so that the ladders are climbed to their end."""


@define(eq=False)
class Fuzzer(Search):
    """Make calls until one is dishonest or time is up; use it in a `with` block."""

    policy: Policy = DEFAULT_POLICY
    over_http: bool = False
    prices: Prices = PRICES  # of every backend
    hostile: float = 0.0  # the share of the calls, from 0 to 1, whose server writes hostile bytes
    _runner: CaseRunner = field(init=False)
    _certificates: dict[object, Certificate] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._runner = CaseRunner(self.policy, self.backends, self.over_http)

    def __enter__(self) -> Fuzzer:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def _run_numbered(self, number: int, count: int) -> FuzzFinding | None:
        hostile = round(count * self.hostile)
        # other calls hold a budget in virtual time
        squeezed = 0 if self.over_http else (count - hostile) // SQUEEZED
        steady = st.sampled_from(STEADY).map(lambda reply: Script([reply], after="repeat"))
        tight = st.builds(Case, steady | scripts(), mode=st.sampled_from(MODES), squeeze=squeezes())
        replies = scripted_replies(hangs=not self.over_http, delays=not self.over_http)
        usual = cases(replies, self.prices)
        name = f"{self.seed}/{number}"
        shrinks = (Phase.generate, Phase.shrink)
        return (
            self._run_batch(tight, f"{name}/squeezed", squeezed, shrinks)
            or self._run_batch(usual, name, count - hostile - squeezed, shrinks)
            # Hypothesis would try hundreds of smaller cases, each of which takes real time.
            or self._run_batch(hostile_cases(), f"{name}/hostile", hostile, (Phase.generate,))
        )

    def check(self, case: Case | HostileCase) -> None:
        """Make one call and check that it is honest."""
        if isinstance(case, HostileCase):
            survived = case.run(self.policy, self.backends, KEY, self.certificate, self.prices)
            self.coverage.record(EndedCall(survived, certificate=self.certificate))
            return
        events: list[object] = []
        result = self._runner.run(case, events)
        stays = (
            is_streaming(case.mode)
            and case.leaves_after is None
            and not self._runner.compactor_raised
        )
        returns = returns_of(case.wants["returns"])
        prompt = case.request.input_tokens
        if returns is not None and prompt is not None:
            wanted = {"type": "json_schema", "schema": returns.schema}
            prompt += longest_json_instruction(self._runner.chain(), self.policy.hints, wanted)
        ended = EndedCall(
            result,
            request=case.request,
            turn=case.turn,
            events=events if stays else None,
            certificate=self._certify(case.request.max_tokens, prompt, case.prices, case.squeeze),
            returns=returns,
            verdicts=(names_no_river,) if case.has_verdict else (),
            secrets=(KEY,),
            is_fair=case.is_fair,
            billed=self._runner.billed,
        )
        check_all(ended)
        received = self._runner.received
        check_requests(result, received)
        if received:
            _check_answer(
                result, self._runner.replies[-1], received[-1], seeds=case.prefill != "no"
            )
        self.coverage.record(ended)

    @cached_property
    def certificate(self) -> Certificate:
        """Return the certificate of the policy for an unknown request."""
        return verify(self.policy, self._runner.chain(prices=(self.prices,) * self.backends))

    def _certify(
        self, max_tokens: int | None, input_tokens: int | None, prices: Prices, squeeze: Squeeze
    ) -> Certificate:
        """Return the certificate for a request; only its worst cases depend on the request and the
        squeeze.
        """
        policy = squeeze.policy(self.policy)
        priced = squeeze.prices or (prices,) * self.backends
        key = max_tokens, input_tokens, priced, policy
        if key not in self._certificates:
            chain = self._runner.chain(prices=priced)
            limits = policy.limits.bounded(policy.table.limits, len(priced), most_keys(chain))
            self._certificates[key] = attrs.evolve(
                self.certificate,
                limits=limits,
                chain=tuple(link.name for link in chain),
                max_tokens=max_tokens,
                input_tokens=input_tokens,
                worst=worst_cases(policy, limits, priced, max_tokens, input_tokens),
            )
        return self._certificates[key]


def _check_answer(
    result: Result, reply: ScriptedReply, request: ReceivedRequest, *, seeds: bool
) -> None:
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
    visible = _readings(text, result)
    part = result.parts[-1] if result.parts else ""
    is_seeded = seeds and any(each.endswith(part) for each in visible)
    if part not in visible and not is_seeded and not is_blank(visible[0]):
        raise Dishonest(
            SENT, f"the text sent was {visible[0][:80]!r}, and the last part is {part[:80]!r}"
        )
    # A call without id, name and arguments is a piece with nothing in it.
    sent = [
        (call.name, call.arguments)
        for call in reply.tool_calls
        if call.id or call.name or call.arguments
    ]
    if result.tool_calls and sent != [(call.name, call.arguments) for call in result.tool_calls]:
        raise Dishonest(SENT, f"{len(sent)} tool calls were sent, and others were handed out")


def _readings(text: str, result: Result) -> list[str]:
    """Return the possible visible texts of a reply; the text before it may end within code or
    quotes.
    """
    before = ""
    for part in result.parts[:-1]:
        before += stitch(before, part)
    ways = [(more, new) for more in (False, True) for new in (False, True)]
    parted = [part_thinking(text, before, after_block=more, is_new_turn=new) for more, new in ways]
    return [split_thinking(text)[0], *(each.visible for each in parted)]


@frozen
class TurnCase(Shrinkable):
    """One turn of a fuzz run."""

    script: TurnScript

    def describe(self) -> Iterator[str]:
        """Describe how to play the script again."""
        yield (
            "play it again: rungwise.testing.run_turn(POLICY, "
            "rungwise.testing.read_turn_script(text))"
        )

    def to_toml(self) -> str:
        """Write the script as `read_turn_script` takes it."""
        return write_turn_script(self.script)

    def smaller(self) -> Iterator[TurnCase]:
        """Generate cases with one reply or tool run less, or one field at its default."""
        script = self.script
        for name in ("replies", "tools"):
            items = getattr(script, name)
            for index in range(len(items) if len(items) > 1 else 0):
                less: dict[str, Any] = {name: (*items[:index], *items[index + 1 :])}
                yield TurnCase(evolve(script, **less))
        yield from map(TurnCase, with_defaults(script, TurnScript(script.replies)))


@define(eq=False)
class TurnFuzzer(Search):
    """Play turns until one is dishonest or time is up."""

    policy: TurnPolicy = DEFAULT_TURN_POLICY
    prices: Prices = PRICES  # of every backend
    _certificates: dict[int | None, Certificate] = field(factory=dict, init=False)

    def _run_numbered(self, number: int, count: int) -> FuzzFinding | None:
        drawn = scripts_of_turns().map(TurnCase)
        return self._run_batch(
            drawn, f"{self.seed}/{number}/turns", count, (Phase.generate, Phase.shrink)
        )

    def check(self, case: TurnCase) -> None:
        """Play one turn and check that it is honest."""
        chain = [
            ScriptedLink(f"backend-{number}", prices=self.prices)
            for number in range(1, self.backends + 1)
        ]
        run = run_turn(self.policy, case.script, chain=chain)
        seen = SeenTurn(run, self._certify(case.script.max_tokens))
        check_turn(seen)
        record_turn(self.coverage, seen)

    @property
    def certificate(self) -> Certificate:
        """Return the certificate of the policy for an unknown request."""
        return self._certify(None)

    def _certify(self, max_tokens: int | None) -> Certificate:
        if max_tokens not in self._certificates:
            chain = [
                PlainLink(f"backend-{number}", prices=self.prices)
                for number in range(1, self.backends + 1)
            ]
            self._certificates[max_tokens] = verify(self.policy, chain, max_tokens=max_tokens)
        return self._certificates[max_tokens]

"""What `rungwise fuzz` runs for a policy of calls: calls through the real adapters and drivers.

A batch has several kinds of calls, each with a seed of its own: those of `kinds.py`, and those to a
server that writes hostile bytes. The former run on a virtual clock, unless they go over HTTP; a
hostile server is a real one, so its calls take real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import product
from random import Random

import attrs
from attrs import define, field, frozen
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.adapters.client import Client
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import ReceivedRequest, render
from rungwise.adapters.testing.case import MODES, PRICES, Case, cases, is_streaming, names_no_river
from rungwise.adapters.testing.kinds import alike, edge_cases, near_cases, squeezed_cases
from rungwise.adapters.testing.runner import KEY, CaseRunner
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.testing.search import FuzzFinding, Search, Shrinkable
from rungwise.adapters.testing.survival import assert_survives, check_requests
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.learned import LEARNED
from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.chain.for_backend import longest_json_instruction
from rungwise.fsm.call.chain.link import most_keys
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy, Timeouts
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.replies.schemas.returns import Returns, returns_of
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.replies.text.stitching import stitch
from rungwise.fsm.replies.text.thinking import part_thinking, split_thinking
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.honesty import check_all
from rungwise.fsm.testing.hostile.raw import RawResponse, write_responses
from rungwise.fsm.testing.hostile.responses import raw_responses

SENT = "what is done is what the provider sent"

# the seconds of a hostile call: real time, as a socket does not read a virtual clock
SECONDS = 0.4
LONGEST_WAIT = 0.05
TIMEOUTS = Timeouts(
    connect=0.3,
    first_token=0.3,
    stall=0.2,
    total=0.3,
)


@frozen
class HostileCase(Shrinkable):
    """One call to a server that writes hostile bytes.

    Arguments:
        responses: what it writes, request by request; the last one repeats.
        mode: the client's method, of `MODES`.
    """

    responses: tuple[RawResponse, ...]
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
        """Make the call, and a healthy one after it; return the result of the first.

        Arguments:
            policy: of the client, which gets little time.
            backends: how many the chain has.
            key: the API key of all of them.
            certificate: what is proved of the policy.
            prices: of every backend.
        """
        LEARNED.forget()

        def client_of(base_url: str) -> Client:
            chain = []
            for number in range(1, backends + 1):
                backend = OpenAIChat(
                    f"model-{number}",
                    name=f"backend-{number}",
                    base_url=base_url,
                    api_key=key,
                    prices=prices,
                )
                chain.append(backend)
            return Client(chain, policy=hurried(policy))

        return assert_survives(
            client_of, self.responses, mode=self.mode, certificate=certificate, secrets=[key]
        )

    def shrunk(self, fails: Callable[[HostileCase], bool]) -> HostileCase:
        """Return a smaller failing case: a single response, and a method that is not async.

        Nothing else is tried, since every try takes real time.
        """
        case = self
        if len(self.responses) > 1:
            alone = [attrs.evolve(self, responses=(each,)) for each in self.responses]
            case = next(filter(fails, alone), self)
        plain = HostileCase(case.responses, case.mode.removeprefix("a"))
        if plain != case and fails(plain):
            return plain
        return case


def hurried(policy: Policy) -> Policy:
    """Return a policy with the same rungs and little time, so that drips end soon."""
    waits = attrs.asdict(policy.waits)
    del waits["jitter"]
    shorter = {name: min(seconds, LONGEST_WAIT) for name, seconds in waits.items()}
    seconds = min(policy.budget.seconds or SECONDS, SECONDS)
    return attrs.evolve(
        policy,
        budget=attrs.evolve(policy.budget, seconds=seconds),
        timeouts=TIMEOUTS,
        waits=attrs.evolve(policy.waits, **shorter),
    )


@st.composite
def hostile_cases(draw: DrawFn) -> HostileCase:
    """Generate calls."""
    mode = draw(st.sampled_from(MODES))
    streams = is_streaming(mode) or draw(st.booleans())  # a client may have a call streamed too
    return HostileCase(tuple(draw(raw_responses(streams=streams))), mode)


LATEST_KEPT = 100
"""Calls of those that reached something new with which others are crossed."""
CALLS_EACH = 25
"""Calls for which one certificate is computed at most, as it takes about as long as they do."""


@define(eq=False)
class Fuzzer(Search):
    """Make calls until one is dishonest or time is up; use it in a `with` block.

    Arguments:
        policy: of the calls.
        over_http: whether they go over real sockets, and so in real time.
        prices: of every backend.
        hostile: the share of the calls, from 0 to 1, whose server writes hostile bytes.
    """

    policy: Policy = DEFAULT_POLICY
    over_http: bool = False
    prices: Prices = PRICES
    hostile: float = 0.0
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
        name = f"{self.seed}/{number}"
        kinds = self._kinds(Random(name))
        share, rest = divmod(count - hostile, len(kinds))
        for place, (kind, drawn) in enumerate(kinds.items()):
            examples = share + (place < rest)
            shrinks = (Phase.generate, Phase.shrink)
            finding = self._run_batch(drawn, f"{name}/{kind}", examples, shrinks)
            if finding is not None:
                return finding
        # Hypothesis would try hundreds of smaller cases, each of which takes real time.
        only_generate = (Phase.generate,)
        return self._run_batch(hostile_cases(), f"{name}/hostile", hostile, only_generate)

    def _kinds(self, random: Random) -> dict[str, SearchStrategy[Case]]:
        """Return the kinds of calls of a batch, by their names."""
        in_memory = not self.over_http
        replies = scripted_replies(hangs=in_memory, delays=in_memory)
        usual = alike(random, cases(replies, self.prices), self.prices)
        kinds = {}
        if in_memory:  # other calls hold a budget in virtual time, and what hangs takes none
            kinds["edge"] = edge_cases(self.prices)
            kinds["squeezed"] = squeezed_cases(random)
        kinds["usual"] = usual
        kept = [case for case in self.kept[-LATEST_KEPT:] if isinstance(case, Case)]
        if kept:
            kinds["near"] = near_cases(kept, usual)
        return kinds

    def check(self, case: Case | HostileCase) -> None:
        """Make one call and check that it is honest."""
        if isinstance(case, HostileCase):
            survived = case.run(self.policy, self.backends, KEY, self.certificate, self.prices)
            self.coverage.record(EndedCall(survived, certificate=self.certificate))
            return
        runner = self._runner
        events: list[object] = []
        result = runner.run(case, events)
        # a consumer that left, or a compactor that raised, has not seen the end of the stream
        is_read = case.leaves_after is None and not runner.compactor_raised
        returns = returns_of(case.wants["returns"])
        certificate = self._certify(case, self._prompt_tokens(case, returns))
        verdicts = (names_no_river,) if case.has_verdict else ()
        ended = EndedCall(
            result,
            request=case.request,
            turn=case.turn,
            events=events if is_streaming(case.mode) and is_read else None,
            certificate=certificate,
            returns=returns,
            verdicts=verdicts,
            secrets=(KEY,),
            is_fair=case.is_fair,
            billed=runner.billed,
        )
        check_all(ended)
        check_requests(result, runner.received)
        if runner.received:
            seeds = case.prefill != "no"
            _check_answer(result, runner.replies[-1], runner.received[-1], seeds=seeds)
        self.coverage.record(ended)

    def _prompt_tokens(self, case: Case, returns: Returns | None) -> int | None:
        """Return the tokens of a prompt, with the longest instruction that asks for JSON."""
        tokens = case.request.input_tokens
        if returns is None or tokens is None:
            return tokens
        schema = {"type": "json_schema", "schema": returns.schema}
        return tokens + longest_json_instruction(self._runner.chain(), self.policy.hints, schema)

    @cached_property
    def certificate(self) -> Certificate:
        """Return the certificate of the policy for an unknown request."""
        return verify(self.policy, self._runner.chain(prices=(self.prices,) * self.backends))

    def _certify(self, case: Case, input_tokens: int | None) -> Certificate | None:
        """Return the certificate for a case, unless it needs one of its own too soon.

        The proofs are those of the policy; only the worst cases depend on the request and the
        squeeze.
        """
        if not case.squeeze.is_certified:
            return None
        max_tokens = case.request.max_tokens
        policy = case.squeeze.policy(self.policy)
        prices = case.prices_of(self.backends)
        key = max_tokens, input_tokens, prices, policy
        if key not in self._certificates:
            if self._failed is None and self.examples < CALLS_EACH * len(self._certificates):
                return None
            chain = self._runner.chain(prices=prices)
            limits = policy.limits.bounded(policy.table.limits, len(prices), most_keys(chain))
            worst = worst_cases(policy, limits, prices, max_tokens, input_tokens)
            self._certificates[key] = attrs.evolve(
                self.certificate,
                limits=limits,
                chain=tuple(link.name for link in chain),
                max_tokens=max_tokens,
                input_tokens=input_tokens,
                worst=worst,
            )
        return self._certificates[key]


def _check_answer(
    result: Result,
    reply: ScriptedReply,
    request: ReceivedRequest,
    *,
    seeds: bool,
) -> None:
    """Check that only a whole reply makes a call done, and that nothing of it was changed.

    Arguments:
        result: of the call.
        reply: the last reply.
        request: what it answers.
        seeds: whether the reply may have been seeded, and begin with the seed, which is no text.
    """
    if result.outcome != "done" or reply.body is not None:
        return
    has_error = reply.error is not None or reply.error_event is not None
    if has_error or not 200 <= reply.status < 300:
        raise Dishonest(SENT, "the last reply was an error")
    streams = request.body.get("stream") is True
    body = render(attrs.evolve(reply, manner=()), request.body).body
    arrived = body[: reply.cut_after]
    has_end = any(end in arrived for end in (b'"finish_reason":"', b"data: [DONE]"))
    if not (has_end if streams else arrived == body):
        raise Dishonest(SENT, "the last reply broke off before its end")
    text = reply.text
    if streams and isinstance(reply.final_message, str):
        text = reply.final_message
    visible = _readings(text, result)
    part = result.parts[-1] if result.parts else ""
    is_seeded = seeds and any(each.endswith(part) for each in visible)
    if part not in visible and not is_seeded and not is_blank(visible[0]):
        wrong = f"the text sent was {visible[0][:80]!r}, and the last part is {part[:80]!r}"
        raise Dishonest(SENT, wrong)
    # A call without id, name and arguments is a piece with nothing in it; one without arguments has
    # an empty object, and one that came twice is one, be it without its name the second time.
    sent: dict[tuple[str, str, str], tuple[str, str]] = {}
    for number, call in enumerate(reply.tool_calls):
        if call.id or call.name or call.arguments:
            identity = call.id if call.id.strip() else str(number)
            arguments = call.arguments if call.arguments.strip() else "{}"
            name = call.name or _name_of_twin(sent, identity, arguments)
            sent[identity, name, arguments] = (name, arguments)
    received = [(call.name, call.arguments) for call in result.tool_calls]
    if received and received != list(sent.values()):
        raise Dishonest(SENT, f"{len(sent)} tool calls were sent, and others were handed out")


def _name_of_twin(sent: Iterable[tuple[str, str, str]], identity: str, arguments: str) -> str:
    """Return the name of an earlier call with this id and these arguments; "" if there is none."""
    for other, name, same in sent:
        if name and (other, same) == (identity, arguments):
            return name
    return ""


def _readings(text: str, result: Result) -> list[str]:
    """Return the possible visible texts of a reply, the likeliest first.

    Whether a tag opens reasoning depends on the text before it, which may end within code or quotes
    and may have been a turn of its own.
    """
    before = ""
    for part in result.parts[:-1]:
        before += stitch(before, part)
    readings = [split_thinking(text)[0]]
    for after_block, is_new_turn in product((False, True), repeat=2):
        parted = part_thinking(text, before, after_block=after_block, is_new_turn=is_new_turn)
        readings.append(parted.visible)
    return readings

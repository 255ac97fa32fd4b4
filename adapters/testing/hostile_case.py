"""One call of a fuzz run against a server that writes hostile bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
from attrs import frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.adapters.client import Client
from rungwise.adapters.testing.case import MODES, is_async, is_streaming
from rungwise.adapters.testing.search import Shrinkable
from rungwise.adapters.testing.survival import assert_survives
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.learned import LEARNED
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import Policy, Timeouts
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.testing.hostile.raw import RawResponse, write_responses
from rungwise.fsm.testing.hostile.responses import raw_responses

SECONDS = 0.4
"""The budget of a hostile call: real time, as nobody can tell a socket that time has passed."""
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
        yield "replay: rungwise.testing.assert_survives(client_of, rungwise.testing.read_responses(text), mode=...)"

    def to_toml(self) -> str:
        """Write the responses as TOML, which `rungwise.testing.read_responses` takes."""
        return write_responses(self.responses)

    def run(self, policy: Policy, backends: int, key: str, certificate: Certificate | None, prices: Prices) -> Result:
        """Make the call, and a healthy one after it; return the result of the first."""
        LEARNED.forget()

        def client_of(base_url: str) -> Client:
            chain = [
                OpenAIChat(f"model-{number}", name=f"backend-{number}", base_url=base_url, api_key=key, prices=prices)
                for number in range(1, backends + 1)
            ]
            return Client(chain, policy=hurried(policy))

        return assert_survives(client_of, self.responses, mode=self.mode, certificate=certificate, secrets=[key])

    def shrunk(self, fails: Callable[[HostileCase], bool]) -> HostileCase:
        """Return a smaller failing case: a single response and the simplest method, since every try takes real time."""
        alone = [attrs.evolve(self, responses=(response,)) for response in self.responses]
        case = next(filter(fails, alone), self) if len(alone) > 1 else self
        plain = HostileCase(case.responses, "stream" if is_streaming(case.mode) else "call")
        return plain if is_async(case.mode) and fails(plain) else case


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

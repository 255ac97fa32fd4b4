"""What `rungwise fuzz` runs: calls through the real adapters and drivers, over providers that do anything.

Hypothesis makes the scripts, and makes the failing one as small as it can.
"""

from __future__ import annotations

import attrs
from attrs import define, field
from hypothesis import Phase

from rungwise.adapters.testing.case import PRICES, Case, cases
from rungwise.adapters.testing.hostile_case import HostileCase, hostile_cases
from rungwise.adapters.testing.runner import KEY, CaseRunner
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.testing.search import Finding, Search
from rungwise.adapters.testing.wire_checks import check_answer, check_requests
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.certificate.worst import worst_cases
from rungwise.fsm.testing.checks.ended import EndedCall
from rungwise.fsm.testing.checks.honesty import check_all


@define(eq=False)
class Fuzzer(Search):
    """Make calls until one is dishonest, or time is up; use it in a `with` block.

    Arguments:
        policy: how the calls recover.
        over_http: whether the provider is a server on loopback and not in memory.
        hostile: the share of the calls, from 0 to 1, whose provider is a server that writes hostile bytes.
        backends: how many backends the chain has.
        seed: what the examples follow from.
        progress: is called after each example.
        coverage: what was covered.
        examples: how many were played.
    """

    policy: Policy = DEFAULT_POLICY
    over_http: bool = False
    hostile: float = 0.0
    _runner: CaseRunner = field(init=False)
    _certificates: dict[tuple[int | None, int | None, Prices], Certificate] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._runner = CaseRunner(self.policy, self.backends, self.over_http)

    def __enter__(self) -> Fuzzer:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def _run_numbered(self, number: int, count: int) -> Finding | None:
        hostile = round(count * self.hostile)
        return self._run_scripted(number, count - hostile) or self._run_hostile(number, hostile)

    def _run_scripted(self, number: int, count: int) -> Finding | None:
        replies = scripted_replies(hangs=not self.over_http, delays=not self.over_http)
        return self._run_batch(cases(replies), f"{self.seed}/{number}", count, (Phase.generate, Phase.shrink))

    def _run_hostile(self, number: int, count: int) -> Finding | None:
        # Hypothesis would try hundreds of smaller cases, each of which takes real time.
        return self._run_batch(hostile_cases(), f"{self.seed}/{number}/hostile", count, (Phase.generate,))

    def check(self, case: Case | HostileCase) -> None:
        """Make one call and check that it is honest.

        Raises:
            Dishonest: it is not.
        """
        if isinstance(case, HostileCase):
            survived = case.run(self.policy, self.backends, KEY, self.certificate)
            self.coverage.record(EndedCall(survived, certificate=self.certificate))
            return
        events: list[object] = []
        result = self._runner.run(case, events)
        stays = case.is_streaming and case.leaves_after is None and not self._runner.compactor_raised
        ended = EndedCall(
            result,
            request=case.request,
            turn=case.turn,
            events=events if stays else None,
            certificate=self._certify(case.request.max_tokens, case.request.input_tokens, case.prices),
            secrets=(KEY,),
            is_fair=case.is_fair,
        )
        check_all(ended)
        received = self._runner.received
        check_requests(result, received)
        if received:
            check_answer(result, self._runner.replies[-1], received[-1], seeds=case.prefill != "no")
        self.coverage.record(ended)

    @property
    def certificate(self) -> Certificate:
        """Return what is proved of the policy, for a request of which nothing is known."""
        return self._certify(None, None, PRICES)

    def _certify(self, max_tokens: int | None, input_tokens: int | None, prices: Prices) -> Certificate:
        """Return the certificate for a request; only the worst cases depend on it, so the rest is proved once."""
        key = max_tokens, input_tokens, prices
        if not self._certificates:
            self._certificates[None, None, PRICES] = verify(self.policy, self._runner.chain())
        if key not in self._certificates:
            proved = self._certificates[None, None, PRICES]
            worst = worst_cases(self.policy, proved.limits, [prices] * self.backends, max_tokens, input_tokens)
            self._certificates[key] = attrs.evolve(
                proved, max_tokens=max_tokens, input_tokens=input_tokens, worst=worst
            )
        return self._certificates[key]

"""Chains in memory on a virtual clock: one backend is healthy, the others misbehave at random."""

from collections.abc import Sequence

from attrs import define, evolve, field, frozen
from hypothesis import strategies as st

from rungwise import Budget, Limits, Policy, Prices, Reserve, Timeouts, ToolCall, Usage, Waits
from rungwise.core import AttemptClocks, Call, Failure, PlainLink, Reply, Request, Send
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.budget.reserve import reserved_seconds
from rungwise.fsm.replies.failures.failure import Reason

ANSWER = "and here is the end of it."
BEGAN = 100.0
"""When calls begin, in seconds on the driver's clock."""

LATE = 0.001
"""Seconds after its moment at which a timer fires."""

PROMPT = 100
"""Tokens of the prompt."""

DEAREST = 50.0 / 1_000_000
"""What a token of an attempt costs, at more than its dearest."""

HANGS = (
    "nothing comes",
    "comments come",
    "a word comes",
    "words come",
    "reasoning comes",
    "a call comes",
)
"""What goes on for as long as it is let."""

FAILURES: tuple[Reason, ...] = (
    "rate_limit",
    "overloaded",
    "server_error",
    "timeout",
    "connection",
    "unreachable",
    "auth",
    "billing",
    "model_not_found",
    "context_overflow",
    "parameter_unsupported",
    "malformed",
    "content_policy",
    "format",
    "unknown",
    "silence",
)
ENDS = (
    "empty",
    "only reasoning",
    "cut call",
    "cut reasoning",
    "odd finish",
    "filtered",
    "text cut by an error",
)


PRICES = (Prices(1.0, 3.0), Prices(0.001, 0.002), Prices(10.0, 40.0), Prices(2.0, 2.0))


@frozen
class Trouble:
    """What happens to an attempt.

    Arguments:
        kind: one of HANGS, FAILURES or ENDS.
        share: of the longest attempt, for one that ends by itself.
        asked_wait: the `Retry-After` of a failure, in seconds.
    """

    kind: str
    share: float
    asked_wait: float | None


troubles = st.builds(
    Trouble,
    st.sampled_from([*HANGS, *FAILURES, *ENDS]),
    st.sampled_from([0.0, 0.01, 0.3, 0.99]),
    st.sampled_from([None, None, 0.5, 10.0, 100.0, 3600.0]),
)


@frozen
class Scene:
    """A chain and a policy.

    Arguments:
        troubles: what happens to the attempts of each backend, the last one repeated; none for the
        healthy one.
        policy: of the call; its budgets hold the reserves.
        max_tokens: the caller's output cap.
        effort: the share of its reserve, of seconds and of tokens, that the healthy backend uses.
        closing: seconds that a connection takes to close.
        jitter: where chance places the waits.
        prices: of each backend.
    """

    troubles: tuple[tuple[Trouble, ...], ...]
    policy: Policy
    max_tokens: int | None
    effort: float
    closing: float
    jitter: float
    prices: Sequence[Prices | None]

    @property
    def chain(self) -> list[PlainLink]:
        """Return the backends."""
        return [
            PlainLink(f"backend {place}", prices=self.prices[place])
            for place, _ in enumerate(self.troubles)
        ]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draw a chain of two to four backends, one of which is healthy."""
    others = draw(
        st.lists(st.lists(troubles, min_size=1, max_size=4).map(tuple), min_size=1, max_size=3)
    )
    healthy = draw(st.sampled_from([*range(len(others), 0, -1), 0]))
    count = len(others) + 1
    seconds = draw(st.sampled_from([3.0, 20.0, 90.0, 900.0]))
    max_tokens = draw(st.sampled_from([100, 1000]))
    priced = draw(st.booleans())
    budget = Budget(
        attempts=draw(st.integers(count, 24)),
        seconds=seconds,
        output_tokens=draw(
            st.sampled_from([None, count * (max_tokens + 8) + 9, 8 * count * max_tokens])
        ),
        money=draw(st.sampled_from([None, count * DEAREST * (max_tokens + 8), 10.0]))
        if priced
        else None,
    )
    few = st.sampled_from([0, 1, 3])
    many = st.sampled_from([0, 1, 3, 20])
    policy = Policy(
        budget=budget,
        limits=Limits(
            retries=draw(many), reasks=draw(many), continuations=draw(few), enlargements=draw(few)
        ),
        reserve=draw(
            st.sampled_from(
                [Reserve(), Reserve(share=0.1), Reserve(share=0.9), Reserve(seconds=seconds / 5)]
            )
        ),
        timeouts=Timeouts(
            first_token=draw(st.sampled_from([None, seconds / 30, seconds / 3, 2 * seconds])),
            stall=draw(st.sampled_from([None, seconds / 30, seconds / 3])),
            total=draw(st.sampled_from([None, seconds / 6, 600.0])),
        ),
        waits=Waits(
            retry_base=draw(st.sampled_from([0.0, 2.0, 50.0])),
            reask_base=draw(st.sampled_from([0.1, 5.0])),
        ),
        switch_after=draw(
            st.sampled_from(
                [
                    {},
                    dict.fromkeys(("overloaded", "timeout", "silence"), 1000),
                    {"silence": 2},
                    {"empty": 1},
                ]
            )
        ),
    )
    return Scene(
        troubles=(*others[:healthy], (), *others[healthy:]),
        policy=policy,
        max_tokens=max_tokens,
        effort=draw(st.sampled_from([0.0, 0.5, 0.99])),
        closing=draw(st.sampled_from([0.0, 1.0])) if seconds >= 90 else 0.0,
        jitter=draw(st.sampled_from([0.0, 0.5, 1.0])),
        prices=draw(st.permutations(PRICES)) if priced else (None,) * 4,
    )


@define
class Stage:
    """Play a scene.

    Arguments:
        scene: what is played.
        now: the time on the driver's clock.
        said: the parts of text that were delivered, in order.
        seen: the number of requests to each backend.
    """

    scene: Scene
    now: float = BEGAN
    said: list[str] = field(factory=list)
    seen: list[int] = field(factory=lambda: [0] * 4)

    def play(self) -> Call:
        """Play the scene to its end. Closing the connection of an ended attempt takes time."""
        request = Request(
            [{"role": "user", "content": "say"}],
            max_tokens=self.scene.max_tokens,
            input_tokens=PROMPT,
        )
        call = Call(request, self.scene.policy, self.scene.chain, jitter=lambda: self.scene.jitter)
        send = call.begin(self.now)
        while send is not None:
            self.now += send.wait
            send = call.sending(self.now)
            if send is not None:
                send = call.receive(self.came_of(send, call.clocks()), self.now)
        return call

    def came_of(self, send: Send, clocks: AttemptClocks) -> Reply | Failure:
        """Let an attempt take its time and return its reply."""
        own = self.scene.troubles[send.backend]
        if not own:
            return self.healthy(send)
        number = self.seen[send.backend]
        self.seen[send.backend] += 1
        return self.troubled(own[min(number, len(own) - 1)], send, clocks)

    def healthy(self, send: Send) -> Reply:
        """Answer within the reserve of a backend."""
        policy = self.scene.policy
        backends = len(self.scene.troubles)
        lost = self.scene.closing * (backends - 1)
        self.now += (
            max(0.0, reserved_seconds(policy, policy.budget.seconds, backends) - lost)
            * self.scene.effort
        )
        assert send.max_tokens is None or send.max_tokens >= 1
        return Reply(
            ANSWER,
            stop_reason="stop",
            usage=Usage(PROMPT + send.added_tokens, min(7, send.max_tokens or 7)),
        )

    def troubled(
        self,
        trouble: Trouble,
        send: Send,
        clocks: AttemptClocks,
    ) -> Reply | Failure:
        """Act out the trouble until it ends or the clocks end it."""
        total = self.scene.policy.timeouts.total
        ends = [] if clocks.ends_by is None else [clocks.ends_by]
        if total is not None:
            ends.append(self.now + total)
        end = min(ends)
        if trouble.kind in HANGS:
            return self.hung(trouble.kind, send, clocks, end)
        self.now += (end - self.now) * trouble.share
        usage = self.usage(send)
        if trouble.kind in FAILURES:
            parameter = (
                f"p{self.seen[send.backend]}" if trouble.kind == "parameter_unsupported" else None
            )
            return Failure(trouble.kind, asked_wait=trouble.asked_wait, parameter=parameter)  # type: ignore[arg-type]
        if trouble.kind == "text cut by an error":
            failure = Failure("server_error", asked_wait=trouble.asked_wait)
            return Reply(
                self.words(),
                usage=usage,
                interrupted=True,
                failure=failure,
            )
        reply = {
            "empty": Reply(stop_reason="stop"),
            "only reasoning": Reply(reasoning="hm", stop_reason="stop"),
            "cut call": Reply(tool_calls=(ToolCall("1", "look", '{"a'),), stop_reason="length"),
            "cut reasoning": Reply(reasoning="hm", stop_reason="length"),
            "odd finish": Reply("What", stop_reason="unknown", stop_raw="odd"),
            "filtered": Reply("What", stop_reason="content_filter"),
        }[trouble.kind]
        return evolve(reply, usage=Usage(PROMPT, 1) if trouble.kind == "odd finish" else usage)

    def hung(
        self,
        kind: str,
        send: Send,
        clocks: AttemptClocks,
        end: float,
    ) -> Reply | Failure:
        """Continue until the clocks end the attempt."""
        began = self.now
        text = ""
        silent = None
        if kind in ("nothing comes", "comments come"):
            silent = _silence(began, clocks.first_token, clocks.before_text)
        elif kind == "a word comes":
            text = self.words()
            spoke = began + (end - began) * 0.01
            silent = _silence(spoke, clocks.stall, clocks.after_text)
        elif kind == "words come":
            text = self.words()
        reason: Reason = "silence" if silent is not None and silent < end else "timeout"
        self.now = (
            (silent if reason == "silence" and silent is not None else end)
            + LATE
            + self.scene.closing
        )
        failure = Failure(reason)
        if text or kind in ("reasoning comes", "a call comes"):
            calls = (ToolCall("1", "look", '{"a'),) if kind == "a call comes" else ()
            thought = "hm" if kind == "reasoning comes" else ""
            return Reply(
                text,
                reasoning=thought,
                tool_calls=calls,
                interrupted=True,
                failure=failure,
                usage=self.usage(send),
            )
        return failure

    def words(self) -> str:
        """Return a unique part of text."""
        self.said.append(f"This is part {len(self.said) + 1} of what there is to say, ")
        return self.said[-1]

    def usage(self, send: Send) -> Usage:
        """Return usage up to the cap, or a little usage without a cap."""
        return Usage(
            PROMPT + send.added_tokens, most_counted(send.max_tokens) if send.max_tokens else 50
        )


def _silence(since: float, seconds: float | None, latest: float | None) -> float | None:
    """Return when silence ends an attempt, if it may."""
    if seconds is None or latest is None or since + seconds > latest:
        return None
    return since + seconds

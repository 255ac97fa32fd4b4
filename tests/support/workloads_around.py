"""Work of growing size, as in `workloads.py`: chains, shared budgets, turns, journals and
certificates.
"""

from collections.abc import Iterable, Sequence

import rungwise
from rungwise import (
    Budget,
    Client,
    Journal,
    Limits,
    Policy,
    SharedBudget,
    Tool,
    ToolCall,
    TurnPolicy,
    Usage,
)
from rungwise.core import Call, Failure, Link, PlainLink, Reply, Request, Turn
from rungwise.fsm.turn.actions import MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.explained import explain_call, read_call
from support.workloads import (
    DONE,
    PART,
    PATIENT,
    QUESTION,
    USAGE,
    Work,
    backend,
    calls_of,
    cut_into,
    gathered,
    prose,
    replies_of,
    written,
)

# chains, budgets and turns


def chain_of(count: int) -> tuple[Link, ...]:
    """Return `count` backends."""
    return tuple(PlainLink(f"backend {number}") for number in range(count))


def backends(count: int) -> Work:
    """Prepare a call that is answered by the first of so many backends."""
    chain = chain_of(count)
    request = Request(QUESTION)
    policy = Policy()

    def run() -> None:
        call = Call(request, policy, chain)
        call.begin()
        call.receive(DONE)
        assert call.result.outcome == "done"

    return run


def backends_that_fail(count: int) -> Work:
    """Prepare a call that falls through so many backends."""
    chain = chain_of(count)
    request = Request(QUESTION)
    policy = Policy(limits=Limits(retries=0), budget=Budget(attempts=1000))
    failure = Failure("auth", status=401)

    def run() -> None:
        call = Call(request, policy, chain)
        send = call.begin()
        while send is not None:
            send = call.receive(failure)
        assert call.result.attempts == count

    return run


def clients(count: int) -> Work:
    """Prepare to make a client of so many backends, and to close it."""
    chain = [backend(name=f"backend {number}", model=f"model {number}") for number in range(count)]

    def run() -> None:
        Client(chain).close()

    return run


def shared_calls(count: int) -> Work:
    """Prepare so many calls that are in flight at once under one shared budget."""
    request = Request(QUESTION, max_tokens=10, input_tokens=10)

    def run() -> None:
        shared = SharedBudget(Budget(attempts=count, seconds=None, output_tokens=100 * count))
        calls = [Call(request, within=shared) for _ in range(count)]
        for call in calls:
            call.begin(0.0)
            assert call.sending(0.0) is not None
        for call in calls:
            call.receive(DONE, 1.0)
        assert shared.attempts == count

    return run


def calls_that_wait(count: int) -> Work:
    """Prepare so many calls that wait in turn for one that has reserved what is left of their
    shared budget.
    """
    request = Request(QUESTION, max_tokens=10, input_tokens=10)

    def run() -> None:
        shared = SharedBudget(
            Budget(attempts=2 * count, seconds=None, output_tokens=10 * count + 14)
        )
        woken: list[int] = []
        calls = [Call(request, within=shared) for _ in range(count)]
        for number, call in enumerate(calls):
            call.begin(0.0)
            call.reserve(lambda number=number: woken.append(number), 0.0)  # type: ignore[misc]
        for call in calls:
            if call.sending(0.0) is not None:
                call.receive(Reply("An answer.", stop_reason="stop", usage=Usage(10, 1)), 1.0)
        assert all(call.is_over for call in calls)

    return run


LOOK = Tool(
    lambda number: number,
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}},
)


def driven(policy: TurnPolicy, replies: Iterable[Reply]) -> Turn:
    """Return a turn that was run over these replies, and an answer behind them."""
    turn = Turn(Request(QUESTION), policy, tools={"look": LOOK})
    heard = iter(replies)
    action = turn.begin(0.0)
    while action is not None:
        match action:
            case MakeCall(call):
                call.begin(0.0)
                call.receive(next(heard, DONE), 0.0)
                action = turn.called(call.result, 0.0)
            case RunTools(runs):
                action = turn.tools_ran(
                    [ToolOutcome(f"three herons and {each.arguments}") for each in runs], 0.0
                )
            case _:
                raise AssertionError(action)
    assert turn.result.outcome == "finished", turn.result
    return turn


def asking_for(calls: Sequence[ToolCall]) -> Reply:
    return Reply(tool_calls=calls, stop_reason="tool_calls", usage=USAGE)


def turn_of(count: int) -> Turn:
    """Return a turn in which the model calls a tool `count` times."""
    policy = TurnPolicy(
        auto_continues=1000, same_calls=1000, budget=Budget(attempts=1000, seconds=None)
    )
    return driven(policy, [asking_for([call]) for call in calls_of(count)])


def rounds(count: int) -> Work:
    """Prepare a turn of so many calls, each with a result of a tool."""
    return lambda: turn_of(count)


def calls_in_a_round(count: int) -> Work:
    """Prepare a turn whose model calls so many tools at once."""
    reply = asking_for(calls_of(count))
    return lambda: driven(TurnPolicy(calls_per_reply=1000), [reply])


# journals


def call_of(steps: int) -> Call:
    """Return a finished call of about `count` steps, half of them truncated requests."""
    call = Call(Request(QUESTION), PATIENT)
    gathered(call, replies_of(cut_into(prose(steps // 2 * PART), steps // 2)))
    return call


def journal_written(steps: int) -> Work:
    """Prepare to write a journal."""
    return call_of(steps).journal.to_json


def journal_read(steps: int) -> Work:
    """Prepare to read a journal."""
    text = call_of(steps).journal.to_json()
    return lambda: Journal.from_json(text)


def journal_replayed(steps: int) -> Work:
    """Prepare to run a journal again."""
    journal = call_of(steps).journal
    return lambda: rungwise.replay(journal)


def journal_explained(steps: int) -> Work:
    """Prepare the page of a journal."""
    text = call_of(steps).journal.to_json()
    return lambda: explain_call(read_call(text))


def turn_replayed(rounds: int) -> Work:
    """Prepare to run the journal of a turn again."""
    journal = turn_of(rounds).journal
    return lambda: rungwise.replay(journal)


# media


def picture(size: int) -> Work:
    """Prepare a call with a picture of so many bytes in base64: copied, counted and written."""
    url = "data:image/png;base64," + "A" * size
    return written(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    )


# certificates


def certificate_of_limits(limit: int, attempts: int = 24) -> Work:
    """Prepare the proof of a policy whose limits are all so large."""
    limits = Limits(**dict.fromkeys((name for name in Limits() if name != "fallbacks"), limit))
    policy = Policy(limits=limits, budget=Budget(attempts=attempts, seconds=None))
    return lambda: rungwise.verify(policy, 2, max_tokens=1000)


def certificate_of_attempts(attempts: int) -> Work:
    """Prepare the proof of a policy that allows so many attempts, and ten units of each limit."""
    return certificate_of_limits(10, attempts)


def certificate_of_backends(count: int) -> Work:
    """Prepare the proof of the default policy for so many backends."""
    links = [
        PlainLink(f"backend {number}", prices=rungwise.Prices(1.0, 2.0 + number % 3))
        for number in range(count)
    ]
    return lambda: rungwise.verify(Policy(), links, max_tokens=1000, input_tokens=1000)

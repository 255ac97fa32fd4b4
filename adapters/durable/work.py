"""What a database is given to do: a request with the policy and the chain that it began with; and
how that is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs
import orjson
from attrs import evolve, frozen

from rungwise.adapters.client_decisions import asking_decisions
from rungwise.adapters.durable.budgets import left_of
from rungwise.adapters.durable.driver import DurableDriver, DurableTurnDriver, Saver
from rungwise.adapters.durable.forms import (
    Plain,
    plain_request,
    plain_result,
    plain_turn_result,
    read_request,
)
from rungwise.adapters.durable.import_paths import PATH, Modules, asks_questions
from rungwise.adapters.durable.recorded import Entry
from rungwise.adapters.durable.tape import RecordedCall
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.stores.sharing import Shared
from rungwise.adapters.turn.turn_options import Planned
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy, Timeouts
from rungwise.fsm.call.run.call_journal import read_policy
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool, Toolbox
from rungwise.fsm.turn.turn_journal import read_turn_policy
from rungwise.fsm.values.frozen_map import thawed

if TYPE_CHECKING:
    from rungwise.adapters.client import Client

FUNCTIONS: Final = ("executor", "compactor")
"""The options of a turn that are functions."""


def digest_of(plain: Any) -> str:
    """Return a digest of plain data."""
    data = orjson.dumps(orjson.loads(json_of(plain)), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(data).hexdigest()[:32]


def work_of(
    client: Client,
    request: Request,
    options: Mapping[str, Any],
    returns: Any,
    deadline: float | None,
    modules: Modules,
    *,
    is_turn: bool,
) -> Plain:
    """Return a call or a turn as plain data.

    Arguments:
        client: runs it.
        request, options, returns: what it is asked, as for `Client.call` or `Client.turn`.
        deadline: when it must have ended, in seconds since 1970; None for no deadline.
        modules: hold the functions that it may name.
        is_turn: whether it is a turn.

    Raises:
        ConfigurationError: something of it cannot be stored.
    """
    asked = {
        "request": plain_request(request),
        "returns": modules.plain_returns(returns),
        "verdicts": _paths_of_verdicts(options.get("verdict"), modules),
    }
    if is_turn:
        asked |= asked_of_turn(options, modules)
    policy = options.get("policy")
    own = None if policy is None else _plain_policy(policy, is_turn=is_turn)
    work = {
        "asked": asked,
        "own_policy": own,
        "is_turn": is_turn,
        "deadline": deadline,
        "digest": digest_of([asked, own]),
    }
    return work | setting_of(client, policy_of(client, work))


def _paths_of_verdicts(verdict: Any, modules: Modules) -> list[str]:
    """Return the import paths of one verdict, or of several."""
    verdicts = verdict or ()
    if callable(verdicts):
        verdicts = [verdicts]
    return [modules.path_of(each, "a verdict of a durable call") for each in verdicts]


def policy_of(client: Client, work: Mapping[str, Any]) -> Policy | TurnPolicy:
    """Return the policy under which a client runs a call or a turn."""
    own = work["own_policy"]
    if work["is_turn"]:
        policy = TurnPolicy() if own is None else read_turn_policy(own)[0]
        return evolve(policy, call=policy.call or client.policy)
    return client.policy if own is None else read_policy(own, ())[0]


def _plain_policy(policy: Any, *, is_turn: bool) -> Plain:
    """Return a policy that a call was given, as plain data."""
    kind = TurnPolicy if is_turn else Policy
    if not isinstance(policy, kind):
        raise ConfigurationError(f"policy must be a {kind.__name__}, not {type(policy).__name__}")
    plain: Plain = policy.to_mapping()
    of_calls: Policy | None = policy if isinstance(policy, Policy) else policy.call
    if of_calls is None:
        del plain["call"]
    elif of_calls.table.rows != DEFAULT_POLICY.table.rows:
        raise ConfigurationError(
            "policy: a database cannot hold a table of your own; give this policy to the client"
        )
    return plain


def setting_of(client: Client, policy: Policy | TurnPolicy) -> Plain:
    """Return what must be the same when a call is resumed."""
    return {"policy": _digest_of_policy(policy), "chain": [link.name for link in client.chain]}


@lru_cache(maxsize=16)  # or a batch would spend a tenth of its time here
def _digest_of_policy(policy: Policy | TurnPolicy) -> str:
    """Return a digest of a policy and of the rows of its table."""
    of_calls = policy.of_calls if isinstance(policy, TurnPolicy) else policy
    rows = []
    for each in of_calls.table.rows:
        rows.append([each.event, each.source, each.guard, each.effect, each.target])
    return digest_of([policy.to_mapping(), rows])


def is_same_setting(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two calls have the same policy, table and chain."""
    return all(one[name] == other[name] for name in ("policy", "chain"))


async def run_work(
    client: Client,
    work: Plain,
    records: list[str],
    save: Callable[[str], Any],
    leaves: Callable[[], bool],
    ending: Cancellation,
    within: SharedBudget | None,
    shared: Shared | None,
    modules: Modules,
) -> str:
    """Run a call or a turn, or what is left of it, and return its result as JSON.

    Arguments:
        client: runs it.
        work: what `work_of` wrote.
        records: what was saved of it; none if it has not begun. See `recorded.py`.
        save, leaves: saves one more record; tells whether the next process goes on.
        ending: ends it.
        within: the shared budget that it draws on; None for none.
        shared: what it shares with other calls; None for nothing.
        modules: hold the functions that it may name.

    Raises:
        ConfigurationError: the policy, the table or the chain has changed since it began.
        JournalMismatch: it does not do again what is recorded of it.
    """
    if asks_questions(work["asked"]["returns"]):
        client = asking_decisions(client)
    policy = policy_of(client, work)
    if not is_same_setting(setting_of(client, policy), work):
        raise ConfigurationError(CHANGED)  # whoever put it into this queue
    saved = [orjson.loads(record) for record in records]
    tape = [entry for record in saved for entry in record["tape"]]
    runtime = client.runtime
    wall = runtime.deadlines.wall_clock
    clock = clock_behind(tape, runtime.clock)

    def deadline() -> float | None:
        """Return the deadline on the clock of the call: that of the machine may have been set."""
        moment: float | None = work["deadline"]
        return None if moment is None else clock() + (moment - wall())

    policy = evolve(policy, budget=left_of(policy.budget, work.get("spent", {})))
    run = prepared(client, work, within, modules, policy, tape, deadline())
    if tape:
        run.recorded.restore(tape)
        if isinstance(run.recorded, RecordedCall) and within is not None:
            run.recorded.go_on_within(within)
        run.recorded.resume(clock(), deadline(), gone=wall() - saved[-1]["at"])
    saver = Saver(run.recorded, save, wall, saved=len(tape))
    running = runtime.connections.in_this_loop()
    with either(running.cancellation, ending) as both:
        settings = runtime.async_settings(running, both, run.timeouts)
        settings["clock"] = clock
        settings["deadlines"] = evolve(runtime.deadlines, clock=clock)
        settings["shared"] = shared
        plain = await run.by(DurableDriver(**settings, saver=saver, leaves=leaves))
    plain["digest"] = work["digest"]
    return json_of(plain)


def clock_behind(tape: Sequence[Entry], clock: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that goes on from the last entry of a tape.

    The clocks of two processes have nothing in common, and while no process holds a call, its time
    stands still. So its clock is that of this process, less what makes it continue the tape.
    """
    times = [entry["now"] for entry in tape if entry["now"] is not None]
    behind = clock() - max(times) if times else 0.0

    def now() -> float:
        return clock() - behind

    return now


@frozen
class Prepared:
    """Hold a call or a turn that is to be run."""

    recorded: RecordedCall | RecordedTurn
    timeouts: Timeouts  # of its calls
    # runs it with a driver of calls, and returns its result
    by: Callable[[DurableDriver], Awaitable[Plain]]


def prepared(
    client: Client,
    work: Plain,
    within: SharedBudget | None,
    modules: Modules,
    policy: Policy | TurnPolicy | None = None,
    tape: Sequence[Entry] = (),
    deadline: float | None = None,
) -> Prepared:
    """Return a call or a turn that has not begun.

    Arguments:
        client: runs it.
        work: what `work_of` wrote.
        within: the shared budget that it draws on; None for none.
        modules: hold the functions that it may name.
        policy: replaces that of `work`.
        tape: what it was told, if it had begun: it gets the arguments that it had then.
        deadline: when it must have ended, on its clock; a tape has its own.
    """
    policy = policy or policy_of(client, work)
    asked = work["asked"]
    request = read_request(asked["request"])
    settings: Plain = {
        "verdict": [modules.found(path, "the verdict") for path in asked["verdicts"]] or None,
        "returns": modules.at_path(asked["returns"], "returns"),
        "deadline": tape[0]["deadline"] if tape else deadline,
    }
    if isinstance(policy, TurnPolicy):
        return _prepared_turn(client, asked, request, policy, modules, settings)
    if tape:
        settings |= RecordedCall.setting_of(tape)
        if within is not None:
            within = RecordedCall.within_of(tape, within)
    options = client.runtime.call_options | settings
    options["within"] = within
    options["is_streaming"] = work["is_streaming"]
    call = RecordedCall(request, with_overrides(policy), client.chain, **options)

    async def run_call(driver: DurableDriver) -> Plain:
        async for event in driver.stream(call):
            await driver.saver.hand_on(event)
        if call.is_streaming:  # or its result says it all
            await driver.saver.save()
        return plain_result(call.result)

    return Prepared(call, policy.timeouts, run_call)


def _prepared_turn(
    client: Client,
    asked: Plain,
    request: Request,
    policy: TurnPolicy,
    modules: Modules,
    settings: Plain,
) -> Prepared:
    """Return a turn that has not begun.

    Arguments:
        client, policy: run it.
        asked: what `asked_of_turn` wrote.
        request: what it is asked.
        modules: hold the functions that it may name.
        settings: its `verdict`, what it `returns`, and its `deadline`.

    Raises:
        ConfigurationError: a function cannot be imported.
    """
    options: Any = {"policy": policy, "approvals": asked["approvals"]}
    options["verdict"] = settings.pop("verdict")
    for name in FUNCTIONS:
        if name in asked:
            options[name] = modules.found(asked[name], f"the {name}")
    if asked["tools"] is not None:
        options["tools"] = [_read_tool(plain, modules) for plain in asked["tools"]]
    runtime = client.runtime
    planned = Planned.of(
        request,
        options,
        runtime.chain,
        runtime.policy,
        runtime.compactor,
        RecordedTurn,
        **{**runtime.call_options, **settings},
    )
    turn = planned.turn
    assert isinstance(turn, RecordedTurn)

    async def run_turn(driver: DurableDriver) -> Plain:
        of_turns = DurableTurnDriver(calls=driver, compactor=planned.compactor)
        return plain_turn_result(await of_turns.run(turn))

    return Prepared(turn, policy.of_calls.timeouts, run_turn)


CHANGED: Final = (
    "its policy, its table or its chain has changed since this call began: run it under the old "
    "one, or pass restart=True to start it again on what is left of its budget"
)


def asked_of_turn(options: Mapping[str, Any], modules: Modules) -> Plain:
    """Return the options that only a turn has, as plain data, or raise a ConfigurationError if one
    cannot be stored.
    """
    tools = options.get("tools")
    approvals = options.get("approvals")
    plain: Plain = {"tools": None, "approvals": None}
    if tools is not None:
        toolbox = Toolbox.of(tools, options.get("executor"))
        plain["tools"] = [_plain_tool(tool, modules) for tool in toolbox.tools.values()]
    if approvals is not None:
        plain["approvals"] = dict(approvals)
    for name in FUNCTIONS:
        if options.get(name) is not None:
            plain[name] = modules.path_of(options[name], f"the {name} of a durable turn")
    return plain


def _plain_tool(tool: Tool, modules: Modules) -> Plain:
    """Return a tool as plain data, its functions by their import paths."""
    plain: Plain = {}
    for each in attrs.fields(Tool):
        if not each.init:
            continue
        value = getattr(tool, each.name)
        if callable(value) and each.name in ("function", "needs_approval"):
            what = f"the {each.name} of the tool {tool.name!r} of a durable turn"
            value = {PATH: modules.path_of(value, what)}
        plain[each.name] = thawed(value)
    return plain


def _read_tool(plain: Plain, modules: Modules) -> Tool:
    """Return the tool that `_plain_tool` wrote."""
    values = {}
    for name, value in plain.items():
        values[name] = modules.at_path(value, f"the {name} of a tool")
    return Tool(**values)

"""What a database is given to do: a request with the policy and the chain that it began with; and
how that is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs
import orjson
from attrs import evolve, frozen
from pydantic import TypeAdapter

from rungwise.adapters.durable.driver import DurableDriver, DurableTurnDriver, Saver
from rungwise.adapters.durable.forms import (
    Plain,
    plain_request,
    plain_result,
    plain_turn_result,
    read_request,
)
from rungwise.adapters.durable.tape import Entry, RecordedCall
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.stores.sharing import Shared
from rungwise.adapters.turn.turn_options import Planned
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import DEFAULT_POLICY, Budget, Policy, Timeouts
from rungwise.fsm.call.run.call_journal import read_policy
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool, Toolbox
from rungwise.fsm.turn.turn_journal import read_turn_policy
from rungwise.fsm.values.frozen_map import thawed

if TYPE_CHECKING:
    from rungwise.adapters.client import Client

PATH: Final = "import path"
"""The one member of what stands for a function or class, by which another process finds it."""

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
    *,
    is_turn: bool,
) -> Plain:
    """Return a call or a turn as plain data, or raise a ConfigurationError. The deadline is in
    seconds since 1970.
    """
    verdicts = options.get("verdict") or ()
    verdicts = [verdicts] if callable(verdicts) else list(verdicts)
    policy = options.get("policy")
    asked = {
        "request": plain_request(request),
        "returns": _plain_returns(returns),
        "verdicts": [path_of(each, "a verdict of a durable call") for each in verdicts],
        **(asked_of_turn(options) if is_turn else {}),
    }
    own = None if policy is None else _plain_policy(policy, is_turn=is_turn)
    work = {"asked": asked, "own_policy": own, "is_turn": is_turn, "deadline": deadline}
    return {
        **work,
        "digest": digest_of([asked, own]),
        **setting_of(client, policy_of(client, work)),
    }


def policy_of(client: Client, work: Mapping[str, Any]) -> Policy | TurnPolicy:
    """Return the policy under which a client runs a call or a turn."""
    own = work["own_policy"]
    if work["is_turn"]:
        policy = TurnPolicy() if own is None else read_turn_policy(own)[0]
        return evolve(policy, call=policy.call or client.policy)
    return client.policy if own is None else read_policy(own, ())[0]


def _plain_policy(policy: Any, *, is_turn: bool) -> Plain:
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
    of_calls = policy.of_calls if isinstance(policy, TurnPolicy) else policy
    rows = [
        [each.event, each.source, each.guard, each.effect, each.target]
        for each in of_calls.table.rows
    ]
    return digest_of([policy.to_mapping(), rows])


def is_same_setting(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two calls have the same policy, table and chain."""
    return all(one[name] == other[name] for name in ("policy", "chain"))


async def run_work(
    client: Client,
    work: Plain,
    records: list[str],
    save: Callable[[str], Any],
    ending: Cancellation,
    within: SharedBudget | None,
    shared: Shared | None,
) -> str:
    """Run a call or a turn, or what is left of it, and return its result as JSON.

    `records` were saved of it, and `save` saves one more.

    Raises:
        ConfigurationError: the policy, the table or the chain has changed since it began.
        JournalMismatch: it does not do again what is recorded of it.
    """
    policy = policy_of(client, work)
    if not is_same_setting(setting_of(client, policy), work):
        raise ConfigurationError(CHANGED)  # whoever put it into this queue
    read = [orjson.loads(record) for record in records]
    tape = [entry for each in read for entry in each["tape"]]
    runtime = client.runtime
    clock = runtime.clock
    wall = runtime.deadlines.wall_clock
    # The time stands still while no process holds a call.
    behind = (
        clock() - max(entry["now"] for entry in tape if entry["now"] is not None) if tape else 0.0
    )

    def now() -> float:
        return clock() - behind

    def deadline() -> float | None:
        return None if work["deadline"] is None else now() + (work["deadline"] - wall())

    policy = evolve(policy, budget=left_of(policy.budget, work.get("spent", {})))
    run = prepared(client, work, within, policy, tape, deadline())
    if tape:
        run.recorded.restore(tape)
        if isinstance(run.recorded, RecordedCall) and within is not None:
            run.recorded.go_on_within(within)
        run.recorded.resume(now(), deadline(), wall() - read[-1]["at"])
    saver = Saver(run.recorded, save, wall, saved=len(tape))
    running = runtime.connections.in_this_loop()
    with either(running.cancellation, ending) as both:
        settings = runtime.async_settings(running, both, run.timeouts)
        settings |= {
            "clock": now,
            "deadlines": evolve(runtime.deadlines, clock=now),
            "shared": shared,
        }
        return json_of(
            {**await run.by(DurableDriver(**settings, saver=saver)), "digest": work["digest"]}
        )


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
    policy: Policy | TurnPolicy | None = None,
    tape: Sequence[Entry] = (),
    deadline: float | None = None,
) -> Prepared:
    """Return a call or a turn that has not begun, with the arguments that it had if it is on a
    tape.
    """
    policy = policy or policy_of(client, work)
    asked = work["asked"]
    request = read_request(work["asked"]["request"])
    settings: Plain = {
        "verdict": [found(path, "the verdict") for path in asked["verdicts"]] or None,
        "returns": at_path(asked["returns"], "returns"),
        "deadline": tape[0]["deadline"] if tape else deadline,
    }
    if isinstance(policy, TurnPolicy):
        planned = new_turn(client, asked, request, policy, **settings)
        turn = planned.turn
        assert isinstance(turn, RecordedTurn)

        async def run_turn(driver: DurableDriver) -> Plain:
            return plain_turn_result(
                await DurableTurnDriver(calls=driver, compactor=planned.compactor).run(turn)
            )

        return Prepared(turn, policy.of_calls.timeouts, run_turn)
    if tape:
        settings |= RecordedCall.setting_of(tape)
    if tape and within is not None:
        within = RecordedCall.within_of(tape, within)
    options = {
        **client.runtime.call_options,
        **settings,
        "within": within,
        "is_streaming": work["is_streaming"],
    }
    call = RecordedCall(request, with_overrides(policy), client.chain, **options)

    async def run_call(driver: DurableDriver) -> Plain:
        async for event in driver.stream(call):
            await driver.saver.hand_on(event)
        if call.is_streaming:  # or its result says it all
            await driver.saver.save()
        return plain_result(call.result)

    return Prepared(call, policy.timeouts, run_call)


def left_of(budget: Budget, spent: Mapping[str, float]) -> Budget:
    """Return what is left of a budget, or raise a ConfigurationError if nothing is."""
    left = {
        name: most - spent.get(name, 0)
        for name in attrs.fields_dict(Budget)
        if (most := getattr(budget, name))
    }
    if gone := [name for name, amount in left.items() if amount <= 0]:
        raise ConfigurationError(
            f"it has spent all of its {gone[0].replace('_', ' ')}: nothing is left to start again"
        )
    return evolve(budget, **left)


CHANGED: Final = (
    "its policy, its table or its chain has changed since this call began: run it under the old "
    "one, or pass "
    "restart=True to start it again on what is left of its budget"
)


def _plain_returns(returns: Any) -> Any:
    """Return a schema as it is, a class that can be imported by its path, and the schema of any
    other type.
    """
    if returns is None or isinstance(returns, Mapping):
        return returns
    returns_of(returns)  # which says what is wrong with it
    with suppress(ConfigurationError):
        return {PATH: path_of(returns, "returns")}
    return TypeAdapter(returns).json_schema()


def asked_of_turn(options: Mapping[str, Any]) -> Plain:
    """Return the options that only a turn has, as plain data, or raise a ConfigurationError if one
    cannot be stored.
    """
    tools = options.get("tools")
    approvals = options.get("approvals")
    functions = {name: options[name] for name in FUNCTIONS if options.get(name) is not None}
    if tools is not None:
        tools = [
            _plain_tool(tool) for tool in Toolbox.of(tools, options.get("executor")).tools.values()
        ]
    return {
        "tools": tools,
        "approvals": None if approvals is None else dict(approvals),
        **{
            name: path_of(function, f"the {name} of a durable turn")
            for name, function in functions.items()
        },
    }


def new_turn(
    client: Client, asked: Plain, request: Request, policy: TurnPolicy, **settings: Any
) -> Planned:
    """Return a turn that has not begun, from what `asked_of_turn` wrote, or raise a
    ConfigurationError.
    """
    options: Any = {name: found(asked[name], f"the {name}") for name in FUNCTIONS if name in asked}
    if asked["tools"] is not None:
        options["tools"] = [
            Tool(**{name: at_path(value, f"the {name} of a tool") for name, value in plain.items()})
            for plain in asked["tools"]
        ]
    options |= {
        "policy": policy,
        "approvals": asked["approvals"],
        "verdict": settings.pop("verdict"),
    }
    settings = {**client.runtime.call_options, **settings}
    return Planned.of(
        request,
        options,
        client.chain,
        client.policy,
        client.runtime.compactor,
        RecordedTurn,
        **settings,
    )


def _plain_tool(tool: Tool) -> Plain:
    values = {each.name: getattr(tool, each.name) for each in attrs.fields(Tool) if each.init}
    for name in ("function", "needs_approval"):
        if callable(values[name]):
            what = f"the {name} of the tool {tool.name!r} of a durable turn"
            values[name] = {PATH: path_of(values[name], what)}
    return {name: thawed(value) for name, value in values.items()}


def path_of(value: Any, what: str) -> str:
    """Return the import path of a function or class, or raise a ConfigurationError if it has
    none.
    """
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "")
    if (
        module in (None, "__main__")
        or not name
        or "<" in name
        or found(f"{module}:{name}", what) is not value
    ):
        raise ConfigurationError(
            f"{what} must stand at the top of a module that can be imported: another process may "
            f"have to find it"
        )
    return f"{module}:{name}"


def found(path: str, what: str) -> Any:
    """Return what stands at an import path, or raise a ConfigurationError if nothing does."""
    module, _, name = path.partition(":")
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{what} {path!r} cannot be imported: {error}") from None
    return value


def at_path(plain: Any, what: str) -> Any:
    """Return the function or class that a mapping with its path stands for, and anything else
    unchanged.
    """
    return found(plain[PATH], what) if isinstance(plain, Mapping) and PATH in plain else plain

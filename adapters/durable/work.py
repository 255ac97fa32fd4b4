"""What a database is given to do: a request with the policy and the chain that it began with; and how that is run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs
import orjson
from attrs import evolve
from pydantic import TypeAdapter

from rungwise.adapters.durable.driver import DurableDriver
from rungwise.adapters.durable.forms import Plain, plain_request, plain_result, read_request
from rungwise.adapters.durable.tape import CRASHED, RecordedCall
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.policy import Budget, Policy
from rungwise.fsm.call.run.journal import read_policy
from rungwise.fsm.call.run.overrides import with_overrides
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.record import json_of
from rungwise.fsm.schemas.returns import returns_of

if TYPE_CHECKING:
    from dbos import StepOptions

    from rungwise.adapters.client import Client

SAVE: Final[StepOptions] = {"name": "save"}
"""The step that writes what is new of a call."""


def digest_of(plain: Any) -> str:
    """Return a digest of plain data."""
    data = orjson.dumps(orjson.loads(json_of(plain)), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(data).hexdigest()[:32]


def path_of(value: Any, what: str) -> str:
    """Return the import path of a function or class, by which another process finds it.

    Raises:
        ConfigurationError: it has none.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module in (None, "__main__") or not name or "<" in name or found(f"{module}:{name}", what) is not value:
        raise ConfigurationError(
            f"{what} must stand at the top of a module that can be imported: another process may have to find it"
        )
    return f"{module}:{name}"


def found(path: str, what: str) -> Any:
    """Return what stands at an import path.

    Raises:
        ConfigurationError: nothing does.
    """
    module, _, name = path.partition(":")
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{what} {path!r} cannot be imported: {error}") from None
    return value


def work_of(
    client: Client, request: Request, options: Mapping[str, Any], returns: Any, deadline: float | None
) -> Plain:
    """Return what a call is, as plain data for a database.

    Arguments:
        options: of the call; those of a request are in `request`.
        deadline: when it must have ended, in seconds since 1970.

    Raises:
        ConfigurationError: something in it cannot be stored.
    """
    verdicts = options.get("verdict") or ()
    verdicts = [verdicts] if callable(verdicts) else list(verdicts)
    policy = options.get("policy")
    asked = {
        "request": plain_request(request),
        "returns": _plain_returns(returns),
        "verdicts": [path_of(each, "a verdict of a durable call") for each in verdicts],
    }
    own = None if policy is None else policy.to_mapping()
    work = {"asked": asked, "digest": digest_of([asked, own]), "own_policy": own, **setting_of(client, policy)}
    return {**work, "deadline": deadline}


def setting_of(client: Client, policy: Policy | None) -> Plain:
    """Return what must be the same when a call is resumed."""
    policy = policy or client.policy
    rows = [[each.event, each.source, each.guard, each.effect, each.target] for each in policy.table.rows]
    return {"policy": digest_of([policy.to_mapping(), rows]), "chain": [link.name for link in client.chain]}


def is_same_setting(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two calls have the same policy, table and chain."""
    return all(one[name] == other[name] for name in ("policy", "chain"))


async def run_work(
    client: Client, work: Plain, records: list[str], save: Callable[[str], Any], ending: Cancellation
) -> str:
    """Run a call, or what is left of it, and return its result as JSON.

    Arguments:
        records: what was saved of it, in order.
        save: a coroutine function that saves one more.

    Raises:
        ConfigurationError: the policy, the table or the chain has changed since it began.
        JournalMismatch: the call does not do again what is recorded of it.
    """
    policy = None if work["own_policy"] is None else read_policy(work["own_policy"], ())[0]
    if not is_same_setting(setting_of(client, policy), work):
        raise ConfigurationError(CHANGED)  # whoever put it into this queue
    asked, read = work["asked"], [orjson.loads(record) for record in records]
    tape = [entry for each in read for entry in each["tape"]]
    clock, wall = client._clock, client._deadlines.wall_clock
    # The time stands still while no process holds a call.
    behind = clock() - max(entry["now"] for entry in tape if entry["now"] is not None) if tape else 0.0

    def now() -> float:
        return clock() - behind

    policy = policy or client.policy
    policy = evolve(policy, budget=left_of(policy.budget, work.get("spent", {})))
    call = RecordedCall(
        read_request(asked["request"]),
        with_overrides(policy),
        client.chain,
        **client._options,
        **(RecordedCall.setting_of(tape) if tape else {"deadline": _on(now, wall, work["deadline"])}),
        verdict=[found(path, "the verdict") for path in asked["verdicts"]] or None,
        returns=_read_returns(asked["returns"]),
    )
    if tape:
        waiting = call.restore(tape)
        call.resume(now(), _on(now, wall, work["deadline"]))
        if call.is_in_flight:
            waiting = call.receive(CRASHED, now())
        elif waiting is not None:
            waiting = evolve(waiting, wait=max(waiting.wait - (wall() - read[-1]["at"]), 0.0))
        call.resumed = waiting
    saved = len(tape)

    async def save_new() -> None:
        nonlocal saved
        if len(call.tape) > saved:
            new, saved = call.tape[saved:], len(call.tape)
            await save(json_of({"at": wall(), "spent": call.spent, "tape": new}))

    running = client._connections.in_this_loop()
    with either(running.cancellation, ending) as both:
        settings = client._async_settings(running, both, call.policy.timeouts)
        settings |= {"clock": now, "deadlines": evolve(client._deadlines, clock=now)}
        return json_of(plain_result(await DurableDriver(**settings, save=save_new).run(call)))


def left_of(budget: Budget, spent: Mapping[str, float]) -> Budget:
    """Return what is left of a budget.

    Raises:
        ConfigurationError: nothing is.
    """
    left = {name: most - spent.get(name, 0) for name in attrs.fields_dict(Budget) if (most := getattr(budget, name))}
    if gone := [name for name, amount in left.items() if amount <= 0]:
        raise ConfigurationError(f"it has spent all of its {gone[0].replace('_', ' ')}: nothing is left to start again")
    return evolve(budget, **left)


CHANGED: Final = (
    "its policy, its table or its chain has changed since this call began: run it under the old one, or pass "
    "restart=True to start it again on what is left of its budget"
)


def _on(now: Callable[[], float], wall: Callable[[], float], moment: float | None) -> float | None:
    """Return a moment since 1970 on the clock of a call."""
    return None if moment is None else now() + (moment - wall())


def _plain_returns(returns: Any) -> Any:
    """Return a schema as it is, a class that can be imported by its path, and the schema of any other type."""
    if returns is None or isinstance(returns, Mapping):
        return returns
    returns_of(returns)  # which says what is wrong with it
    with suppress(ConfigurationError):
        return {PATH: path_of(returns, "returns")}
    return TypeAdapter(returns).json_schema()


def _read_returns(plain: Any) -> Any:
    return found(plain[PATH], "returns") if isinstance(plain, Mapping) and PATH in plain else plain


PATH: Final = "import path"
"""The one member of what stands for a class."""

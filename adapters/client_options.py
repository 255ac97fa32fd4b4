"""The options of calls and clients, and their checks."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.stores.budgets import BudgetStore
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.sharing import Shared
from rungwise.adapters.stores.watch import Watch
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.conversation.observation import Verdict
from rungwise.fsm.call.conversation.parameters import (
    REQUEST_OPTIONS,
    RequestOptions,
    refuse_unknown,
)
from rungwise.fsm.call.conversation.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import Health
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.values.checks import by_name, is_flag, is_number, is_whole
from rungwise.fsm.values.label import short
from rungwise.fsm.values.secret import SecretMap

Messages = str | Iterable[PlainMessage | Message] | Request
Clock = Callable[[], float]


class RunOptions(RequestOptions, total=False):
    """The options that calls and turns share."""

    system: str | None
    within: SharedBudget | None
    deadline: float | datetime | None
    verdict: Verdict | Iterable[Verdict] | None


class CallOptions(RunOptions, total=False):
    """The options of a call.

    Arguments:
        temperature, top_p, stop, seed, response_format: as in chat completions; each protocol
            translates them. None is the same as leaving them out.
        reasoning_effort, tool_choice, parallel_tool_calls: likewise.
        max_tokens, parameters, headers, input_tokens: as a `rungwise.core.Request` has them.
        system: a message of role `system`, before all others.
        tools: the definitions of tools, as the provider takes them.
        within: a `rungwise.SharedBudget` that the call draws from.
        deadline: when the call must have ended: a `datetime` with a time zone, or seconds since
            1970.
        verdict: a function that judges the reply, or several. It takes the `rungwise.core.Reply`
            with the whole text, and the value if it takes two arguments (None where the model
            called tools). It returns None, or a sentence that tells the model what is wrong. That
            of a turn judges the reply that would end the turn.
        turn: the turn around the call.
        policy: replaces the client's policy.
    """

    tools: Iterable[Mapping[str, Any]]
    turn: TurnContext | None
    policy: Policy | None


ATTRIBUTES: Final = by_name(
    {
        "client.call(messages) returns the result, whose text is the answer": "ask beta chat "
        "complete completion completions create generate generate_content generate_text invoke "
        "messages predict responses run",
        "await client.acall(messages) returns the result": "acomplete acompletion agenerate "
        "agenerate_content ainvoke arun",
        "iterate over client.stream(messages), or client.astream": "generate_content_stream "
        "stream_text",
        "give each prompt a call, or run them with `rungwise batch`": "abatch batch",
        "ask an SDK, with a rungwise.Transport as its HTTP client": "embed embeddings models",
        "client.turn(messages, tools=...) is the loop with tools": "agent run_sync run_stream",
        "give an SDK its own HTTP client, as in "
        "openai.DefaultHttpxClient(transport=rungwise.Transport(client))": "build_request "
        "handle_async_request handle_request send timeout",
    }
)
"""What a client does instead, by the attributes of other libraries' clients."""

OF_CALLS: Final = frozenset({"system", "turn", "policy", "within", "deadline", "verdict"})
"""The options of a call that a request does not have."""


def _behind(system: object, messages: Messages) -> Messages:
    """Return the messages behind one of role `system`."""
    if not isinstance(system, str):
        raise ConfigurationError(f"system must be a text, not {type(system).__name__}")
    if isinstance(messages, Request):
        raise ConfigurationError("a Request holds its own messages; do not pass system beside it")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return [{"role": "system", "content": system}, *messages]


def request_of(messages: Messages, options: Any, others: frozenset[str]) -> Request:
    """Make a request from the options of a call or turn, without those that a request does not have
    (`others`).

    It hides the values of headers in place, for a traceback shows the options of the method that
    was called. What is unknown or malformed, or stands beside a request, is a ConfigurationError.
    """
    if isinstance(options.get("headers"), Mapping):
        options["headers"] = SecretMap(options["headers"])
    is_blank = not messages.strip() if isinstance(messages, str) else _are_blank(messages)
    if is_blank:
        raise ConfigurationError("the prompt is empty: write something to be answered")
    system = options.get("system")
    if system is not None:
        messages = _behind(system, messages)
    options = {name: value for name, value in options.items() if name not in others}
    if options:
        refuse_unknown(options, REQUEST_OPTIONS | others)
    if not isinstance(messages, Request):
        return Request(messages, **options)
    if options:
        raise ConfigurationError(
            f"a Request holds its own options; do not pass {', '.join(options)} beside it"
        )
    return messages


def _are_blank(messages: object) -> bool:
    """Tell whether messages have nothing but blank texts."""
    return isinstance(messages, list) and bool(messages) and all(map(_says_nothing, messages))


def _says_nothing(message: object) -> bool:
    if not isinstance(message, Mapping) or not message.keys() <= {"role", "content"}:
        return False
    content = message.get("content")
    return not (content.strip() if isinstance(content, str) else content)


def check_functions(**functions: object) -> None:
    """Refuse arguments that are not functions, and coroutine functions that nobody would await."""
    for name, value in functions.items():
        is_none = value is None and name in _MAY_BE_NONE
        if isinstance(value, type) or not (callable(value) or is_none):
            raise ConfigurationError(f"{name} must be a function, not {_kind_of(value)}")
        if name not in _MAY_BE_ASYNC and inspect.iscoroutinefunction(value):
            raise ConfigurationError(
                f"{name} must be a function, not a coroutine function, which nobody would await"
            )


_MAY_BE_ASYNC = frozenset({"compactor", "async_sleep"})
_MAY_BE_NONE = frozenset({"observer", "compactor", "sleep"})


def check_http(http: object, async_http: object) -> None:
    """Refuse objects that are not HTTP clients, or are of the other kind."""
    for name, value, other in (("http", http, "async_http"), ("async_http", async_http, "http")):
        if value is None:
            continue
        if not (hasattr(value, "build_request") and hasattr(value, "send")):
            raise ConfigurationError(
                f"{name} must be an HTTP client of httpx's shape, not {type(value).__name__}"
            )
        if inspect.iscoroutinefunction(value.send) is not (name == "async_http"):
            raise ConfigurationError(
                f"{name} cannot be of type {type(value).__name__}: give it as {other}"
            )


def check_sizes(max_connections: object, largest_reply: object) -> None:
    """Refuse sizes that are not whole numbers of 1 or more."""
    if not is_whole(max_connections, 1):
        raise ConfigurationError(
            f"max_connections must be a whole number of 1 or more, not {short(max_connections)}"
        )
    if not is_whole(largest_reply, 1):
        raise ConfigurationError("largest_reply must be a whole number of bytes, 1 or more")


def check_flag(name: str, value: object) -> None:
    """Refuse values other than True and False."""
    if not is_flag(value):
        raise ConfigurationError(f"{name} must be True or False, not {short(value)}")


def check_chain(chain: Iterable[object]) -> None:
    """Refuse objects that are not backends, classes included."""
    for backend in chain:
        if isinstance(backend, type):
            name = backend.__name__
            raise ConfigurationError(
                f"the chain must hold backends, not the class {name}: write {name}(model)"
            )
        if not callable(getattr(backend, "encode", None)) or not hasattr(backend, "identities"):
            raise ConfigurationError(
                "the chain must hold backends, as in [rungwise.OpenAI('gpt-5')], not "
                f"{type(backend).__name__}"
            )
        if not hasattr(backend, "pool"):
            raise ConfigurationError(
                f"{type(backend).__name__} must name rungwise.core.Backend as a base, which "
                "declares what a client reads of a backend"
            )


def check_policy(policy: object) -> Policy:
    """Return the policy; refuse anything else."""
    check_kind(policy, Policy)
    return policy  # type: ignore[return-value] # it is one


def check_kind(policy: object, kind: type[Any]) -> None:
    """Refuse what is no policy of this kind, and say what would be right."""
    if isinstance(policy, kind):
        return
    name = kind.__name__
    hint = ""
    if isinstance(policy, type):
        hint = f": write {policy.__name__}()"
    elif isinstance(policy, str | PurePath):
        hint = f": load a file with {name}.load(path)"
    elif isinstance(policy, Mapping):
        hint = f": write {name}(...)"
    elif policy is None:
        hint = ": leave it out for the default"
    elif isinstance(policy, TurnPolicy):
        hint = ": client.turn takes that one"
    for part, of in kind.parts.items():
        if isinstance(policy, of):
            hint = f": write {name}({part}=...)"
    raise ConfigurationError(f"policy must be a {name}, not {_kind_of(policy)}{hint}")


def _kind_of(value: object) -> str:
    """Name the type of a value, or the class that it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def shared_of(
    health: object,
    store: object,
    clock: Clock,
    wall_clock: Clock,
    chain: Iterable[Backend],
    policy: Policy,
) -> Shared | None:
    """Return what calls share: the health of backends, quotas, and, behind a URL only, budgets.

    Arguments:
        health: the rules of health, a `rungwise.Health`; None remembers nothing.
        store: the URL of a Redis server; None for the memory of this process.
        clock, wall_clock: return seconds; see `rungwise.testing.Clocks`.
        chain: the backends, which may have quotas.
        policy: of the client, whose clocks are the measure of silence.

    Raises:
        ConfigurationError: `health` or `store` is something else.
    """
    if store is not None and not isinstance(store, str):
        raise ConfigurationError(
            f"store must be a URL such as redis://localhost:6379/0, not {type(store).__name__}"
        )
    if health is not None and not isinstance(health, Health):
        raise ConfigurationError(f"health must be a Health, or None, not {type(health).__name__}")
    check_chain(chain)
    has_quotas = any(backend.quota is not None for backend in chain)
    if health is None and store is None and not has_quotas:
        return None
    budgets: BudgetStore | None = None
    if store is not None:
        from rungwise.adapters.stores.redis_store import RedisStore  # an extra

        budgets = RedisStore(store, clock)
    memory = MemoryStore(clock) if budgets is None else budgets
    watch = None if health is None else Watch(memory, health, wall_clock, policy)
    return Shared(memory, watch, has_quotas, budgets)


def warn_of_problems(chain: Iterable[Backend]) -> None:
    """Warn of each backend that calls will pass over, such as one without a key."""
    for backend in chain:
        if backend.problem is not None and not backend.stands_in:
            warnings.warn(
                f"{backend.name} cannot be used, and calls pass it over: {backend.problem}",
                stacklevel=3,
            )


def throttle_of(share: object) -> RetryThrottle | None:
    """Return what limits the retries of all calls to a share of them; None for None."""
    if share is None:
        return None
    if not is_number(share, 0, 1):
        raise ConfigurationError(
            f"retry_share must be a number from 0 to 1, or None, not {short(share)}"
        )
    return RetryThrottle(share)


_warned: Final[set[str]] = set()


def _says(library: str, *names: str) -> bool:
    """Tell what a function of a library says; False for a library that nobody has imported, which
    has no loop that runs, or that another thread is just importing.
    """
    found: Any = sys.modules.get(library)
    for name in names:
        found = getattr(found, name, None)
    return callable(found) and bool(found())


def check_sync(name: str, cancellation: object, compactor: object) -> None:
    """Refuse a cancellation of another type, and a compactor that a thread cannot await; warn once
    in an event loop.
    """
    if cancellation is not None and not isinstance(cancellation, Cancellation):
        raise ConfigurationError(
            f"cancellation must be a Cancellation, not {type(cancellation).__name__}"
        )
    if compactor is not None and inspect.iscoroutinefunction(compactor):
        raise ConfigurationError(
            "the compactor is a coroutine function; only what is asynchronous can await it"
        )
    is_in_loop = _says("asyncio", "_get_running_loop") or _says("trio", "lowlevel", "in_trio_run")
    if is_in_loop and name not in _warned:
        _warned.add(name)
        keyword = "await" if name in ("call", "turn") else "async with"
        warnings.warn(
            f"client.{name}() blocks the event loop that runs here; use `{keyword} "
            f"client.a{name}(...)`",
            stacklevel=3,
        )

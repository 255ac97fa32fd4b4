"""Backends on the command line: a protocol, a URL, a model, and the variable that holds the key."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from attrs import evolve

from rungwise.adapters.cli.chains import read_health, read_price_list, read_prices
from rungwise.adapters.cli.output import bad_input
from rungwise.adapters.cli.shared_options import choice_option, text
from rungwise.adapters.cli.targets import APIS_BY_NAME, Target
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.endpoint import read_url, shown_url, variables_of
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.openai import OpenAI
from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.quota import Quota
from rungwise.fsm.values.files import read_toml, text_of_file
from rungwise.fsm.values.label import close_to, did_you_mean, short

if TYPE_CHECKING:
    from rungwise.adapters.client import Client

OPENAI: Final = "https://api.openai.com/v1"
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
"""The form of an environment variable's name. Anything else may be a key, given by mistake."""

SHAPE: Final = "URL#MODEL, URL#MODEL#KEYENV, API:MODEL or API:URL#MODEL"
EXAMPLES: Final = "http://localhost:8000/v1#llama or anthropic:claude-sonnet-4-5"


def _check_url(url: str) -> str:
    """Return a URL; refuse one that no request can go to."""
    try:
        problem = read_url(url, "").problem
    except ConfigurationError as error:
        raise click.BadParameter(str(error).replace("base_url", "the URL")) from None
    if problem is not None:
        raise click.BadParameter(f"{problem.replace('base_url', 'the URL')}, as in {OPENAI}")
    return url


def url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Read an option that is a URL."""
    return None if value is None else _check_url(value)


def _names_server(model: str) -> bool:
    """Tell whether a value of `--model` names the server or the protocol, too."""
    api, colon, _ = model.partition(":")
    return "//" in model or (bool(colon) and api in APIS_BY_NAME)


def _primary(api: str, base_url: str | None, model: str, key_env: str | None) -> Target:
    """Return the first backend; its model may be of the form that `--fallback` takes.

    Arguments:
        api, base_url, model, key_env: the values of the options.
    """
    if not _names_server(model):
        return Target(api, base_url, model, key_env, is_fallback=False)
    if base_url is not None:
        problem = "it names the server as well: leave out --base-url, or the server here"
        raise click.BadParameter(problem, param_hint="--model")
    try:
        target = _target(model)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint="--model") from None
    given = target.key_env
    return evolve(target, key_env=key_env if given is None else given, is_fallback=False)


def _target(value: str) -> Target:
    """Read a backend in one word, as `--fallback` and `--model` take it."""
    api, colon, rest = value.partition(":")
    if api not in APIS_BY_NAME:
        api = "openai"
        rest = value
    elif rest.strip() and "#" not in rest and "//" not in rest:
        return Target(api, None, rest)
    place, *names = rest.split("#")
    if len(names) not in (1, 2) or not place.strip() or not names[0].strip():
        begins = value.partition("#")[0]
        near = ""
        if colon and "/" not in begins:
            near = close_to(begins.partition(":")[0], APIS_BY_NAME)
        problem = f"what begins with {shown_url(begins)} is not of the form {SHAPE}"
        raise click.BadParameter(f"{problem}, as in {EXAMPLES}{near}")
    return Target(api, _check_url(place), *names)


def chain_in(
    name: str, tables: Sequence[Mapping[str, Any]], prices: Callable[[str], Prices | None]
) -> list[HttpBackend]:
    """Make the backends of a chain from its tables in a file.

    Arguments:
        name: the name of the chain.
        tables: a table for each backend.
        prices: returns the prices of a model whose table has none.

    Raises:
        ConfigurationError: a table is malformed, or its backend cannot be used.
    """
    targets: list[Target] = []
    settings: list[dict[str, Any]] = []  # what each backend has beside its target
    for number, table in enumerate(tables, 1):
        where = f"chain.{name}: backend {number}"
        targets.append(_listed_target(table, where, is_fallback=number > 1))
        own: dict[str, Any] = {}
        if "prices" in table:
            own["prices"] = read_prices(table["prices"], where)
        if "quota" in table:
            own["quota"] = _quota_of(table["quota"], where)
        if "parameters" in table:
            own["parameters"] = table["parameters"]
        if "background" in table:
            own["background"] = table["background"]
        settings.append(own)
    try:
        chain = chain_of(targets, prices)
    except click.ClickException as error:
        raise ConfigurationError(f"chain.{name}: {error.message}") from None
    backends = []
    for number, (backend, own) in enumerate(zip(chain, settings, strict=True), 1):
        if "background" in own and "background" not in attrs.fields_dict(type(backend)):
            raise ConfigurationError(
                f"chain.{name}: backend {number}: only the APIs responses and interactions run "
                f"in the background, not {backend.API}; leave background out"
            )
        backends.append(attrs.evolve(backend, **own))
    return backends


def _listed_target(table: Mapping[str, Any], where: str, *, is_fallback: bool) -> Target:
    """Read the table of a backend, but for its prices and its quota."""
    for key, value in table.items():
        if key == "api_key":
            raise ConfigurationError(
                f"{where}: a file holds no keys; name the variable that holds it with key_env"
            )
        if key not in _KEYS:
            raise ConfigurationError(
                f"{where}: {short(key)} is unknown; {did_you_mean(key, _KEYS, _KEYS_HINT)}"
            )
        if key in ("prices", "quota", "parameters", "background") or (
            key == "key_env" and _is_list_of_names(value)
        ):
            continue
        if not isinstance(value, str):
            raise ConfigurationError(f"{where}: {key} must be a string, not {short(value)}")
    api = table.get("api", "openai")
    if api not in APIS_BY_NAME:
        raise ConfigurationError(
            f"{where}: api must be one of {', '.join(APIS_BY_NAME)}, not {short(api)}"
        )
    variables = table.get("key_env")
    if isinstance(variables, list):
        variables = ",".join(variables)
    place = table.get("base_url")
    return Target(api, place, table["model"], variables, is_fallback=is_fallback, is_listed=True)


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _quota_of(value: object, where: str) -> Quota:
    """Read the quota in the table of a backend."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{where}: quota must be a table such as {{concurrent = 20}}, not {short(value)}"
        )
    try:
        return Quota(**value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


_KEYS: Final = (
    "api",
    "model",
    "base_url",
    "key_env",
    "prices",
    "quota",
    "parameters",
    "background",
)
_KEYS_HINT: Final = f"it must be one of {', '.join(_KEYS)}"


def clients_in(path: str, **options: Any) -> dict[str, Client]:
    """Return a client for each chain of a file, all with the policy there.

    Raises:
        ConfigurationError: the file is malformed, or a backend in it cannot be used.
    """
    text = text_of_file(path)
    policy = Policy.from_toml(text, source=path)
    chains = read_toml(text).get("chain", {})
    try:
        if not isinstance(chains, Mapping) or not chains:
            raise ConfigurationError(
                "there is no chain: begin each backend of one with [[chain.default]]"
            )
        prices = read_price_list(text)  # before the chains are made: it refuses what is no table
        health = read_health(text)
        from rungwise.adapters.client import Client

        return {
            name: Client(chain_in(name, tables, prices.of), policy=policy, health=health, **options)
            for name, tables in chains.items()
        }
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def client_in(path: str, chain: str | None, **options: Any) -> Client:
    """Return the client of one chain: the one that is named, the only one, or `default`."""
    clients = clients_in(path, **options)
    name = chain or "default"
    if not chain and len(clients) == 1:
        [name] = clients
    if name not in clients:
        bad_input(f"{path} has no chain {name!r}: name one with --chain, of {', '.join(clients)}")
    return clients[name]


def chain_of(
    targets: Sequence[Target],
    prices: Callable[[str], Prices | None],
    *,
    needs_all: bool = True,
) -> list[HttpBackend]:
    """Make the backends of a chain; anything wrong with one of them ends the command.

    A fallback without a variable uses the first backend's if both have the same scheme, host and
    port.

    Arguments:
        targets: the backends, in order.
        prices: returns the prices of a model.
        needs_all: whether a missing key ends the command; otherwise it is the `problem` of its
            backend.
    """
    primary = targets[0]
    chain = []
    for target in targets:
        may_share = target.key_env is None and primary.key_env is not None
        if may_share and target.origin == primary.origin:
            target = attrs.evolve(target, key_env=primary.key_env)
        chain.append(_backend_of(target, prices(target.model), needs_key=needs_all))
    return chain


def _backend_of(target: Target, prices: Prices | None, *, needs_key: bool) -> HttpBackend:
    """Make one backend; see `chain_of`."""
    for name in target.variables:
        is_variable = VARIABLE.fullmatch(name)
        if os.environ.get(name, "").strip() or (is_variable and not needs_key):
            continue
        if is_variable:
            bad_input(f"{name} is not set in the environment: export it, {target.otherwise}")
        bad_input(  # the message never shows the value, which may be a key
            f"{target.option_of_key} takes the name of an environment variable, not a key; what "
            f"it was given names none"
        )
    keys = [os.environ.get(name, "") for name in target.variables]
    key: str | list[str] | None = keys
    if not keys:
        key = None  # the backend looks for one itself
    elif len(keys) == 1:
        [key] = keys
    try:
        # `openai` chooses the protocol by the model
        make = OpenAI if target.api == "openai" else backend_class(target.protocol)
        backend: HttpBackend = make(
            target.model,
            api_key=key,
            base_url=target.place,
            prices=prices,
            api_key_required=False if target.key_env == "" else None,
        )
    except ConfigurationError as error:
        if "api_key" in str(error):
            bad_input(f"{target.option_of_key}: {error} (in {target.key_env})")
        bad_input(f"{'--fallback' if target.is_fallback else '--model'}: {error}")
    if needs_key and backend.problem is not None:
        bad_input(_problem_text(backend.problem, target))
    return backend


def _problem_text(problem: str, target: Target) -> str:
    """Say why a backend cannot be used, and which variable to set."""
    if "api_key" not in problem:
        return f"{target.place}: {problem}"
    names = target.variables or variables_of(target.origin)
    placeholder = next((name for name in names if os.environ.get(name, "").strip()), None)
    if placeholder is not None:
        return (
            f"{placeholder} holds a placeholder: give it the real key of {target.place}, "
            f"{target.otherwise}"
        )
    if names:
        return f"{' or '.join(names)} is not set in the environment: export it, {target.otherwise}"
    return f"{target.place} has no key: {target.otherwise.removeprefix('or ')}"


_OPTIONS: Final = (
    click.option(
        "--model",
        required=True,
        callback=text,
        help="The model id that is sent, or a backend in the form that --fallback takes.",
    ),
    choice_option(
        "--api",
        APIS_BY_NAME,
        f"The protocol: {', '.join(f'{wire.protocol} ({api})' for api, wire in WIRES.items())}. "
        "The first is Responses for models that take tools only there, or reason at OpenAI's own "
        "host; `chat` never is. Most other servers speak chat completions.",
    ),
    click.option(
        "--base-url",
        callback=url,
        metavar="URL",
        help=f"The URL up to the path of the protocol, as in {OPENAI}.  [default: that of the "
        "protocol's own provider]",
    ),
    click.option(
        "--api-key-env",
        metavar="NAME",
        help="The environment variable that holds the key; '' for a server that takes none.  "
        "[default: at a provider's own host the variable of its own client, such as "
        "OPENAI_API_KEY or ANTHROPIC_API_KEY; none anywhere else]",
    ),
    click.option(
        "--fallback",
        "fallbacks",
        multiple=True,
        metavar="API:MODEL | [API:]URL#MODEL[#KEYENV]",
        callback=lambda context, parameter, values: tuple(map(_target, values)),
        help="The backend to try next when the previous one fails; may be repeated. API is as for "
        "--api, openai if it is left out. KEYENV names the variable that holds its key; without "
        "it, that of --api-key-env counts for the same scheme, host and port, and a provider's own "
        "variable at its own host.",
    ),
)


def chain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a chain to a command, which gets them as `targets`."""

    @functools.wraps(command)
    def with_targets(
        *,
        api: str,
        base_url: str | None,
        model: str,
        api_key_env: str | None,
        fallbacks: Sequence[Target],
        **rest: Any,
    ) -> Any:
        primary = _primary(api, base_url, model, api_key_env)
        return command(targets=(primary, *fallbacks), **rest)

    for option in reversed(_OPTIONS):
        with_targets = option(with_targets)
    return with_targets

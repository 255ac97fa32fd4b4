"""Backends as the command line is given them: a URL, a model, and the variable of the environment with the key."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import click
from attrs import frozen

from rungwise.adapters.cli.output import bad_input
from rungwise.adapters.endpoint import read_url, shown_url
from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.adapters.wires.chat.backend import OpenAIChat
    from rungwise.fsm.call.request import Prices

OPENAI: Final = "https://api.openai.com/v1"
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
"""How variables of the environment are called; what is called otherwise may be a key in the place of a name."""


@frozen
class Target:
    """Name a backend as the command line does: where, which model, and the variable that holds the key."""

    url: str
    model: str
    key_env: str | None = None


def _check_url(url: str) -> str:
    try:
        problem = read_url(url, "/chat/completions").problem
    except ConfigurationError as error:
        raise click.BadParameter(str(error).replace("base_url", "the URL")) from None
    if problem is not None:
        raise click.BadParameter(f"{problem.replace('base_url', 'the URL')}, as in {OPENAI}")
    return url


def url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Read an option that is a URL."""
    return _check_url(value)


def targets_of(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Target, ...]:
    """Read an option that names backends."""
    targets = []
    for value in values:
        parts = value.split("#")
        if len(parts) not in (2, 3) or not parts[0].strip() or not parts[1].strip():
            shape = "URL#MODEL or URL#MODEL#KEYENV, as in http://localhost:8000/v1#llama"
            raise click.BadParameter(f"what begins with {shown_url(parts[0])} is not of the form {shape}")
        targets.append(Target(_check_url(parts[0]), *parts[1:]))
    return tuple(targets)


def check_set(name: str, advice: str, *, option: str) -> None:
    """Refuse a variable that is not set; what may be a key in the place of its name is not shown."""
    if not os.environ.get(name):
        if VARIABLE.fullmatch(name):
            bad_input(f"{name} is not set in the environment: {advice}")
        bad_input(f"{option} takes the name of an environment variable, not a key; what it was given names none")


def backend_of(target: Target, prices: Prices | None, *, of_key: str, of_rest: str) -> OpenAIChat:
    """Make a backend; what is wrong with it is named by the option that said so."""
    from rungwise.adapters.wires.chat.backend import OpenAIChat

    # Not None, with which a backend looks for a key by itself.
    key = os.environ.get(target.key_env, "") if target.key_env else ""
    try:
        return OpenAIChat(
            target.model,
            api_key=key,
            base_url=target.url,
            prices=prices,
            api_key_required=False if target.key_env == "" else None,
        )
    except ConfigurationError as error:
        bad_input(f"{of_key}: {error} (in {target.key_env})" if "api_key" in str(error) else f"{of_rest}: {error}")

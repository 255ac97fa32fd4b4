"""Policies on the command line: a TOML file, or `module:NAME` of a policy in Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import click

from rungwise.adapters.cli.chains import FILES
from rungwise.adapters.cli.shared_options import IN_PYTHON, import_named
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnHints, TurnPolicy
from rungwise.fsm.values.files import read_toml, text_of_file

METAVAR: Final = "POLICY.toml|module:POLICY"
LONGEST_SHOWN: Final = 80
DEFAULT: Final = "default"  # the word for the default policy
# the key under which the context of a command holds the name of its policy
NAMED: Final = "rungwise.policy"


class _PolicyParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the policy in a file or a module, and record in the context how it was named."""
        if not isinstance(value, str):  # it has been read
            return value
        if ctx is not None:
            ctx.meta[NAMED] = value
        path = Path(value)
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            self.fail(f"{value[:LONGEST_SHOWN]!r} is no path: {error.strerror}.", param, ctx)
        if is_file:
            text = text_of_file(path)  # once, for a pipe gives it once
            if ctx is not None:
                ctx.meta.setdefault(FILES, []).append((path, text))
            return self.in_file(text, str(path), ctx)
        if not IN_PYTHON.fullmatch(value):
            wrong = (
                f"{value!r} is a directory"
                if path.is_dir() and value
                else f"File {value!r} does not exist"
            )
            self.fail(f"{wrong}; give POLICY.toml or module:POLICY.", param, ctx)
        return self.in_module(import_named(value, param, ctx), value, ctx)

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        return Policy.from_toml(text, source=source)

    def in_module(self, found: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        if not isinstance(found, Policy):
            hint = ", as its `call` is" if isinstance(found, TurnPolicy) else ""
            self.fail(f"{value} is a {type(found).__name__}, and must be a rungwise.Policy{hint}.")
        return found


class _EitherParameter(_PolicyParameter):
    """Read the policy of a call or a turn; `--turn` says which a file holds."""

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Read what a file holds; refuse a policy of the other kind with a hint."""
        of_calls = "calls: leave out --turn, or put its keys under [call], as in [call.limits]"
        turn = _given(ctx, "turn")
        asked, other, hint = (
            (TurnPolicy, Policy, of_calls) if turn else (Policy, TurnPolicy, "a turn: give --turn")
        )
        try:
            return asked.from_toml(text, source=source)
        except ConfigurationError:
            with suppress(ConfigurationError):
                other.from_toml(text, source=source)
                self.fail(f"{source} is the policy of {hint}.")
            raise

    def in_module(self, found: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        if _given(ctx, "turn") and isinstance(found, Policy):
            self.fail(f"{value} is a Policy of calls, and --turn asks for a rungwise.TurnPolicy.")
        if not isinstance(found, (Policy, TurnPolicy)):
            self.fail(
                f"{value} is a {type(found).__name__}, and must be a rungwise.Policy or a "
                f"rungwise.TurnPolicy."
            )
        return found


def _given(ctx: click.Context | None, name: str) -> Any:
    return None if ctx is None else ctx.params.get(name)


class _EitherOrDefaultParameter(_EitherParameter):
    """Read the policy of a call or a turn; the word `default` is the default one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == DEFAULT and not Path(value).exists():
            return default_of(turn=_given(ctx, "turn"))
        return super().convert(value, param, ctx)


class _ToolsPolicyParameter(_PolicyParameter):
    """Read the policy of a turn if `--tools` is given, else of a call; each call of the turn takes
    the latter.
    """

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Read a file as the kind of policy that its keys tell; keys that both kinds have are the
        turn's.
        """
        if not isinstance(_given(ctx, "tools"), str):
            return super().in_file(text, source, ctx)
        keys = set[str]()
        with suppress(ConfigurationError):  # which `from_toml` words
            document = read_toml(text)
            hints = document.get("hints")
            keys = {
                *document,
                *(f"hints.{name}" for name in (hints if isinstance(hints, Mapping) else ())),
            }
        of_calls = _names(Policy, Hints)
        of_turns = _names(TurnPolicy, TurnHints)
        calls = sorted(keys & of_calls - of_turns)
        turns = sorted(keys & of_turns - of_calls)
        if calls and turns:
            keys_of_both = (
                f"keys of a turn's policy ({', '.join(turns)}) and of a call's ({', '.join(calls)})"
            )
            self.fail(
                f"{source} holds {keys_of_both}: put the call's under [call], as in [call.limits]."
            )
        if calls:
            return TurnPolicy(call=Policy.from_toml(text, source=source))
        return TurnPolicy.from_toml(text, source=source)

    def in_module(self, found: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        if not isinstance(_given(ctx, "tools"), str):
            return super().in_module(found, value, ctx)
        if not isinstance(found, (Policy, TurnPolicy)):
            kinds = "a rungwise.TurnPolicy, or a rungwise.Policy of its calls"
            self.fail(f"{value} is a {type(found).__name__}, and must be {kinds}.")
        return TurnPolicy(call=found) if isinstance(found, Policy) else found


def _names(kind: type[Any], hints: type[Any]) -> set[str]:
    return {
        *(each.name for each in attrs.fields(kind)),
        *(f"hints.{each.name}" for each in attrs.fields(hints)),
    }


POLICY: Final = _PolicyParameter()
TOOLS_POLICY: Final = _ToolsPolicyParameter()
EITHER: Final = _EitherParameter()
EITHER_OR_DEFAULT: Final = _EitherOrDefaultParameter()
turn_option: Final = click.option(
    "--turn",
    is_flag=True,
    is_eager=True,  # so that it is known when a file is read
    help="Read the file as the policy of a turn, with that of its calls in [call]; without a "
    "file, use the default.",
)


def default_of(*, turn: bool) -> Policy | TurnPolicy:
    """Return the default policy of a turn or a call."""
    return DEFAULT_TURN_POLICY if turn else DEFAULT_POLICY

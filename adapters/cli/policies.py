"""Policies on the command line: a TOML file, or `module:NAME` of a policy in Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import click

from rungwise.adapters.cli.chains import FILES
from rungwise.adapters.cli.shared_options import IN_PYTHON, flag_option, import_named
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnHints, TurnPolicy
from rungwise.fsm.values.files import read_toml, text_of_file

METAVAR: Final = "POLICY.toml|module:POLICY"
LONGEST_SHOWN: Final = 80  # characters of a wrong value
DEFAULT: Final = "default"  # the word for the default policy
# the key under which the context of a command holds the name of its policy
NAMED: Final = "rungwise.policy"


class _PolicyParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read the policy of a call."""

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
            self.fail(f"{value[:LONGEST_SHOWN]!r} is not a path: {error.strerror}.", param, ctx)
        if is_file:
            text = text_of_file(path)  # a pipe can be read only once
            if ctx is not None:
                ctx.meta.setdefault(FILES, []).append((path, text))
            return self.in_file(text, str(path), ctx)
        if not IN_PYTHON.fullmatch(value):
            wrong = f"File {value!r} does not exist"
            if value and path.is_dir():
                wrong = f"{value!r} is a directory"
            self.fail(f"{wrong}; give POLICY.toml or module:POLICY.", param, ctx)
        return self.in_module(import_named(value, param, ctx), value, ctx)

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Read what a file holds.

        Arguments:
            text: the content of the file.
            source: its path, for errors.
            ctx: the context of the command, with the options that were read before.
        """
        return Policy.from_toml(text, source=source)

    def in_module(self, named: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Check what a module holds.

        Arguments:
            named: the object.
            value: its name, as it was given.
            ctx: as for `in_file`.
        """
        if not isinstance(named, Policy):
            hint = ", as its `call` is" if isinstance(named, TurnPolicy) else ""
            self.fail(f"{value} is a {type(named).__name__}, and must be a rungwise.Policy{hint}.")
        return named


class _EitherParameter(_PolicyParameter):
    """Read the policy of a call or a turn; `--turn` says which a file holds."""

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Read what a file holds; refuse a policy of the other kind with a hint."""
        kind: type[Policy | TurnPolicy] = Policy
        other: type[Policy | TurnPolicy] = TurnPolicy
        hint = "a turn: give --turn"
        if _value_of(ctx, "turn"):
            kind = TurnPolicy
            other = Policy
            hint = "calls: leave out --turn, or put its keys under [call], as in [call.limits]"
        try:
            return kind.from_toml(text, source=source)
        except ConfigurationError:
            with suppress(ConfigurationError):
                other.from_toml(text, source=source)
                self.fail(f"{source} is the policy of {hint}.")
            raise

    def in_module(self, named: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Check what a module holds; with `--turn` it must be the policy of a turn."""
        if _value_of(ctx, "turn") and isinstance(named, Policy):
            self.fail(f"{value} is a Policy of calls, and --turn asks for a rungwise.TurnPolicy.")
        if not isinstance(named, (Policy, TurnPolicy)):
            self.fail(
                f"{value} is a {type(named).__name__}, and must be a rungwise.Policy or a "
                "rungwise.TurnPolicy."
            )
        return named


def _value_of(ctx: click.Context | None, name: str) -> Any:
    """Return the value of an option that was read before; None without it."""
    return None if ctx is None else ctx.params.get(name)


class _EitherOrDefaultParameter(_EitherParameter):
    """Read the policy of a call or a turn; the word `default` is the default one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the default policy for the word, else what a file or a module holds."""
        if value == DEFAULT and not Path(value).exists():
            return default_of(turn=_value_of(ctx, "turn"))
        return super().convert(value, param, ctx)


class _ToolsPolicyParameter(_PolicyParameter):
    """Read the policy of a turn if `--tools` is given, else that of a call.

    With `--tools`, the policy of a call becomes a turn's, for each of its calls.
    """

    def in_file(self, text: str, source: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Read a file as the kind of policy whose keys it has.

        Keys that both kinds have are the turn's.
        """
        if not isinstance(_value_of(ctx, "tools"), str):
            return super().in_file(text, source, ctx)
        keys = set[str]()
        with suppress(ConfigurationError):  # `from_toml` below reports it better
            document = read_toml(text)
            keys.update(document)
            hints = document.get("hints")
            if isinstance(hints, Mapping):
                keys.update(f"hints.{name}" for name in hints)
        of_calls = _names(Policy, Hints)
        of_turns = _names(TurnPolicy, TurnHints)
        calls = sorted(keys & of_calls - of_turns)
        turns = sorted(keys & of_turns - of_calls)
        if calls and turns:
            self.fail(
                f"{source} holds keys of a turn's policy ({', '.join(turns)}) and of a call's "
                f"({', '.join(calls)}): put the call's under [call], as in [call.limits]."
            )
        if calls:
            return TurnPolicy(call=Policy.from_toml(text, source=source))
        return TurnPolicy.from_toml(text, source=source)

    def in_module(self, named: Any, value: str, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Check what a module holds; with `--tools`, either kind will do."""
        if not isinstance(_value_of(ctx, "tools"), str):
            return super().in_module(named, value, ctx)
        if not isinstance(named, (Policy, TurnPolicy)):
            kinds = "a rungwise.TurnPolicy, or a rungwise.Policy of its calls"
            self.fail(f"{value} is a {type(named).__name__}, and must be {kinds}.")
        return TurnPolicy(call=named) if isinstance(named, Policy) else named


def _names(kind: type[Any], hints: type[Any]) -> set[str]:
    """Return the keys of a kind of policy, and of its hints."""
    names = {each.name for each in attrs.fields(kind)}
    return names | {f"hints.{each.name}" for each in attrs.fields(hints)}


POLICY: Final = _PolicyParameter()
TOOLS_POLICY: Final = _ToolsPolicyParameter()
EITHER_OR_DEFAULT: Final = _EitherOrDefaultParameter()
turn_option: Final = flag_option(
    "--turn",
    is_eager=True,  # so that it is known when a file is read
    help="Read the file as the policy of a turn, with that of its calls in [call]; without a "
    "file, use the default.",
)


def either_policy(command: Any) -> Any:
    """Give a command the policy of a call or, with `--turn`, of a turn."""
    kind = _EitherParameter()
    argument = click.argument("policy", required=False, type=kind, metavar=f"[{METAVAR}]")
    return argument(turn_option(command))


def default_of(*, turn: bool) -> Policy | TurnPolicy:
    """Return the default policy of a turn or a call."""
    return DEFAULT_TURN_POLICY if turn else DEFAULT_POLICY

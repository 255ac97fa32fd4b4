"""Policies on the command line: a TOML file, or `module:NAME` of a policy in Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.options import IN_PYTHON, import_named

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.turn.policy import TurnPolicy

METAVAR: Final = "POLICY.toml|module:POLICY"
LONGEST_SHOWN: Final = 80
DEFAULT: Final = "default"
"""The word for the default policy."""
NAMED: Final = "rungwise.policy"
"""The key under which the context of a command holds the name of its policy."""


class PolicyParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read the policy of a call."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Return the policy of a call in a file or a module."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.turn.policy import TurnPolicy

        if isinstance(value, Policy):
            return value
        source = self.resolve(value, param, ctx)
        if isinstance(source, Path):
            return Policy.from_toml(_text_of(source, ctx), source=str(source))
        if isinstance(source, TurnPolicy):
            self.fail(f"{value} is a TurnPolicy, and must be a rungwise.Policy, as its `call` is.", param, ctx)
        if not isinstance(source, Policy):
            self.fail(f"{value} is a {type(source).__name__}, and must be a rungwise.Policy.", param, ctx)
        return source

    def resolve(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a file, or the object in a module, and record in the context how it was named."""
        if ctx is not None:
            ctx.meta[NAMED] = value
        path = Path(value)
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            self.fail(f"{value[:LONGEST_SHOWN]!r} is no path: {error.strerror}.", param, ctx)
        if is_file:
            return path
        if not IN_PYTHON.fullmatch(value):
            wrong = f"{value!r} is a directory" if path.is_dir() and value else f"File {value!r} does not exist"
            self.fail(f"{wrong}; give POLICY.toml or module:POLICY.", param, ctx)
        return import_named(value, param, ctx)


class EitherParameter(PolicyParameter):
    """Read the policy of a call or a turn; `--turn` says which a file holds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Return the policy in a file or a module."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.turn.policy import TurnPolicy

        if isinstance(value, (Policy, TurnPolicy)):
            return value
        source = self.resolve(value, param, ctx)
        is_turn = bool(ctx is not None and ctx.params.get("turn"))
        if isinstance(source, Path):
            return self._of_file(source, param, ctx, "turns" if is_turn else "calls")
        if is_turn and isinstance(source, Policy):
            self.fail(f"{value} is a Policy of calls, and --turn asks for a rungwise.TurnPolicy.", param, ctx)
        if not isinstance(source, (Policy, TurnPolicy)):
            kinds = "a rungwise.Policy or a rungwise.TurnPolicy"
            self.fail(f"{value} is a {type(source).__name__}, and must be {kinds}.", param, ctx)
        return source

    def _of_file(
        self, path: Path, param: click.Parameter | None, ctx: click.Context | None, kind: str
    ) -> Policy | TurnPolicy:
        """Read a file as a policy of "calls" or of "turns"; refuse one of the other kind with a hint."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.errors import ConfigurationError
        from rungwise.fsm.turn.policy import TurnPolicy

        text = _text_of(path, ctx)
        asked, other = (TurnPolicy, Policy) if kind == "turns" else (Policy, TurnPolicy)
        try:
            return asked.from_toml(text, source=str(path))
        except ConfigurationError:
            with suppress(ConfigurationError):
                other.from_toml(text, source=str(path))
                self.fail(f"{path} is the policy of {_OTHERWISE[kind]}.", param, ctx)
            raise


_OTHERWISE: Final = {
    "calls": "a turn: give --turn",
    "turns": "calls: leave out --turn, or put its keys under [call], as in [call.limits]",
}
"""What a file holds that is not of the kind asked for, and what to do."""


class EitherOrDefaultParameter(EitherParameter):
    """Read the policy of a call or a turn; the word `default` is the default one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Return the policy in a file or a module, or the default one."""
        if value == DEFAULT and not Path(value).exists():
            return default_of(turn=bool(ctx is not None and ctx.params.get("turn")))
        return super().convert(value, param, ctx)


class ToolsPolicyParameter(PolicyParameter):
    """Read the policy of a turn if `--tools` is given, else of a call; each call of the turn takes the latter."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy | TurnPolicy:
        """Return the policy in a file or a module."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.turn.policy import TurnPolicy

        if ctx is None or not isinstance(ctx.params.get("tools"), str):
            return super().convert(value, param, ctx)
        if isinstance(value, TurnPolicy):
            return value
        source = self.resolve(value, param, ctx)
        if isinstance(source, Path):
            return self._of_turns(source, param, ctx)
        if not isinstance(source, (Policy, TurnPolicy)):
            kinds = "a rungwise.TurnPolicy, or a rungwise.Policy of its calls"
            self.fail(f"{value} is a {type(source).__name__}, and must be {kinds}.", param, ctx)
        return TurnPolicy(call=source) if isinstance(source, Policy) else source

    def _of_turns(self, path: Path, param: click.Parameter | None, ctx: click.Context | None) -> TurnPolicy:
        """Read a file as the kind of policy that its keys tell; keys that both kinds have are the turn's."""
        from rungwise.fsm.call.hints import Hints
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.errors import ConfigurationError
        from rungwise.fsm.turn.policy import TurnHints, TurnPolicy
        from rungwise.fsm.values.toml import read_toml

        text, keys = _text_of(path, ctx), set[str]()
        with suppress(ConfigurationError):  # which `from_toml` words
            keys = _keys(read_toml(text))
        of_calls, of_turns = _names(Policy, Hints), _names(TurnPolicy, TurnHints)
        calls, turns = sorted(keys & of_calls - of_turns), sorted(keys & of_turns - of_calls)
        if calls and turns:
            keys_of_both = f"keys of a turn's policy ({', '.join(turns)}) and of a call's ({', '.join(calls)})"
            self.fail(f"{path} holds {keys_of_both}: put the call's under [call], as in [call.limits].", param, ctx)
        if calls:
            return TurnPolicy(call=Policy.from_toml(text, source=str(path)))
        return TurnPolicy.from_toml(text, source=str(path))


def _text_of(path: Path, ctx: click.Context | None) -> str:
    """Return the text of a file, which is read once, for a pipe gives it once, and record it in the context."""
    from rungwise.adapters.cli.chains import FILES
    from rungwise.fsm.values.toml import text_of_file

    text = text_of_file(path)
    if ctx is not None:
        ctx.meta.setdefault(FILES, []).append((path, text))
    return text


def _keys(document: Mapping[str, Any]) -> set[str]:
    """Return the keys of a policy and of its hints."""
    hints = document.get("hints")
    return {*document, *(f"hints.{name}" for name in hints)} if isinstance(hints, Mapping) else set(document)


def _names(kind: type[Any], hints: type[Any]) -> set[str]:
    """Return the keys that a kind of policy may hold."""
    import attrs

    return {*(each.name for each in attrs.fields(kind)), *(f"hints.{each.name}" for each in attrs.fields(hints))}


POLICY: Final = PolicyParameter()
TOOLS_POLICY: Final = ToolsPolicyParameter()
EITHER: Final = EitherParameter()
EITHER_OR_DEFAULT: Final = EitherOrDefaultParameter()
turn_option: Final = click.option(
    "--turn",
    is_flag=True,
    is_eager=True,  # so that it is known when a file is read
    help="Read the file as the policy of a turn, with that of its calls in [call]; without a file, use the default.",
)


def default_policy() -> Policy:
    """Return the default policy of a call."""
    from rungwise.fsm.call.policy import DEFAULT_POLICY

    return DEFAULT_POLICY


def default_of(*, turn: bool) -> Policy | TurnPolicy:
    """Return the default policy of a turn or a call."""
    from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY

    return DEFAULT_TURN_POLICY if turn else default_policy()

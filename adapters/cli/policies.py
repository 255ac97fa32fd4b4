"""A policy as the command line is given it: a TOML file, or `module:NAME` of a policy in Python."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.turn.policy import TurnPolicy

METAVAR: Final = "POLICY.toml|module:POLICY"
LONGEST_SHOWN: Final = 80
_IN_PYTHON: Final = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


class PolicyParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read a policy, with a table of one's own where a module has one."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        """Return the policy of a call that a file or a module holds."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.turn.policy import TurnPolicy

        if isinstance(value, Policy):
            return value
        found = self.found(value, param, ctx)
        if isinstance(found, Path):
            return Policy.load(found)
        if isinstance(found, TurnPolicy):
            self.fail(f"{value} is a TurnPolicy, and must be a rungwise.Policy, as its `call` is.", param, ctx)
        if not isinstance(found, Policy):
            self.fail(f"{value} is a {type(found).__name__}, and must be a rungwise.Policy.", param, ctx)
        return found

    def found(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a file, or what a module holds."""
        path = Path(value)
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            self.fail(f"{value[:LONGEST_SHOWN]!r} is no path: {error.strerror}.", param, ctx)
        if is_file:
            return path
        if not _IN_PYTHON.fullmatch(value):
            self.fail(f"File {value!r} does not exist; give POLICY.toml or module:POLICY.", param, ctx)
        return self._import(value, param, ctx)

    def _import(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        module, _, name = value.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            return attrgetter(name)(import_module(module))
        except AttributeError as error:
            self.fail(f"{value}: {error}.", param, ctx)
        except ImportError as error:
            self.fail(f"{value} cannot be imported: {error}.", param, ctx)
        except (Exception, SystemExit) as error:  # whatever else the module does when it is imported
            self.fail(f"{value} cannot be imported: {type(error).__name__}: {error}", param, ctx)


class EitherParameter(PolicyParameter):
    """Read a policy of a call or of a turn: a file is of a turn where the command is given `--turn`."""

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Policy | TurnPolicy:
        """Return the policy that a file or a module holds."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.turn.policy import TurnPolicy

        if isinstance(value, (Policy, TurnPolicy)):
            return value
        found = self.found(value, param, ctx)
        is_turn = bool(ctx is not None and ctx.params.get("turn"))
        if isinstance(found, Path):
            return TurnPolicy.load(found) if is_turn else self._of_calls(found, param, ctx)
        if is_turn and isinstance(found, Policy):
            self.fail(f"{value} is a Policy of calls, and --turn asks for a rungwise.TurnPolicy.", param, ctx)
        if not isinstance(found, (Policy, TurnPolicy)):
            kinds = "a rungwise.Policy or a rungwise.TurnPolicy"
            self.fail(f"{value} is a {type(found).__name__}, and must be {kinds}.", param, ctx)
        return found

    def _of_calls(self, path: Path, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        """Read a file as the policy of calls, or say that it is one of a turn."""
        from rungwise.fsm.call.policy import Policy
        from rungwise.fsm.errors import ConfigurationError
        from rungwise.fsm.turn.policy import TurnPolicy

        try:
            return Policy.load(path)
        except ConfigurationError:
            with suppress(ConfigurationError):
                TurnPolicy.load(path)
                self.fail(f"{path} is the policy of a turn: give --turn.", param, ctx)
            raise


POLICY: Final = PolicyParameter()
EITHER: Final = EitherParameter()
turn_option: Final = click.option(
    "--turn",
    is_flag=True,
    is_eager=True,  # so that it is known when a file is read
    help="Take a file for the policy of a turn, with that of its calls in [call]; without a file, the default one.",
)


def default_policy() -> Policy:
    """Return the policy that holds where none is given."""
    from rungwise.fsm.call.policy import DEFAULT_POLICY

    return DEFAULT_POLICY


def default_of(*, turn: bool) -> Policy | TurnPolicy:
    """Return the policy of a turn or of a call that holds where none is given."""
    from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY

    return DEFAULT_TURN_POLICY if turn else default_policy()

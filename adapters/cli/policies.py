"""A policy as the command line is given it: a TOML file, or `module:NAME` of a policy in Python."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy

METAVAR: Final = "POLICY.toml|module:POLICY"
LONGEST_SHOWN: Final = 80
_IN_PYTHON: Final = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


class PolicyParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read a policy, with a table of one's own where a module has one."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        """Return the policy that a file or a module holds."""
        from rungwise.fsm.call.policy import Policy

        if isinstance(value, Policy):
            return value
        path = Path(value)
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            self.fail(f"{value[:LONGEST_SHOWN]!r} is no path: {error.strerror}.", param, ctx)
        if is_file:
            return Policy.load(path)
        if not _IN_PYTHON.fullmatch(value):
            self.fail(f"File {value!r} does not exist; give POLICY.toml or module:POLICY.", param, ctx)
        found = self._import(value, param, ctx)
        if not isinstance(found, Policy):
            self.fail(f"{value} is a {type(found).__name__}, and must be a rungwise.Policy.", param, ctx)
        return found

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


POLICY: Final = PolicyParameter()


def default_policy() -> Policy:
    """Return the policy that holds where none is given."""
    from rungwise.fsm.call.policy import DEFAULT_POLICY

    return DEFAULT_POLICY

"""What the command line is given as `module:NAME`, imported as if from the current directory."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

import click

IN_PYTHON: Final = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def import_named(value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
    """Return what a module holds under a name.

    Arguments:
        value: of the form of `IN_PYTHON`.
        param, ctx: what it was given for, for the error.

    Raises:
        click.BadParameter: there is no such module or name, or the module raises.
    """
    module, _, name = value.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return attrgetter(name)(import_module(module))
    except AttributeError as error:
        problem = f"{value}: {error}."
    except ImportError as error:
        problem = f"{value} cannot be imported: {error}."
    except (Exception, SystemExit) as error:  # whatever else the module does when it is imported
        problem = f"{value} cannot be imported: {type(error).__name__}: {error}"
    raise click.BadParameter(problem, ctx=ctx, param=param)

"""The options that several commands share, how their values are read, and headings over them."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.output import bad_input, prints_aside
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import bytes_of_file
from rungwise.fsm.values.moments import read_rfc_3339

if TYPE_CHECKING:
    from rungwise.fsm.call.chain.prices import Prices
    from rungwise.fsm.replies.schemas.returns import Returns
    from rungwise.fsm.turn.tools import Toolbox


IN_PYTHON: Final = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
"""The form of a name in a module, as in `birds:TOOLS`."""


def import_named(value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
    """Return what a module holds under a name of the form of `IN_PYTHON`.

    Raises:
        click.BadParameter: the module cannot be imported, or has no such name.
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
    except (Exception, SystemExit) as error:  # an imported module may do anything
        problem = f"{value} cannot be imported: {type(error).__name__}: {error}"
    raise click.BadParameter(problem, ctx=ctx, param=param)


MOST_TOKENS: Final = 10**9
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?s", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d|)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
TOKENS: Final = click.IntRange(1, MOST_TOKENS)
BACKENDS: Final = click.IntRange(1, 100)


def flag_option(*names: str, **more: Any) -> Callable[[Any], Any]:
    """Make an option that takes no value."""
    return click.option(*names, is_flag=True, **more)


def file_option(*names: str, exists: bool = False, **more: Any) -> Callable[[Any], Any]:
    """Make an option that names a file, which must exist already or not."""
    kind = click.Path(exists=exists, dir_okay=False)
    return click.option(*names, type=kind, metavar="FILE", **more)


def folder_option(*names: str, exists: bool = False, **more: Any) -> Callable[[Any], Any]:
    """Make an option that names a folder, which must exist already or not."""
    kind = click.Path(exists=exists, file_okay=False)
    return click.option(*names, type=kind, metavar="DIR", **more)


def store_option(*, required: bool = False) -> Callable[[Any], Any]:
    """Return the option `--store` of a command."""
    return click.option(
        "--store",
        metavar="URL",
        required=required,
        help="A Redis or Valkey server by which many processes remember together which backends "
        "are down, as in redis://localhost:6379/0.",
    )


def text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Read an argument as UTF-8 where the locale could not."""
    if value is None or not any("\udc80" <= character <= "\udcff" for character in value):
        return value
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        raise click.BadParameter("it is not UTF-8 text: convert it first") from None


output_option: Final = file_option("-o", "--output", help="Write to a file.")
system_option: Final = click.option(
    "--system", metavar="TEXT", callback=text, help="The system message."
)
max_tokens_option: Final = click.option(
    "--max-tokens", type=TOKENS, metavar="N", help="The output cap that calls ask for."
)


def _prices(context: click.Context, parameter: click.Parameter, value: str | None) -> Prices | None:
    """Read `--prices`."""
    from rungwise.adapters.cli.chains import prices_in

    if value is None:
        return None
    try:
        return prices_in(value)
    except ConfigurationError as error:
        raise click.BadParameter(
            f"{value!r} is not of the form IN/OUT, two prices of a million tokens, as in 2.5/10, "
            f'nor a table, as in "input = 2.5, output = 10, units = {{web_search = 0.01}}": {error}'
        ) from None


def moment(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read a point in time, or how many seconds from now it is; return the seconds since 1970."""
    if value is None:
        return None
    if _SECONDS.fullmatch(value):
        return time.time() + float(value[:-1])
    seconds = read_rfc_3339(value)
    if seconds is None:
        raise click.BadParameter(
            f"{value!r} is neither a time in RFC 3339 with its offset, as in "
            "2030-01-31T18:00:00Z, nor seconds from now, as in 30s"
        )
    return seconds


def duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read an option that is a duration; return its seconds."""
    if value is None:
        return None
    parts = _DURATION.fullmatch(value)
    if parts is None:
        raise click.BadParameter(f"{value!r} is not a duration, as in 20s, 1.5m or 30d")
    return float(parts[1]) * _UNITS[parts[2]]


def read_json(option: str, file: str) -> Any:
    """Read the JSON file that an option names."""
    try:
        return json.loads(bytes_of_file(file))
    except OSError as error:
        bad_input(f"{option}: {file} cannot be read ({error.strerror})")
    except ConfigurationError as error:
        bad_input(f"{option}: {file}: {error}")
    except (ValueError, RecursionError):
        bad_input(f"{option}: {file} is not JSON")


def choice_option(
    name: str, words: Sequence[str], help: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an option that takes one of these words, the first by default."""
    return click.option(
        name, type=click.Choice(words), default=words[0], show_default=True, help=help
    )


def number_option(
    name: str, default: int, ends: tuple[int, int | None], help: str
) -> Callable[[Any], Any]:
    """Make an option that takes a whole number.

    Arguments:
        name: the option.
        default: its default.
        ends: the smallest and the largest number; None for no largest one.
        help: what the help says.
    """
    kind = click.IntRange(*ends)
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=help)


def prices_option(whose: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the option that takes prices."""
    return click.option(
        "--prices",
        callback=_prices,
        metavar="IN/OUT",
        help=f"The price of a million tokens in and out, {whose}; a budget of money needs it, "
        "here or under [prices] in the file of the policy. For more than two prices, give a table: "
        '"input = 2.5, output = 10, tiers = {priority = [5, 20]}".',
    )


class _ToolsParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read the tools of a turn."""

    name = "tools"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Toolbox:
        from rungwise.fsm.turn.tools import Tool, Toolbox

        if isinstance(value, Toolbox):
            return value
        if not IN_PYTHON.fullmatch(value):
            self.fail(f"{value!r} is not of the form module:NAME, as in birds:TOOLS.", param, ctx)
        with prints_aside():
            named = import_named(value, param, ctx)
        if callable(named) or isinstance(named, Tool):
            named = [named]
        if not isinstance(named, Toolbox | Iterable) or isinstance(named, str | bytes):
            kinds = "a function, a rungwise.Tool, a list or mapping of them, or a rungwise.Toolbox"
            self.fail(f"{value} is a {type(named).__name__}, and must be {kinds}.", param, ctx)
        try:
            tools = Toolbox.of(named)
        except ConfigurationError as error:
            self.fail(f"{value}: {error}.", param, ctx)
        except Exception as error:  # an object of the user's may raise anything
            self.fail(f"{value} cannot be read: it raised {type(error).__name__}.", param, ctx)
        if not tools:
            self.fail(f"{value} holds no tools.", param, ctx)
        return tools


class ReturnsParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read what an answer must be."""

    name = "returns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the type that a module holds, or the JSON schema in a file."""
        from rungwise.fsm.replies.schemas.returns import Returns

        return value if isinstance(value, Returns) else self._read(value, param, ctx)[1]

    def _read(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, Returns]:
        """Return what a module or a file holds, and what checks an answer by it."""
        from rungwise.fsm.replies.schemas.returns import returns_of

        if IN_PYTHON.fullmatch(value) and not Path(value).exists():
            with prints_aside():
                wanted = import_named(value, param, ctx)
        else:
            wanted = read_json("--returns", value)
            if not isinstance(wanted, dict):
                bad_input(f"--returns: {value} holds no JSON object")
            if "name" in wanted and isinstance(wanted.get("schema"), dict):
                wanted = wanted["schema"]
        try:
            returns = returns_of(wanted)
        except ConfigurationError as error:
            bad_input(f"--returns: {value}: {error}")
        if returns is None:
            bad_input(f"--returns: {value} is None")
        return wanted, returns


class WantedParameter(ReturnsParameter):
    """Read what an answer must be, as it stands in the file or the module.

    Other processes can find a type there.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the type or the JSON schema."""
        return self._read(value, param, ctx)[0] if isinstance(value, str) else value


returns_option: Final = click.option(
    "--returns",
    type=ReturnsParameter(),
    metavar="FILE|module:NAME",
    help="What the answer must be: a JSON schema, bare or as {name, schema}, or a type in Python. "
    "A wrong answer goes back to the model with the reason.",
)
TOOLS: Final = _ToolsParameter()


# headings over the options of a command in its `--help`


Decorator = Callable[[Any], Any]

_HEADINGS: Final[dict[click.Parameter, str]] = {}
"""The headings of options. Any other stands under `OTHERS`."""

OTHERS: Final = "Options"


def under(heading: str, *options: Decorator) -> Decorator:
    """Add options to a command, under a heading of their own in its help.

    Arguments:
        heading: what stands above them.
        options: decorators, such as those of `click.option`, in the order of the help.
    """

    def add(command: Any) -> Any:
        for option in reversed(options):
            before = len(getattr(command, "__click_params__", ()))
            command = option(command)
            for parameter in command.__click_params__[before:]:
                _HEADINGS[parameter] = heading
        return command

    return add


class HeadedCommand(click.Command):
    """Show options in sections, in the order in which the command names them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of a heading together."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = _HEADINGS.get(parameter, OTHERS)
                sections.setdefault(heading, []).append(record)
        sections[OTHERS] = sections.pop(OTHERS, [])  # the last one; `--help` is in it
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

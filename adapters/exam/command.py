"""`rungwise exam`: what anybody's program does when its provider misbehaves."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.output import (
    aligned,
    bad_input,
    check_writable,
    note,
    put,
    write_out,
    writing,
)
from rungwise.adapters.cli.shared_options import IN_PYTHON, duration, flag_option, number_option
from rungwise.adapters.exam.grades import GRADES, Grade

if TYPE_CHECKING:
    from rungwise.adapters.exam.cases import ExamCase
    from rungwise.adapters.exam.examining import Exam, Examined, Play

AT_ONCE: Final = 4
PROTOCOLS: Final = ("openai", "anthropic", "gemini", "ollama", "bedrock")


def _least(context: Any, parameter: Any, values: tuple[str, ...]) -> list[tuple[Grade, int]]:
    """Read grades with a number, such as pass=12."""
    read = []
    for value in values:
        grade, _, number = value.partition("=")
        if grade not in GRADES[:-1] or not number.isdecimal():
            bad_input(f"{value!r} is not a grade with a number: pass=12, partial=15 or safe=20")
        read.append((grade, int(number)))
    return read


def _instead(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Print the list of cases, or a gateway's configuration, in the place of an exam."""
    from rungwise.adapters.exam.cases import catalogue
    from rungwise.adapters.exam.examinees import configuration

    if not value or context.resilient_parsing:
        return
    if value is True:
        put(aligned([(case.name, case.title) for case in catalogue().values()]))
    else:
        put(configuration(value))
    context.exit()


@click.command(short_help="Examine any program: what does it do when its provider misbehaves?")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--case", "names", multiple=True, metavar="NAME", help="Play this case; may be repeated."
)
@number_option("--cases", 20, (1, None), "Play the first N cases that fit the program.")
@flag_option(
    "--walks",
    help="Take the cases from sequences of faults that are made from Rungwise's own machine.",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(PROTOCOLS),
    help="Set the variables of this protocol; may be repeated.  [default: all]",
)
@click.option(
    "--budget", callback=duration, metavar="SECONDS", help="Begin no case after so long, as 60s."
)
@number_option("--jobs", AT_ONCE, (1, 64), "Run N cases side by side.")
@click.option(
    "--env",
    "passed",
    multiple=True,
    metavar="NAME",
    help="Pass this variable of the environment on; may be repeated.",
)
@click.option(
    "--fail-under",
    "least",
    multiple=True,
    callback=_least,
    metavar="GRADE=N",
    help="Exit with 1 if fewer than N cases have this grade or a better one.",
)
@click.option(
    "--import",
    "named",
    metavar="MODULE:NAME",
    help="Examine this function, (messages) -> text, sync or async.",
)
@click.option("--gateway", metavar="URL", help="Examine the gateway at this address.")
@click.option(
    "--model",
    metavar="NAME",
    help="The gateway's model; {} in it stands for the number of the case.",
)
@click.option(
    "--api-key-env", "key_variable", default="", metavar="NAME", help="Holds the gateway's key."
)
@click.option(
    "--print-config",
    type=click.Choice(["litellm", "rungwise"]),
    is_eager=True,
    expose_value=False,
    callback=_instead,
    help="Print how a gateway finds the provider.",
)
@flag_option("--json", "json_output", help="Print JSON instead of a table.")
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write a file too: .html with timelines, .xml for JUnit, .json; may be repeated.",
)
@click.option(
    "--journal", metavar="DIR", help="Write the bytes of each case into this folder, without keys."
)
@flag_option("--list", is_eager=True, expose_value=False, callback=_instead, help="List the cases.")
def exam(
    names: tuple[str, ...],
    cases: int,
    walks: bool,
    budget: float | None,
    jobs: int,
    least: list[tuple[Grade, int]],
    json_output: bool,
    outputs: tuple[str, ...],
    journal: str | None,
    **examined: Any,
) -> int:
    """Examine any program: what does it do when its provider misbehaves?

    COMMAND runs once while all is well, and once for each case. A server on this machine plays the
    provider; OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST and the like
    name it. The program is judged by what it prints, its exit code, and the requests that it sends.
    It needs nothing of Rungwise, gets no key of yours, and is killed when it does not end.

    Whom it asks first while all is well, by protocol and model, misbehaves; any other backend is
    well.

    \b
    Grades, as in Failover Bench:
      pass     a whole answer, by the rules
      partial  a whole answer, with a blemish
      safe     an honest error, in time
      fail     a hang, a cut answer as success, or a broken rule

    \b
    Exit codes:
      0  no case failed, or there are as many good grades as --fail-under asks for
      1  a case failed, or there are fewer
      2  bad input, or the program cannot be examined

    \b
    Examples:
      rungwise exam -- python my_agent.py "What is 2 + 2?"
      rungwise exam --budget 60s --fail-under pass=12 -- node agent.mjs
      rungwise exam --import mymodule:call
      rungwise exam --gateway http://127.0.0.1:4000 --model 'm-{}'
    """
    from rungwise.adapters.exam.examining import examine
    from rungwise.adapters.exam.report import as_json, as_table

    _check(names, outputs)
    with _examinee(**examined) as play:
        came = examine(
            play,
            names=names,
            pool=_walks() if walks else (),
            count=cases,
            budget=budget,
            at_once=1 if examined["gateway"] else jobs,
            finished=_tell,
        )
    _write(came, outputs, journal)
    put(as_json(came) if json_output else as_table(came))
    return int(not _is_enough(came, least))


def _examinee(
    command: tuple[str, ...],
    protocols: tuple[str, ...],
    passed: tuple[str, ...],
    named: str | None,
    gateway: str | None,
    model: str | None,
    key_variable: str,
) -> AbstractContextManager[Play]:
    """Return whom a command line names.

    Arguments:
        command: a program and its arguments.
        protocols: those in which it is told of its provider.
        passed: the variables that are passed on to it.
        named: a function.
        gateway: the address of a gateway.
        model: whom to ask the gateway for.
        key_variable: the variable that holds the gateway's key.
    """
    from rungwise.adapters.exam.examinees import ExaminedGateway, Program, function

    if (bool(command), named is not None, gateway is not None).count(True) != 1:
        bad_input("name one thing to examine: -- COMMAND, --import MODULE:NAME, or --gateway URL")
    if gateway is None:
        if named is not None and not IN_PYTHON.fullmatch(named):
            bad_input(f"--import {named}: name a function as MODULE:NAME")
        return nullcontext(Program(function(named) if named else command, protocols, passed))
    if model is None:
        bad_input("--gateway needs --model, the name to ask it for")
    try:
        return ExaminedGateway(gateway, model, key_variable)
    except OSError as error:
        bad_input(f"the provider cannot listen for the gateway ({error.strerror})")


def _walks() -> Iterable[ExamCase]:
    from rungwise.adapters.exam.walks import walks

    return walks()


def _check(names: Iterable[str], outputs: Iterable[str]) -> None:
    """Refuse what can be refused before the long work."""
    from rungwise.adapters.exam.cases import catalogue
    from rungwise.adapters.exam.report import FORMS

    for output in outputs:
        if Path(output).suffix not in FORMS:
            bad_input(f"--output {output}: end its name in {', '.join(FORMS)}")
        check_writable(output)
    for name in names:
        if name not in catalogue():
            bad_input(f"there is no case {name!r}; --list shows them all")


def _write(came: Exam, outputs: Iterable[str], journal: str | None) -> None:
    from rungwise.adapters.exam.journal import write_journal
    from rungwise.adapters.exam.report import FORMS

    if journal is not None:
        with writing(journal):
            write_journal(came, Path(journal))
    for output in outputs:
        write_out(output, FORMS[Path(output).suffix](came))


def _tell(outcome: Examined) -> None:
    note(f"  {outcome.mark.grade:8}{outcome.case.title}")


def _is_enough(came: Exam, least: list[tuple[Grade, int]]) -> bool:
    """Tell whether an exam is good enough: without a minimum, if no case failed."""
    if not least:
        return not came.of("fail")
    for name, count in least:
        enough = GRADES[: GRADES.index(name) + 1]
        if sum(len(came.of(grade)) for grade in enough) < count:
            return False
    return True

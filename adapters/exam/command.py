"""`rungwise exam`: what anybody's program does when its provider misbehaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.output import bad_input, note, put
from rungwise.adapters.cli.shared_options import duration

if TYPE_CHECKING:
    from rungwise.adapters.exam.examining import Exam, Examined

AT_ONCE: Final = 4
PROTOCOLS: Final = ("openai", "anthropic", "gemini", "ollama", "bedrock")


class _Least(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read a grade and a number, such as pass=12."""

    name = "grade"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        from rungwise.adapters.exam.grades import GRADES

        grade, _, number = str(value).partition("=")
        if grade not in GRADES[:-1] or not number.isdecimal():
            self.fail(f"{value!r} is no grade with a number: pass=12, partial=15 or safe=20")
        return grade, int(number)


def _list(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    from rungwise.adapters.exam.cases import catalogue

    if value and not context.resilient_parsing:
        width = max(map(len, catalogue()))
        for case in catalogue().values():
            put(f"{case.name.ljust(width)}  {case.title}\n")
        context.exit()


@click.command(short_help="Examine any program: what does it do when its provider misbehaves?")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--case", "names", multiple=True, metavar="NAME", help="Play this case; may be repeated."
)
@click.option(
    "--cases",
    "count",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Play the first N cases that fit the program.",
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
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=AT_ONCE,
    show_default=True,
    metavar="N",
    help="Run N cases side by side.",
)
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
    type=_Least(),
    metavar="GRADE=N",
    help="Exit with 1 if fewer than N cases have this grade or a better one.",
)
@click.option("--json", "json_output", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the cases.",
)
def exam(
    command: tuple[str, ...],
    names: tuple[str, ...],
    protocols: tuple[str, ...],
    jobs: int,
    passed: tuple[str, ...],
    least: tuple[tuple[str, int], ...],
    json_output: bool,
    **chosen: Any,
) -> int:
    """Examine any program: what does it do when its provider misbehaves?

    COMMAND runs once while all is well, and once for each case. A server on this machine plays the
    provider; OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST and the like
    name it. The program is judged by what it prints, its exit code, and the requests that it sends.
    It needs nothing of Rungwise, gets no key of yours, and is killed when it does not end.

    Whom the program asks first, by protocol and model, misbehaves; any other backend is well.

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
      rungwise exam --case retry_after --case cut -- ./ask.sh
    """
    from rungwise.adapters.exam.cases import catalogue
    from rungwise.adapters.exam.examining import examine
    from rungwise.adapters.exam.programs import environment, run
    from rungwise.adapters.exam.report import as_json, as_table

    for name in names:
        if name not in catalogue():
            bad_input(f"there is no case {name!r}; --list shows them all")

    def play(base: str, limit: float) -> Any:
        return run(command, environment(base, protocols, passed), limit)

    came = examine(
        play,
        names=names,
        at_once=jobs,
        finished=_tell,
        **chosen,
    )
    put(as_json(came) if json_output else as_table(came))
    return int(not _is_enough(came, least))


def _tell(outcome: Examined) -> None:
    note(f"  {outcome.mark.grade:8}{outcome.case.title}")


def _is_enough(came: Exam, least: tuple[tuple[str, int], ...]) -> bool:
    """Tell whether an exam is good enough: without a minimum, if no case failed."""
    from rungwise.adapters.exam.grades import GRADES

    grades = [GRADES.index(each.mark.grade) for each in came.outcomes]
    if not least:
        return GRADES.index("fail") not in grades
    return all(
        sum(grade <= GRADES.index(name) for grade in grades) >= count for name, count in least
    )

"""Write what an exam came to: as a table, as JSON, as JUnit's XML, and as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from rungwise.adapters.cli.output import aligned
from rungwise.adapters.exam.examining import Exam, Examined
from rungwise.adapters.exam.stage import SeenRequest
from rungwise.fsm.diagram.page.templates import render


def as_table(exam: Exam) -> str:
    """Return a table for a terminal, each grade with its reasons, and the sums below."""
    rows = [("", "the primary", "requests", "tokens", "seconds", "")]
    for each in exam.outcomes:
        seen = each.seen
        requests = str(len(seen.asked))
        seconds = f"{seen.ended.seconds:.1f}"
        why = "; ".join(each.mark.why)
        rows.append((each.mark.grade, each.case.title, requests, str(seen.tokens), seconds, why))
    lines = [aligned(rows), f"{exam.total}  pass-partial-safe-fail, {_time_of(exam)}"]
    if exam.left_out:
        names = ", ".join(case.name for case in exam.left_out)
        lines.append(f"no time was left for: {names}")
    return "\n".join(lines) + "\n"


def _time_of(exam: Exam) -> str:
    """Say how long it took, and how much of that was the program's own waiting."""
    count = len(exam.outcomes)
    waited = sum(each.seen.waited for each in exam.outcomes)
    return (
        f"{count} cases in {exam.seconds:.0f} s; beyond its healthy runs, the program took "
        f"{waited:.0f} s in all, most of it waiting"
    )


def as_json(exam: Exam) -> str:
    """Return the same as JSON, with every request."""
    value = _plain(exam)
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def as_junit(exam: Exam) -> str:
    """Return the same for CI: a case that failed is a failure, one that was left out is skipped."""
    return render("junit", failed=exam.of("fail"), **_plain(exam))


def as_page(exam: Exam) -> str:
    """Return the same as a page of HTML, with a timeline of each case."""
    return render("exam", title="Exam", time=_time_of(exam), **_plain(exam))


def _plain(exam: Exam) -> dict[str, Any]:
    value: dict[str, Any] = {"total": exam.total, "seconds": round(exam.seconds, 3)}
    value["cases"] = [_case(each) for each in exam.outcomes]
    value["left_out"] = [case.name for case in exam.left_out]
    return value


def _case(outcome: Examined) -> dict[str, Any]:
    seen = outcome.seen
    value: dict[str, Any] = {"name": outcome.case.name, "title": outcome.case.title}
    value |= {"grade": outcome.mark.grade, "why": list(outcome.mark.why)}
    value |= {"tokens": seen.tokens, "exit_code": seen.ended.code}
    value |= {"seconds": round(seen.ended.seconds, 3), "waited": round(seen.waited, 3)}
    value["requests"] = [_request(each) for each in seen.asked]
    return value


def _request(asked: SeenRequest) -> dict[str, Any]:
    wanted = asked.wanted
    value: dict[str, Any] = {"at": round(asked.at, 3), "protocol": wanted.api}
    value |= {"model": wanted.model, "is_primary": asked.is_primary}
    value |= {"status": asked.reply.status, "tokens": asked.tokens}
    return value


FORMS: Final[Mapping[str, Callable[[Exam], str]]] = {
    ".html": as_page,
    ".xml": as_junit,
    ".json": as_json,
}
"""How an exam is written into a file, by the end of its name."""

"""Judge a case from outside alone: by what was printed, the exit code, and what the provider saw.

Theory: Failover Bench's four grades. A program *passes* that was rescued and kept every rule, is
*partial* if it was rescued with a blemish, *safe* if it gave up cleanly and in time, and *fails* by
a hang, by a cut or lost answer that looks like success, or by a broken rule. Where the outside
cannot tell, the program has the benefit of the doubt: an error in words is an error, even with exit
code 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import frozen

from rungwise.adapters.exam.answer import ANSWER, begun, times_begun
from rungwise.adapters.exam.cases import CALL_ID, ExamCase
from rungwise.adapters.exam.grades import Mark
from rungwise.adapters.exam.programs import ProgramEnd
from rungwise.adapters.exam.stage import SeenRequest

WORDS_OF_ERRORS: Final = re.compile(
    r"error|fail|exception|unavailable|timed? ?out|incomplete|interrupt|partial|refus|overload|"
    r"rate.?limit|cannot|could not|unable|sorry|warning|\b[45]\d\d\b",
    re.I,
)

TIMES: Final = re.compile(r"[\d.,]*\d[:.,-]\d[\d:.,TZ-]*|\b\d{5,}\b")
RESULT_OF_CUT_CALL: Final = re.compile(
    rb'"(?:tool_call_id|tool_use_id|toolUseId)":"%b"' % CALL_ID.encode()
)


@frozen(kw_only=True)
class Seen:
    """Hold a case, what was seen of it, and what a healthy run of the same program shows."""

    case: ExamCase
    ended: ProgramEnd
    asked: tuple[SeenRequest, ...]
    healthy: ProgramEnd

    @property
    def primary(self) -> list[SeenRequest]:
        """Return the requests that the primary got."""
        return [each for each in self.asked if each.is_primary]

    @property
    def is_whole(self) -> bool:
        """Tell whether the whole answer was shown."""
        return begun(self.ended.output) == ANSWER

    @property
    def is_honest(self) -> bool:
        """Tell whether the program said that something went wrong."""
        if self.ended.code:
            return True
        told = self.ended.output.replace(begun(self.ended.output), "")
        usual = _lines_of(self.healthy.errors)
        new = " ".join(_lines_of(self.ended.errors) - usual)
        return bool(WORDS_OF_ERRORS.search(told) or WORDS_OF_ERRORS.search(new))

    @property
    def tokens(self) -> int:
        """Return what the providers bill."""
        return sum(each.tokens for each in self.asked)

    @property
    def waited(self) -> float:
        """Return the seconds beyond those of a healthy run."""
        return max(0.0, self.ended.seconds - self.healthy.seconds)


def _lines_of(text: str) -> set[str]:
    """Return the lines of a text; times in them do not tell two apart, a status does."""
    return {TIMES.sub("", line).strip() for line in text.splitlines()}


def judge(seen: Seen) -> Mark:
    """Grade a case."""
    failed = tuple(_fatal(seen))
    if failed:
        return Mark("fail", failed)
    if not seen.is_whole:
        return _given_up(seen)
    blemishes = tuple(_blemishes(seen))
    return Mark("partial", blemishes) if blemishes else Mark("pass")


def _given_up(seen: Seen) -> Mark:
    code = seen.ended.code
    how = f"ended with an error, exit code {code}" if code else "told of an error in words"
    if seen.case.ideal == "reason":
        return Mark("pass")
    if begun(seen.ended.output):
        return Mark("safe", (f"showed a part of the answer, and {how}",))
    return Mark("safe", (how,))


def _fatal(seen: Seen) -> Iterator[str]:
    """Yield what no answer makes good."""
    case = seen.case
    code = seen.ended.code
    if code is None:
        yield f"had not ended after {case.limit:g} s"
        return
    if code < 0:
        yield f"was ended by signal {-code}"
    if not seen.is_whole and not seen.is_honest:
        shown = "part of the answer" if begun(seen.ended.output) else "no answer"
        yield f"showed {shown}, and exit code 0, as if all were well"
    if len(seen.primary) > case.most:
        yield f"sent {len(seen.primary)} requests where {case.most} are enough"
    if case.at_first is not None:
        most, seconds = case.at_first
        first = seen.primary[0].at if seen.primary else 0.0
        count = sum(each.at - first <= seconds for each in seen.primary)
        if count > most:
            yield f"sent {count} requests within {seconds:g} s"


def _blemishes(seen: Seen) -> Iterator[str]:
    """Yield what an answer does not make good altogether."""
    case = seen.case
    at = [each.at for each in seen.primary]
    if not at:
        yield "did not ask the backend that misbehaves, so it did not meet this"
        return
    if seen.ended.code:
        yield f"showed the whole answer, but exit code {seen.ended.code}"
    if times_begun(seen.ended.output) > times_begun(seen.healthy.output):
        yield "showed text of a broken reply and never took it back"
    if case.again and len(at) < 2:
        yield "did not ask the same backend again"
    gaps = [later - earlier for earlier, later in pairwise(at)]
    if case.waits and gaps and min(gaps[: len(case.replies)]) < case.waits:
        yield f"asked again after {min(gaps):.1f} s, before the time that was asked for"
    if case.within is not None and seen.waited > case.within:
        yield f"took {seen.waited:.0f} s longer than a healthy run"
    if case.ideal == "reason":
        yield "routed around a filter instead of telling its reason"
    whole = [each.sent for each in seen.asked if each.is_whole]
    if len(set(whole)) < len(whole):
        yield "paid twice for the same request, answered in full before"
    if any(_answers_cut_call(each) for each in seen.asked):
        yield "answered a tool call that was cut"


def _answers_cut_call(asked: SeenRequest) -> bool:
    """Tell whether a request holds a tool's result for the call that was cut."""
    body = asked.sent
    return b'"function_call_output"' in body or RESULT_OF_CUT_CALL.search(body) is not None

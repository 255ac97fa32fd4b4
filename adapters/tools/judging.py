"""Call the verdicts of a reply, and collect what they find.

Threads and event loops are imported when there is a verdict to call: other calls do without
asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.fsm.call.conversation.observation import Finding, Judged

if TYPE_CHECKING:
    from rungwise.adapters.tools.calling import LoopThread

_VERDICT = "a verdict"


@define(eq=False)
class Verdicts:
    """Call verdicts for as long as the call may take.

    Async ones share an event loop in another thread.
    """

    _loop: LoopThread | None = field(default=None, init=False)

    def found(
        self,
        judged: Judged,
        cancellation: Cancellation,
        deadline: Deadline,
    ) -> Finding:
        """Call the verdicts of a reply, one after the other.

        Raises:
            CallEnded: the call was cancelled.
        """
        from rungwise.adapters.tools.calling import LoopThread, outcome_of

        self._loop = self._loop or LoopThread()
        sentences = []
        for verdict in judged.asked():
            answer = outcome_of(_VERDICT, verdict, cancellation, deadline, self._loop)
            if isinstance(answer, Exception):
                return Finding.raising(answer)
            sentences.append(answer)
        return judged.found(sentences)

    def close(self) -> None:
        """End the event loop, if there is one."""
        if self._loop is not None:
            self._loop.close()


async def found_async(judged: Judged, cancellation: Cancellation, deadline: Deadline) -> Finding:
    """Call the verdicts of a reply from an event loop; see `Verdicts.found`."""
    from rungwise.adapters.tools.calling import aoutcome_of

    sentences = []
    for verdict in judged.asked():
        answer = await aoutcome_of(_VERDICT, verdict, cancellation, deadline)
        if isinstance(answer, Exception):
            return Finding.raising(answer)
        sentences.append(answer)
    return judged.found(sentences)

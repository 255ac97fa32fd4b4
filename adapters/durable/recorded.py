"""What a call or a turn was told, recorded so that another process can take it to where it was.

Theory
------

What it is. A call does no I/O: its driver tells it what happens (`begin`, `sending`, `hear`,
`receive`, ...), and it answers with what to do next. So a call is a function of what it was told.
The tape is that list, in order, each entry with the time; to resume a call is to make a new one and
tell it the entries again. This is event sourcing, or in the words of Gray and Reuter (Transaction
Processing, 1993) a logical redo log: a record says which operation to do again, not which bytes
changed.

Why it stands beside the journal. The journal says how a call went: steps, waits, usage. It is made
for people and for replays, holds no texts unless asked, and cannot be continued. The tape says what
came in: whole replies, what a verdict found, what the compactor returned. It has one reader,
`retell`. While the entries are told again the call writes its journal again, so the two agree. A
journal that holds all of this could take the place of the tape.

Why the retelling reaches the same state. Whatever a call asks of the world is on the tape, and is
read from it in place of asking:

* the time, with each entry (`now`)
* the draws of jitter, and the facts that depend on other calls (the `receive` entries)
* what a shared budget decided (`decided`)
* which key and backend were free (`open`, `arrive`)
* the deadline, and what was remembered of each backend (`begin`)

The policy, the table and the chain are not on the tape; `work.is_same_setting` refuses others. A
check remains: `send` entries say what was sent, and a call that would now send something else
raises a JournalMismatch, rather than doing what nobody has asked for.

What is written when. `driver.Saver` writes what is new on the tape as a record in the database:
before an attempt is sent, after a reply if a wait follows, before a tool begins, and while a
stream goes on once a second or every 2,000 characters, together with the events that its reader
gets. A record is written whole or not at all.

What a crash costs, by where it happens:

* Before the first record: nothing. The call begins anew.
* Between the record and the sending, or in flight: one attempt. Nobody knows how far it came, so
  the call is told `crashed` once, and the attempt is charged at its cap. It counts as an attempt,
  so what the certificate says holds over any number of crashes.
* In flight at a backend with `background=True`: nothing, once the id of the reply is saved
  (`keep`), which is as soon as the provider has said it. The call is told `crashed` with that id,
  its rung is `reattach`, and its stream comes once more from the beginning, for no decoder outlives
  its process. What the call was told of it before is left out. If the id was not known yet, the
  call asks anew.
* In a stream: the same, and the text since the last record. The text before that goes on, as that
  of any stream that breaks.
* After a reply, before it is written: the same as in flight. The reply is lost and paid for.
* In a wait: nothing. The rest of the wait is waited for.
* In a tool: see `turn_tape.py`.

What it costs without a crash: a write for each attempt, and memory for the replies of one call. To
restore a call costs what the core took for the same entries, without the I/O. A snapshot of the
state in place of the tape would need a form for every object that a call holds, and a migration
for each change of one; the tape needs ten kinds of entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from rungwise.adapters.durable.forms import Plain
from rungwise.fsm.call.run.recording import Observer, silent
from rungwise.fsm.errors import JournalMismatch

Entry = Plain
"""One thing that a call was told: `did` names the method, `now` is the time on the clock of the
call.
"""


def began_at(records: Sequence[str]) -> float | None:
    """Return when the call began that has these records, in seconds since 1970; None if it has
    not.
    """
    began: float | None = None
    if records:
        began = orjson.loads(records[0])["tape"][0]["started"]
    return began


class Recorded(ABC):
    """A call or a turn that records what it is told."""

    __slots__ = ()

    tape: list[Entry]
    _recorder: Any

    def restore(self, tape: Iterable[Entry]) -> None:
        """Tell a new call or turn what is on a tape.

        Raises:
            JournalMismatch: it does not do again what is recorded of it.
        """
        observer = self._recorder.observer
        self._recorder.observer = silent  # another process has told it of all this
        for number, entry in enumerate(tape, start=1):
            try:
                self.retell(entry)
            except JournalMismatch:
                raise
            except Exception as error:
                raise JournalMismatch(
                    f"entry {number} ({entry.get('did')!r}) of its record is not what this call "
                    f"can be told: {type(error).__name__}"
                ) from error
            self.tape.append(entry)
        self._recorder.observer = observer

    def observe(self, observer: Observer | None) -> None:
        """Call an observer with each step from now on, or nobody."""
        self._recorder.observer = observer

    @abstractmethod
    def retell(self, entry: Entry) -> None:
        """Tell it one entry again, without recording that."""

    def _note(self, did: str, now: float | None, **values: Any) -> None:
        self.tape.append({"did": did, "now": now, **values})

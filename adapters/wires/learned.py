"""What this process learned from servers, so that no later call has to learn it again.

A call reads its lessons when it begins (`fsm/call/chain/lessons.py`), and the journal of the
call says so. They can be wrong: a server is upgraded, a proxy switches to another one. So a reply
that contradicts a lesson removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Send
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.forks import renewed_in_children

Place = tuple[str, str]
"""A host or a base URL, and the model there."""

MOST_PLACES: Final = 1_024
"""The most places that are remembered; the oldest is forgotten first."""

LEAST_LARGEST: Final = 256
"""No model's largest output is smaller; a smaller number is about one prompt, or a mistake."""

CAPS: Final = frozenset(CAP_PARAMETERS)
"""The names of the output cap, one of which must stay."""

FORGOABLE: Final = frozenset(
    {
        "stream",
        "stream_options",
        *CAPS,
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "top_a",
        "typical_p",
        "topP",
        "topK",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "repeat_penalty",
        "frequencyPenalty",
        "presencePenalty",
        "user",
        "metadata",
        "store",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
"""The parameters that later calls may leave out: without them the answer still answers the
question.

Those that shape the answer (`response_format`, `tool_choice`, `stop`, ...) are left out only if a
server has just rejected them, if at all, and so are those of reasoning, of which it may reject one
value alone."""


def _keep(memory: dict[Place, Any], place: Place, value: Any) -> None:
    """Remember a value, and forget the oldest if there are too many."""
    if place not in memory and len(memory) >= MOST_PLACES:
        del memory[next(iter(memory))]
    memory[place] = value


class Learned:
    """Remember what servers revealed about themselves, for the life of the process; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Place, Lessons] = {}
        self._servers: dict[Place, Any] = {}  # what `Client.discover` found; only that reads it

    def of(self, places: Iterable[Place]) -> Lessons:
        """Return what is remembered of a backend with these places."""
        lessons_of = self._known
        if not lessons_of:
            return NO_LESSONS
        lessons = NO_LESSONS
        for place in places:
            lessons = lessons.joined(lessons_of.get(place, NO_LESSONS))
        return lessons

    def learn(self, places: Iterable[Place], lessons: Lessons) -> None:
        """Remember lessons for a backend's places.

        Parameters that must not be left out by default are ignored.
        """
        dropped = lessons.dropped & FORGOABLE
        if dropped >= CAPS:  # then nothing would bound its answers
            dropped -= CAPS
        largest = lessons.largest_output
        if largest is not None and largest < LEAST_LARGEST:
            largest = None
        sound = evolve(
            lessons,
            dropped=dropped,
            largest_output=largest,
            server="",
        )
        self._change(places, add=sound)

    def unlearn(self, places: Iterable[Place], lessons: Lessons) -> None:
        """Forget lessons that a server contradicted."""
        self._change(places, remove=lessons)

    def _change(
        self,
        places: Iterable[Place],
        *,
        add: Lessons = NO_LESSONS,
        remove: Lessons = NO_LESSONS,
    ) -> None:
        """Add lessons to those of each place, and remove others."""
        if add == remove == NO_LESSONS:
            return
        with self._lock:
            for place in places:
                lessons = _changed(self._known.get(place, NO_LESSONS), add, remove)
                if lessons == NO_LESSONS:
                    self._known.pop(place, None)
                else:
                    _keep(self._known, place, lessons)

    def forget(self, places: Collection[Place] | None = None) -> None:
        """Forget what was learned, for tests, or after a server's upgrade.

        Arguments:
            places: the `places` and the `account` of the backend to forget; None forgets all.
        """
        with self._lock:
            for memory in (self._known, self._servers):
                for place in list(memory) if places is None else places:
                    memory.pop(place, None)

    def server_of(self, places: Iterable[Place]) -> Any:
        """Return what a server said it is, or None if nobody asked."""
        return next((self._servers[place] for place in places if place in self._servers), None)

    def keep_server(self, places: Iterable[Place], server: Any) -> None:
        """Remember what a server said it is."""
        with self._lock:
            for place in places:
                _keep(self._servers, place, server)

    def _begin_anew(self) -> None:
        """Replace the lock in a forked child: a thread of the parent may have held it."""
        self._lock = threading.Lock()


def _changed(old: Lessons, add: Lessons, remove: Lessons) -> Lessons:
    """Return lessons with others added and some removed."""
    dropped = old.dropped
    if add.dropped & CAPS:
        dropped -= CAPS  # what is new about the cap replaces the old: one of its names must stay
    dropped |= add.dropped
    no_prefill = (old.no_prefill or add.no_prefill) and not remove.no_prefill
    restores = old.restore_reasoning or add.restore_reasoning
    return evolve(
        old,
        dropped=dropped - remove.dropped,
        no_prefill=no_prefill,
        restore_reasoning=restores and not remove.restore_reasoning,
        largest_output=add.largest_output or old.largest_output,
        misplaced=old.misplaced or add.misplaced,
    )


LEARNED: Final = Learned()
"""The memory that all backends of this process share."""

renewed_in_children(Learned._begin_anew).add(LEARNED)


def learn_from(backend: Backend, send: Send, reply: Reply | Failure) -> None:
    """Remember what a reply reveals about the server.

    That a parameter is not accepted, or reasoning wanted back, is learned once a request repaired
    that way has brought a reply: a server may name the wrong thing.
    """
    if not getattr(backend, "learns", True):
        return
    places = getattr(backend, "places", backend.identities)
    if isinstance(reply, Reply):
        is_repaired = bool(send.dropped) or send.restore_reasoning
        if is_repaired and reply.failure is None and not reply.interrupted:
            dropped = send.dropped - {"stream"}
            lessons = Lessons(dropped=dropped, restore_reasoning=send.restore_reasoning)
            LEARNED.learn(places, lessons)
            # some accounts may not have a model streamed that others may
            if "stream" in send.dropped:
                LEARNED.learn(backend.account, Lessons(dropped=frozenset({"stream"})))
    elif _is_misplaced(send, reply):
        LEARNED.learn(backend.door, Lessons(misplaced=True))
    elif reply.reason == "prefill_unsupported" and send.prefill:
        LEARNED.learn(places, Lessons(no_prefill=True))
    elif reply.reason == "output_cap" and reply.largest_output is not None:
        LEARNED.learn(places, Lessons(largest_output=reply.largest_output))
    elif reply.reason == "reasoning_signature" and send.restore_reasoning:
        LEARNED.unlearn(places, Lessons(restore_reasoning=True))
    elif reply.reason == "parameter_unsupported" and reply.parameter in CAPS:
        LEARNED.unlearn(places, Lessons(dropped=CAPS - {reply.parameter}))


def _is_misplaced(send: Send, failure: Failure) -> bool:
    """Tell whether the server does not take the request in this protocol, however it is set."""
    if failure.reason == "wrong_endpoint":
        return failure.instead is None
    name = failure.parameter or ""
    return send.parameters.get(name) != send.request.parameters.get(name)

"""Tell whether all that comes is one reply, and the model's own.

Theory
------

**Ids.** Every chunk of a chat completion names the completion, and every object of Gemini's the
response. Where a gateway asks again in the middle of a stream, what follows bears another id. It
may be a reply from its beginning or the rest of the one before, and nothing says which. So the two
are never one answer: that is doubt.

Other ids say nothing. Some servers give every chunk a new one [microsoft/foundry-local#144,
BerriAI/litellm#1571, ggml-org/llama.cpp#5876]. Others give one of their own to a chunk that holds
none of the answer, such as the first one, or the one with the tokens. So two ids are those of two
replies if some of the answer came under each, and the earlier one lasted over several events. More
than `MOST` ids are no ids of replies.

**Roles.** A message has a role. One of the user or of the system is an echo of the request, and one
of a tool is what a tool of the server's own has found. It is no piece of the answer, and a chunk
that says so is left out. Where only the beginning of a message says so, all of it is doubt.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

ASKING_ROLES: Final = ("user", "system", "developer")
"""The roles of messages that are part of a request alone."""
FOREIGN_ROLES: Final = (*ASKING_ROLES, "tool", "function")
"""The roles of messages that are no answer of a model."""
MOST: Final = 4
"""The most ids that may be those of replies."""


@define(eq=False)
class Origin:
    """Note the ids under which the pieces of one stream come."""

    id: str = field(default="", init=False)
    """The id under which pieces come now; "" if none has come."""
    lasts: bool = field(default=False, init=False)
    """Whether another event has borne it since it came."""
    changes: int = field(default=0, init=False)
    """How often an event had another id than the one before, the first one included."""
    says_nothing: bool = field(default=False, init=False)
    """Whether there are too many ids for those of replies."""
    _letters: dict[str, int] = field(factory=dict, init=False)  # of the answer, under each id
    _lasting: set[str] = field(factory=set, init=False)  # the ids that lasted
    _before: int = field(default=0, init=False)  # letters that came before this id

    def take(self, id: str, letters: int) -> None:
        """Note that an event has another id than the one before.

        Arguments:
            id: the id.
            letters: how many characters of the answer came before the event.
        """
        self._note(letters)
        self.changes += 1
        if id in self._letters:
            self._lasting.add(id)
        self._letters.setdefault(id, 0)
        self.id = id
        self.lasts = False
        self.says_nothing = len(self._letters) > MOST

    def is_mixed(self, letters: int) -> bool:
        """Tell whether the answer, which has so many letters, is of several replies."""
        self._note(letters)
        speakers = [id for id, count in self._letters.items() if count > 0]
        return not self.says_nothing and not self._lasting.isdisjoint(speakers[:-1])

    def _note(self, letters: int) -> None:
        """Add what came since the last other id to the one under which it came."""
        if self.id:
            self._letters[self.id] += letters - self._before
        if self.lasts:
            self._lasting.add(self.id)
        self._before = letters

"""Join a continuation to the text before it without repeating anything.

Theory

A model that is asked to go on from a cut text answers in one of four ways. It goes on at the very
next character; it repeats all that it was sent (an *echo*: some servers return the prefilled turn);
it begins the answer again (a *restart*); or it begins some words before the cut (an *overlap*).
Only the text tells which. So a repeat is dropped only at the seam, where `gathered` ends and `part`
begins, and only if it can be no coincidence:

* A match in the middle proves nothing: a list repeats its words.
* A match must have a least length (`MINIMUM_ECHO`, `MINIMUM_OVERLAP`, in code points). Shorter ones
  may be chance: texts are full of equal words.
* A match in a text that repeats itself, such as a table of equal rows, proves nothing either: the
  next row looks like the last one. So a periodic text (`is_periodic`), or an overlap whose unit
  recurs, counts as new.

Losing text is worse than repeating it, so in doubt all of `part` is new. Only whitespace is dropped
more freely, since clients, servers and chat templates strip it anyway.

The algorithms, all linear in the text:

* `is_periodic` finds the smallest period as the first return of the first half. There is none
  shorter that it would miss (N. J. Fine and H. S. Wilf, "Uniqueness theorems for periodic
  functions", 1965).
* `_longest_overlap` looks for the longest end of one text that begins the other. Two fast searches
  leave few candidates; after `_QUICK_TRIES` of them the failure function decides (D. E. Knuth,
  J. H. Morris and V. R. Pratt, "Fast pattern matching in strings", 1977), so that no text makes it
  quadratic.
* `SeamFilter` does the same for a stream: it holds text back while all of it still occurs in
  `gathered`, and hands the rest to `stitch`. A stream looks back no further than `LONGEST_SOUGHT`.
"""

from __future__ import annotations

from array import array

# the shortest text, in code points, whose repeat counts as an echo from a backend that declares
# none
MINIMUM_ECHO = 6

MINIMUM_OVERLAP = 12
"""The shortest overlap or restart that is dropped, in code points: about two words. Shorter ones
may be chance.
"""

LONGEST_SOUGHT = 65_536
"""How far from the end of a text, in code points, a stream looks for an overlap, so that long texts
cost no more.
"""

# characters that show of nearly every text that it is not periodic, before its halves are compared
_HEAD = 64

_QUICK_TRIES = 16
"""How many places for an overlap are compared one by one; a text with more is read character by
character.
"""


def stitch(gathered: str, part: str, *, echoes: bool = False, stripped: str = "") -> str:
    """Return the new text in `part`, to be appended to `gathered`.

    The first rule that fits decides: an echo (`part` begins with all of `gathered`), a restart
    (`gathered` begins with all of `part`), an overlap (`part` begins as `gathered` ends), repeated
    whitespace. Otherwise all of it is new.

    An echo may lack the whitespace around `gathered`: clients, servers and chat templates strip it.
    A periodic `gathered` (one unit, at least twice) may go on as it began, so only a declared echo
    is dropped from it.

    Arguments:
        gathered: the text so far, with the whitespace at its end.
        part: the text that continues it.
        echoes: whether the backend declares that it repeats what it was sent, so that no echo is
            too short.
        stripped: the whitespace at the end of `gathered` that was not sent.
    """
    if not gathered:
        return part
    if not gathered.endswith(stripped):
        stripped = ""
    if echoes:
        sent = gathered.removesuffix(stripped)
        if part.startswith(gathered):
            return part[len(gathered) :]
        if gathered.startswith(part):  # the echo is cut short
            return ""
        if sent and part.startswith(sent):
            return part[len(sent) :]
    may_be_echo = part.startswith(gathered[:MINIMUM_ECHO])
    if not may_be_echo and gathered[0].isspace():
        # an echo may lack the whitespace before it
        may_be_echo = part.startswith(gathered.lstrip()[:MINIMUM_ECHO].rstrip())
    if may_be_echo:
        rest = _without_echo(gathered, gathered.strip(), part)
        if rest is not None:
            return rest
    overlap = _overlap(gathered, part)
    if overlap and not _is_unsure(gathered, gathered.strip()):
        return part[overlap:]
    return part.removeprefix(stripped)


def _without_echo(gathered: str, core: str, part: str) -> str | None:
    """Return what follows an undeclared echo or restart; None if there is none for sure."""
    for text in (gathered, gathered.rstrip(), core):
        if part.startswith(text) and len(text) >= MINIMUM_ECHO:
            if is_periodic(gathered) or is_periodic(text):
                return None
            spaces = ""
            if text != gathered:
                spaces = gathered[len(gathered.rstrip()) :]
            rest = part[len(text) :]
            if spaces.startswith(rest):
                return ""
            return rest.removeprefix(spaces)
        if text.startswith(part) and len(part) >= MINIMUM_OVERLAP:
            if _recurs(part, text) or _is_unsure(gathered, core):
                return None
            return ""
    return None


def _is_unsure(gathered: str, core: str) -> bool:
    """Tell whether the text repeats itself, so that a continuation may look like a restart."""
    return is_periodic(gathered) or is_periodic(core)


class SeamFilter:
    """Stitch a part that arrives in chunks; its output, joined, is what `stitch` returns for the
    whole part.

    Text is held back only while all of it occurs in `gathered`, at its beginning or in the last
    `LONGEST_SOUGHT` code points, so that it may still be a repeat. The arguments are those of
    `stitch`.
    """

    __slots__ = ("_at", "_begun", "_echoes", "_gathered", "_size", "_stripped")

    def __init__(self, gathered: str, *, echoes: bool = False, stripped: str = "") -> None:
        self._gathered = gathered  # empty once the seam is decided
        self._echoes = echoes
        self._stripped = stripped
        # The held text is a slice of `gathered`, so it is not copied; a chunk is compared with what
        # follows it.
        self._at = 0
        self._size = 0
        self._begun = len(gathered) - len(gathered.lstrip())

    def feed(self, text: str) -> str:
        """Return what can be handed out after the next chunk."""
        gathered = self._gathered
        if not gathered:
            return text
        end = self._at + self._size
        if gathered.startswith(text, end):
            self._size += len(text)
            return ""
        pending = gathered[self._at : end] + text
        at = self._next(pending)
        if at < 0:
            return self._decide(pending)
        self._at = at
        self._size = len(pending)
        return ""

    def _next(self, pending: str) -> int:
        """Return the next place of the held text; below 0 if there is none."""
        gathered = self._gathered
        if self._at < self._begun and gathered.startswith(pending, self._begun):
            return self._begun
        # A place that no longer matches cannot match more text, so all searches together scan that
        # end once.
        return gathered.find(pending, max(self._at + 1, len(gathered) - LONGEST_SOUGHT))

    def close(self) -> str:
        """Return what is new of the held text; the part has ended."""
        return self._decide(self._gathered[self._at : self._at + self._size])

    def _decide(self, pending: str) -> str:
        gathered = self._gathered
        self._gathered = ""
        return stitch(gathered, pending, echoes=self._echoes, stripped=self._stripped)


def is_periodic(text: str) -> bool:
    """Tell whether a text is one unit, at least twice, the last repeat perhaps in part; takes
    linear time.
    """
    half = len(text) // 2
    if not half or (half > _HEAD and text.find(text[:_HEAD], 1, half + _HEAD) < 0):
        return False  # if its first characters do not return, its first half does not
    # Where its first half returns first is the smallest period, if there is one that short (Fine
    # and Wilf).
    period = text.find(text[: len(text) - half], 1)
    return period > 0 and text.startswith(text[period:])


def _recurs(unit: str, text: str) -> bool:
    """Tell whether a text that begins with a unit repeats it, or the unit is periodic itself."""
    beginning = unit[: max(MINIMUM_OVERLAP, len(unit) // 2)]
    return is_periodic(unit) or text.startswith(beginning, len(unit))


def _overlap(gathered: str, part: str) -> int:
    """Return how much of `part` repeats the end of `gathered`; 0 if that would be a guess."""
    overlap = _longest_overlap(gathered, part)
    repeated = part[:overlap]
    if not overlap or not any(map(str.isalnum, repeated)):
        return 0
    # A repeated unit fits at each of its repeats, and a ruler anywhere, so the size of the overlap
    # is unknown. What has recurred before may be such a unit as well.
    before = repeated[-max(MINIMUM_OVERLAP, overlap // 2) :]
    recurred = gathered.endswith(before, 0, len(gathered) - overlap)
    if recurred or is_periodic(repeated):
        return 0
    return overlap


def _longest_overlap(gathered: str, part: str) -> int:
    """Return the length of the longest end of `gathered` that `part` begins with; 0 below the
    minimum.
    """
    if min(len(gathered), len(part)) < MINIMUM_OVERLAP:
        return 0
    # An overlap begins as `part` does and ends as `gathered` does: two fast searches leave little
    # to compare.
    beginning = part[:MINIMUM_OVERLAP]
    start = gathered.find(beginning, max(0, len(gathered) - len(part)))
    if start < 0:
        return 0
    end = part.rfind(gathered[-MINIMUM_OVERLAP:], 0, len(gathered) - start)
    if end < 0:
        return 0
    start = max(start, len(gathered) - end - MINIMUM_OVERLAP)
    for _ in range(_QUICK_TRIES):
        start = gathered.find(beginning, start)
        if start < 0:
            return 0
        if part.startswith(gathered[start:]):
            return len(gathered) - start
        start += 1
    overlap = _border(part, gathered, start)
    return overlap if overlap >= MINIMUM_OVERLAP else 0


def _border(part: str, gathered: str, start: int) -> int:
    """Return how much of `part` stands at the end of `gathered`, from `start` on
    (Knuth-Morris-Pratt).
    """
    borders = array("q", [0])
    matched = 0
    for letter in gathered[start:]:
        while matched and part[matched] != letter:
            matched = borders[matched - 1]
        matched += part[matched] == letter
        while len(borders) < matched:
            _lengthen(borders, part)
    return matched


def _lengthen(borders: array[int], part: str) -> None:
    """Add the length of the longest proper prefix of the next beginning of `part` that is also its
    suffix.
    """
    letter = part[len(borders)]
    border = borders[-1]
    while border and part[border] != letter:
        border = borders[border - 1]
    borders.append(border + (part[border] == letter))


class SeedFilter:
    """Drop a seed that the backend repeats at the start of a stream, as `without_seed` does for a
    whole answer.
    """

    __slots__ = ("_at", "_seed", "_spaces")

    def __init__(self, seed: str) -> None:
        self._seed: str | None = seed.strip()
        self._spaces: list[str] = []
        self._at = 0  # how much of the seed has come

    def feed(self, text: str) -> str:
        """Return what is no part of the seed after the next chunk."""
        seed = self._seed
        if seed is None:
            return text
        bare = text if self._at else text.lstrip()
        if seed.startswith(bare, self._at):
            self._spaces.append(text[: len(text) - len(bare)])
            self._at += len(bare)
            return ""
        return self._decide(seed, text)

    def close(self) -> str:
        """Return what was held back and is no part of the seed; the answer has ended."""
        if self._seed is None:
            return ""
        return self._decide(self._seed, "")

    def _decide(self, seed: str, text: str) -> str:
        pending = "".join((*self._spaces, seed[: self._at], text))
        self._seed = None
        self._spaces = []
        return without_seed(pending, seed)


def without_seed(visible: str, seed: str) -> str:
    """Return visible text without the seed that it may begin with, stripped of whitespace or
    not.
    """
    bare = visible.lstrip()
    seed = seed.strip()
    if seed and bare.startswith(seed):
        return bare[len(seed) :]
    return visible

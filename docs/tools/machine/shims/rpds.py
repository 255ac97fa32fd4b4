"""What jsonschema and referencing use of rpds: values that are copied instead of changed."""

from __future__ import annotations

from typing import Any


class HashTrieMap(dict[Any, Any]):
    """A mapping whose changes are new mappings."""

    @classmethod
    def convert(cls, value: Any) -> HashTrieMap:
        """Return a mapping as one of these."""
        return cls(value)

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        """Return it with one more entry."""
        return HashTrieMap({**self, key: value})

    def remove(self, key: Any) -> HashTrieMap:
        """Return it without an entry."""
        changed = HashTrieMap(self)
        del changed[key]
        return changed

    def update(self, *others: Any, **named: Any) -> HashTrieMap:  # type: ignore[override]
        """Return it with more entries."""
        changed = dict(self)
        changed.update(*others, **named)
        return HashTrieMap(changed)


class HashTrieSet(frozenset[Any]):
    """A set whose changes are new sets."""

    def insert(self, value: Any) -> HashTrieSet:
        """Return it with one more value."""
        return HashTrieSet(self | {value})

    def update(self, *others: Any) -> HashTrieSet:
        """Return it with more values."""
        return HashTrieSet(self.union(*others))


class List(tuple[Any, ...]):
    """A list whose changes are new lists."""

    __slots__ = ()

    def push_front(self, value: Any) -> List:
        """Return it with one more value at its beginning."""
        return List((value, *self))

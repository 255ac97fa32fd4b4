"""Patterns that are compiled when they are first looked for do what compiled ones do."""

import re

from rungwise.fsm.values.patterns import Pattern


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    ours, theirs = Pattern(r"(a)(b?)", re.IGNORECASE), re.compile(r"(a)(b?)", re.IGNORECASE)
    for text in ("ab", "AB", "xab", "b", "abab", ""):
        for find in ("search", "match", "fullmatch"):
            assert repr(getattr(ours, find)(text)) == repr(getattr(theirs, find)(text))
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("-", text) == theirs.sub("-", text)


def test_a_pattern_is_compiled_once_and_not_before_it_is_used() -> None:
    broken = Pattern("(")
    assert "compiled" not in vars(broken)
    pattern = Pattern("a")
    pattern.search("a")
    assert pattern.compiled is pattern.compiled

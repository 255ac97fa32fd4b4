"""A list of calls is all calls so far if it begins with the calls of the list before."""

from typing import Any

import pytest

from rungwise.fsm.replies.assembly.lists import CallLists, ListedCall

OWL = '{"bird":"owl"}'
OW = '{"bird":"ow"}'
CUT = '{"bird":"o'
POND = '{"place":"pond"}'
Lists = list[list[ListedCall]]


def look(arguments: str, id: str = "") -> ListedCall:
    return (id, "look", arguments)


def find(arguments: str, id: str = "") -> ListedCall:
    return (id, "find", arguments)


def judged(lists: Lists) -> tuple[list[ListedCall], bool]:
    """Return the calls that some lists amount to, and whether that is in doubt."""
    seen = CallLists()
    calls: list[ListedCall] = []
    for each in lists:
        if seen.is_all(each, lambda call: call):
            calls.clear()
        calls += each
    return calls, seen.is_unclear


@pytest.mark.parametrize(
    "lists",
    [
        [[look(CUT)], [look(OWL), find('{"pl')], [look(OWL), find(POND)]],
        [[look(OWL)], [look(OWL), find(POND)]],
        [[look(OWL), find("{}")], [look(OWL), find(POND)]],
        [[look(OW)], [look(OWL), find("{}")], [look(OWL), find(POND)]],
        [[look(OWL), find(POND)], [look(OWL), find(POND)]],
    ],
)
def test_a_list_that_grows_is_read_once(lists: Lists) -> None:
    assert judged(lists) == (lists[-1], False)


@pytest.mark.parametrize(
    "lists",
    [
        [[look(OWL)], [find(POND)]],
        [[look(OWL)], [look(OWL)]],
        [[look(OW)], [look(OWL)]],
        [[look(OWL)], [find(POND), look(OWL)]],
        [[look(OWL), find(POND)], [look(OWL)]],
        [[look(POND)], [look(OWL), find(POND)]],
        [[look(OWL, "c")], [look(OWL, "c"), find(POND, "d")]],
        [[look(OWL)], [look(OWL), find(POND, "e")]],
        [[look(OWL, "c")], [look(OWL, "d"), find(POND, "e")]],
        [[look("")], [look(CUT), find("")], [look(""), find("")]],
        [[("", "", CUT)], [("", "", CUT), ("", "", CUT)]],
        [[look('{"n":[1,{"a":2}]}')], [look('{"n":[1,{"a":3}]}'), find(POND)]],
        [[], [look(OWL), find(POND)]],
    ],
)
def test_other_lists_add_to_those_before(lists: Lists) -> None:
    assert judged(lists) == ([call for each in lists for call in each], False)


@pytest.mark.parametrize(
    "arguments", [OWL, '{"bird":"ow","where":"barn"}', '{"bird":"ow","seen":[1]}']
)
def test_calls_that_were_whole_before_and_have_grown_are_doubt(arguments: str) -> None:
    calls, is_unclear = judged([[look(OW)], [look(arguments), find(POND)]])
    assert (len(calls), is_unclear) == (3, True)


@pytest.mark.parametrize("value", ["[" * 5_000, '{"a":' * 5_000, "[]", '"a"', "", " "])
def test_any_arguments_may_come(value: Any) -> None:
    lists = [[look(value)], [look(value + "x"), find(value)], [look(value * 2), find(value)]]
    calls, _ = judged(lists)
    assert calls

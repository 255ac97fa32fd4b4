"""Two pictures laid over each other: nothing of either is lost, and the marks say which is
which.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import CALL, ConfigurationError, Policy, Rung, TurnPolicy
from rungwise.core import Table
from rungwise.fsm.analysis.certificate.shown.settings import settings_of, table_of
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.merge import change_of, merged
from rungwise.fsm.diagram.model import Picture, Settings
from support.sampling import examples

APOLOGIZE = Rung("apologize", limit=2, hint="Sorry; say it again.")
GUARDED = [event for event in CALL.events if len(CALL.ladder(event, "await")) > 2]


def picture(policy: Policy | TurnPolicy) -> Picture:
    return picture_of(table_of(policy), settings=settings_of(policy))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    table = CALL.without(
        *draw(st.sets(st.sampled_from(["nudge", "prefill", "repair", "compact"]), max_size=2))
    )
    if draw(st.booleans()):
        table = table.with_rung(
            APOLOGIZE, came_empty=draw(st.sampled_from(["may_reask", "may_fall_back", None]))
        )
    event = draw(st.sampled_from(GUARDED))
    guards = [row.guard for row in table.ladder(event, "await")]
    return table.reordered(event, [*draw(st.permutations(guards[:-1])), guards[-1]])


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    table = draw(tables())
    off = dict.fromkeys(draw(st.sets(st.sampled_from(table.rows), max_size=9)), "the limit is 0")
    details = draw(st.dictionaries(st.sampled_from(table.rungs), st.sampled_from(["×1", "×2"])))
    return picture_of(table, settings=Settings(details=details, off=off))


def rows_of(lines: Any, leave_out: str) -> set[Any]:
    return {line.row for line in lines if line.change != leave_out}


def all_lines(found: Picture) -> list[Line]:
    return [line for group in (*found.arcs, *found.notes) for line in group.lines]


def meanings(lines: Any) -> list[tuple[Any, ...]]:
    return [(line.row.guard, line.row.target, line.row.effect) for line in lines]


def old_order(lines: Any) -> list[tuple[Any, ...]]:
    """Put the shared lines of a merged list back into their old order, from their marks alone."""
    shared = [line for line in lines if line.change is None]
    moved = iter(
        sorted((line for line in shared if line.was is not None), key=lambda line: line.was)
    )
    return meanings([line if line.was is None else next(moved) for line in shared])


@given(pictures(), pictures())
@settings(max_examples=examples(100), deadline=None)
def test_a_merged_picture_holds_the_old_one_and_the_new_one(old: Picture, new: Picture) -> None:
    found = change_of(old, new)
    before_rows, after_rows = ({line.row: line for line in all_lines(each)} for each in (old, new))
    assert rows_of(all_lines(found), "added") == before_rows.keys()
    assert rows_of(all_lines(found), "removed") == after_rows.keys()
    assert [node.name for node in found.nodes if node.change != "removed"] == [
        node.name for node in new.nodes
    ]
    assert {node.name for node in found.nodes if node.change != "added"} == {
        node.name for node in old.nodes
    }
    was = {
        node.name: node.detail if node.was is None else node.was
        for node in found.nodes
        if node.change != "added"
    }
    assert was == {node.name: node.detail for node in old.nodes}
    lists = {each.event: each for each in old.decisions if each.sources == ("await",)}
    for merged_list in found.decisions:
        if merged_list.sources != ("await",):
            continue
        after = next(
            each
            for each in new.decisions
            if (each.event, each.sources) == (merged_list.event, ("await",))
        )
        was_list = lists[merged_list.event]
        lines = merged_list.lines
        assert meanings(line for line in lines if line.change != "removed") == meanings(after.lines)
        assert {*meanings(line for line in lines if line.change != "added")} == {
            *meanings(was_list.lines)
        }
        kept = {*meanings(line for line in lines if line.change is None)}
        assert old_order(lines) == [each for each in meanings(was_list.lines) if each in kept]
    for line in all_lines(found):
        if line.change is None:
            assert line.off == after_rows[line.row].off
            was_off = before_rows[line.row].off is not None
            assert was_off == (
                line.turned == "on" or (line.off is not None and line.turned is None)
            )


@pytest.mark.parametrize("policy", [Policy(), TurnPolicy()], ids=["call", "turn"])
def test_a_picture_laid_over_itself_shows_no_change(policy: Any) -> None:
    plain = picture(policy)
    found = change_of(plain, plain)
    assert found.is_change
    assert (found.nodes, found.arcs, found.decisions, found.caption) == (
        plain.nodes,
        plain.arcs,
        plain.decisions,
        plain.caption,
    )
    # states with the same ladder come together
    assert [{*note.lines} for note in found.notes] == [{*note.lines} for note in plain.notes]


def test_a_removed_line_stays_in_its_place() -> None:
    assert merged("abcd", "ad") == list("abcd")
    assert merged("abc", "xcb") == list("axcb")
    assert merged("ab", "ba") == list("ba")
    found = change_of(picture_of(CALL), picture_of(CALL.without("nudge")))
    (ladder,) = [each for each in found.decisions if each.event == "came_empty"]
    targets = [line.row.target for line in ladder.lines]
    assert targets == [row.target for row in CALL.ladder("came_empty", "await")]
    assert [line.row.target for line in ladder.lines if line.change] == ["nudge"]
    assert [(node.name, node.change) for node in found.nodes if node.change] == [
        ("nudge", "removed")
    ]


def test_a_reordered_ladder_keeps_the_ranks_that_its_lines_had() -> None:
    order = [row.guard for row in CALL.ladder("malformed", "await")]
    found = change_of(
        picture_of(CALL), picture_of(CALL.reordered("malformed", [order[1], order[0], *order[2:]]))
    )
    (ladder,) = [each for each in found.decisions if each.event == "malformed"]
    assert [(line.row.guard, line.was) for line in ladder.lines] == [
        ("may_retry", 2),
        ("may_fall_back", 1),
        ("has_text", None),
        (None, None),
    ]


def test_a_limit_that_changes_shows_what_it_was_and_what_it_turns_off() -> None:
    new = Policy(limits=rungwise.Limits(retries=5, nudges=0))
    found = change_of(picture(Policy()), picture(new))
    assert (found.node("retry").was, found.node("retry").detail) == ("×3 · 2→60 s", "×5 · 2→60 s")
    assert (found.node("nudge").was, found.node("reask").was) == ("×1", None)
    off = [line for line in all_lines(found) if line.turned == "off"]
    assert {line.row.target for line in off if line.row.source == "await"} == {"nudge"}
    back = change_of(picture(new), picture(Policy()))
    assert {line.row for line in all_lines(back) if line.turned == "on"} == {
        line.row for line in off
    }


def test_machines_around_different_hubs_are_not_compared() -> None:
    odd = Picture(
        name="odd",
        hub="think",
        nodes=(),
        arcs=(),
        notes=(),
        decisions=(),
        marked=False,
    )
    with pytest.raises(ConfigurationError, match="'think'"):
        change_of(picture_of(CALL), odd)

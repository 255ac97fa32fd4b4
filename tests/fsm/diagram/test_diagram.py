import re
from importlib import import_module
from pathlib import Path

import pytest
from attrs import evolve

from rungwise import CALL, ConfigurationError, Limits
from rungwise.core import Row
from rungwise.fsm.call.clocks.waiting import backoff, cap_of
from rungwise.fsm.call.policy import DEFAULT_POLICY
from rungwise.fsm.diagram import FORMATS, VIEWS, Format, Marks, View, render
from rungwise.fsm.diagram.colours import LIGHT, MARK
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.markdown import counters
from rungwise.fsm.diagram.model import Picture
from rungwise.fsm.engine.machine.run import Run
from support.parsed_pictures import PARSERS, Full, Short, parts, words
from support.pictures import PATHS, TABLES, changed

pytestmark = pytest.mark.sampled(4)

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
README = (DIAGRAMS / "README.md").read_text(encoding="utf-8")


PICTURES = [(format, view) for format in FORMATS for view in VIEWS]


def short(row: Row) -> Short:
    return row.event, row.source, row.guard or "", row.target


def full(row: Row) -> Full:
    return *short(row), row.effect or ""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_no_row_is_missing_and_none_is_invented(
    format: Format,
    view: View,
    name: str,
    path: str,
) -> None:
    table = TABLES[name]
    found = list(PARSERS[format, view](table, render(table, format, view, PATHS[path](table))))
    spelt = full if len(found[0]) == 5 else short
    assert sorted(found) == sorted(spelt(row) for row in table.rows)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", TABLES)
def test_a_decision_list_is_in_the_order_in_which_guards_are_tried(
    format: Format, name: str
) -> None:
    table = TABLES[name]
    found = list(PARSERS[format, "ladder"](table, render(table, format, "ladder")))
    for row in table.rows:
        tried = [rest for rest in found if rest[:2] == (row.event, row.source)]
        assert [rest[2] or None for rest in tried] == [
            other.guard for other in table.ladder(row.event, row.source)
        ]


def test_each_pair_of_states_has_one_arc_in_the_svg() -> None:
    arcs = [
        element.attrib["data-arc"]
        for element in parts(render(CALL, "svg"), "g")
        if "data-arc" in element.attrib
    ]
    noted = ("cancelled", "ran_out", "found_open")
    assert sorted(arcs) == sorted(
        {f"{row.source} {row.target}" for row in CALL.rows if row.event not in noted}
    )


def test_an_arc_of_the_svg_shows_a_line_for_each_of_its_rows() -> None:
    for element in parts(render(CALL, "svg"), "g"):
        if "data-arc" in element.attrib:
            pair = tuple(element.attrib["data-arc"].split())
            rows = [row for row in CALL.rows if (row.source, row.target) == pair]
            wanted = [[row.event, f"[{row.guard}]"] if row.guard else [row.event] for row in rows]
            other = "from every other rung"
            below = ["ran_out [must_yield]", other, "found_open [may_fall_back]", other]
            if pair == ("await", "partial"):
                below = ["found_open [has_text]", "from every rung but fallback"]
            elif pair == ("await", "failed"):
                below = ["found_open", "from every rung but fallback"]
            elif pair != ("await", "fallback"):
                below = []
            assert words(element) == [*(word for line in wanted for word in line), *below]


def test_notes_of_the_svg_say_where_their_events_come() -> None:
    notes = {
        note.get("data-note"): words(note)
        for note in parts(render(CALL, "svg"), "g")
        if "data-note" in note.attrib
    }
    assert notes == {
        "cancelled": ["cancelled", "from every state before an outcome"],
        "ran_out": ["ran_out", "from every rung"],
        "ran_out_must_yield": ["ran_out [must_yield]", "from every other rung"],
        "found_open": ["found_open", "from every rung but fallback"],
        "found_open_has_text": ["found_open [has_text]", "from every rung but fallback"],
        "found_open_may_fall_back": ["found_open [may_fall_back]", "from every other rung"],
    }


@pytest.mark.parametrize("format", FORMATS)
def test_another_order_or_effect_changes_the_ladder_view(format: Format) -> None:
    rows = list(CALL.rows)
    place = next(place for place, row in enumerate(rows) if row.guard == "may_nudge")
    swapped = [*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]]
    broken = [*rows[:place], evolve(rows[place], effect="spend_reask"), *rows[place + 1 :]]
    for other in (swapped, broken):
        assert render(changed(CALL, *other), format, "ladder") != render(CALL, format, "ladder")


@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_a_picture_is_always_the_same(format: Format, view: View) -> None:
    assert render(CALL, format, view) == render(evolve(CALL), format, view)


@pytest.mark.parametrize(("format", "view"), [("png", "hub"), ("svg", "bus")])
def test_an_unknown_format_or_view_is_named(format: str, view: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{format}'.*'{view}'.*mermaid.*ladder"):
        render(CALL, format, view)  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("path", PATHS)
def test_graphviz_takes_the_dot_text(name: str, view: View, path: str) -> None:
    """Graphviz comes with what only the full run installs."""
    graphviz = import_module("pygraphviz")
    graph = graphviz.AGraph(string=render(TABLES[name], "dot", view, PATHS[path](TABLES[name])))
    assert graph.draw(format="plain", prog="dot")


# A path on the picture


def example() -> list[Row]:
    """Run the example of the README on the shipped machine."""
    run = Run.at_start(CALL, DEFAULT_POLICY.limits.bounded(CALL.limits, 1))
    rows = []
    for event in (
        "sent",
        "came_empty",
        "sent",
        "only_reasoned",
        "sent",
        "truncated",
        "sent",
        "answered",
    ):
        cut = ("added_text", "has_text") if event == "truncated" else ()
        rows.append(run.fire(event, ("wait_fits", *cut)))
    assert run.attempts == 4
    assert [run.spent_of(name) for name in ("reasks", "prefills", "continuations")] == [0, 0, 1]
    return rows


def test_the_example_of_the_readme_is_what_the_machine_does() -> None:
    assert [row.target for row in example()[1::2]] == ["reask", "prefill", "continuation", "done"]
    waits = DEFAULT_POLICY.waits
    longest = backoff(1, waits.reask_base, waits.reask_cap, waits.jitter, 1.0)
    assert f"after {waits.reask_base:g} to {longest:g} seconds" in README
    assert f"the cap {cap_of(DEFAULT_POLICY, 1, None)}" in README
    assert DEFAULT_POLICY.limits == Limits(reasks=3, prefills=2, continuations=3), (
        "the example says what is left"
    )


def marked() -> Picture:
    return picture_of(CALL, Marks.along(example()))


def test_a_path_numbers_the_rows_that_it_took_and_those_that_it_tried() -> None:
    lists = {decision.event: decision for decision in marked().decisions}
    assert [(line.steps, line.tried) for line in lists["came_empty"].lines[:5]] == [
        ((), (2,)),
        ((), (2,)),
        ((), (2,)),
        ((), (2,)),
        ((2,), ()),
    ]
    assert lists["sent"].lines[0].steps == (1, 3, 5, 7)
    visited = {node.name for node in marked().nodes if node.visited}
    assert visited == {"ask", "await", "reask", "prefill", "continuation", "done"}
    arc = marked().arc("await", "prefill")
    assert arc.steps == (4,)


def test_a_path_counts_steps_that_took_no_row_and_ignores_rows_of_another_table() -> None:
    foreign = Row("skipped", "fallback", None, "fallback")
    marks = Marks.along([example()[0], None, foreign, example()[1]])
    assert marks.taken[example()[1]] == (4,)
    assert render(CALL, "svg", "hub", marks)


@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_every_format_shows_the_path(format: Format, view: View) -> None:
    picture = render(CALL, format, view, Marks.along(example()))
    assert picture != render(CALL, format, view)
    if format == "svg":
        shown = [
            element.text or ""
            for element in parts(picture, "text")
            if "rw-on-mark" in element.attrib["class"]
        ]
        assert sorted(shown) == [str(step) for step in range(1, 9)]
        assert {element.get("class") for element in parts(picture, "rect")} >= {"rw-badge"}
    if format in ("mermaid", "dot"):
        assert (LIGHT["mark"] if format == "dot" else MARK) in re.sub("classDef.*", "", picture)


def test_an_event_that_ends_the_call_anywhere_is_marked_in_its_note() -> None:
    sent = example()[0]
    ran_out = next(row for row in CALL.rows if row.event == "ran_out" and row.guard is None)
    notes = {note.name: note.steps for note in picture_of(CALL, Marks.along([ran_out, sent])).notes}
    unsent = ("found_open", "found_open_has_text", "found_open_may_fall_back")
    assert notes == {
        "cancelled": (),
        "ran_out_must_yield": (),
        "ran_out": (1,),
        **dict.fromkeys(unsent, ()),
    }


def test_the_counters_are_those_that_the_effects_declare() -> None:
    written = counters(CALL, Limits(nudges=7, fallbacks=2))
    assert "| `nudges` | 7 | nudge | fallback |" in written
    assert "| `reasks` | 3 | reask | fallback, continuation (with `added_text`) |" in written
    assert "| `fallbacks` | 2 | fallback | nothing |" in written

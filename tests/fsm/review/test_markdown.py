"""A policy change as Markdown: it fits a comment, and nothing that it quotes is read as markup."""

import re

import pytest
from attrs import evolve

from rungwise.fsm.replay.what_if import WhatIf
from rungwise.fsm.review.findings import Assumptions, Change
from rungwise.fsm.review.markdown import code, prose
from support.changes import of_nothing, to_interactive, to_other_table

GITHUB_TAKES = 65_536
HOSTILE = "a | `b` <img src=x> @octocat [x](http://y) **z** www.evil.example https://evil.example #12\n# d ~~e~~"


@pytest.mark.full
def test_the_headline_stands_first_and_the_long_parts_are_folded() -> None:
    text = to_interactive().to_markdown()
    assert text.startswith("**With two backends, this change lets a call cost at most 0.44 × as much")
    assert "| `limits.retries` | `3` | `2` |" in text
    assert "<details><summary>Events that lead to something else (7)</summary>" in text
    assert "* `failed_transiently` (429, 408, 500 to 599, a timeout, no connection)" in text
    assert text.count("<details>") == text.count("</details>") > 2
    assert "Of 3 past journals: 1 takes the same path to the end, 1 ends earlier" in text


@pytest.mark.full
def test_ladders_whose_rows_change_are_drawn() -> None:
    text = to_other_table().to_markdown()
    (drawn,) = re.findall(r"```mermaid\n(.*?)```", text, flags=re.DOTALL)
    assert all(name in drawn for name in ("apologize", "prefill", "malformed"))
    assert "refused_await" not in drawn


@pytest.mark.parametrize("write", [prose, code])
def test_nothing_that_is_quoted_is_markup(write: object) -> None:
    assert callable(write)
    written = write(HOSTILE)
    inner = written.removeprefix("<code>").removesuffix("</code>")
    assert not set(inner) & set("|`<>@[]*~\n\\")
    assert "://" not in inner
    assert "www." not in inner
    assert "octocat" in inner
    assert not re.search(r"#(?!\d+;)", inner.replace("&#", "&"))
    assert "&#64;&#8288;octocat" in inner  # nobody is mentioned


def test_a_hostile_name_is_no_markup_even_with_backticks() -> None:
    text = evolve(
        of_nothing(), fields=(Change("base_cap", 1, 2),), setting=Assumptions((HOSTILE, HOSTILE))
    ).to_markdown()
    (line,) = [line for line in text.splitlines() if line.startswith("OLD is ")]
    assert not any(each in line for each in ("<img", "@octocat", "](", "**", "www.", "://"))


def test_a_hostile_field_stays_in_its_cell() -> None:
    found = evolve(of_nothing(), fields=(Change("hints.nudge", "plain", HOSTILE),))
    (line,) = [line for line in found.to_markdown().splitlines() if line.startswith("| `hints.nudge`")]
    assert line.count("|") == 4
    assert line.startswith("| `hints.nudge` | `'plain'` | <code>")


def test_it_fits_a_comment_however_much_changes() -> None:
    plain = of_nothing()
    fields = tuple(Change(f"hints.rungs.r{n}", HOSTILE * 90, "|" * 9000) for n in range(900))
    rows = plain.policies[0].table.rows * 9  # type: ignore[union-attr]
    past = tuple(WhatIf(name=HOSTILE * 90, kind="unclear", why="<" * 9000) for _ in range(900))
    huge = evolve(plain, fields=fields, appear=rows, vanish=rows, journals=past, calls=evolve(plain, fields=fields))
    text = huge.to_markdown()
    assert len(text) < GITHUB_TAKES
    assert text.startswith("**With one backend")
    assert "**Worst cases of a call, with one backend: unchanged**" in text
    (omitted,) = [line for line in text.splitlines() if line.startswith("Omitted for lack of space: ")]
    assert "Fields (900)" in omitted
    assert "Past calls" in omitted
    assert text.count("<details>") == text.count("</details>")


def test_a_long_list_says_how_many_more_there_are() -> None:
    fields = tuple(Change(f"hints.rungs.r{n}", "a", "b") for n in range(50))
    text = evolve(of_nothing(), fields=fields).to_markdown()
    assert "**Fields (50)**" in text
    assert "\nand 10 more\n" in text

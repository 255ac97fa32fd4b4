"""The page of a policy change: ten questions of a reviewer who has not seen the code, answered from
what it shows.
"""

import re
from collections.abc import Callable
from html import unescape

import pytest
from attrs import evolve

import rungwise
from rungwise import Policy
from rungwise.fsm.analysis.replay.what_if import WhatIf
from rungwise.fsm.analysis.review.diff import PolicyDiff, diff_policies
from rungwise.fsm.analysis.review.escapes import code, prose
from rungwise.fsm.analysis.review.findings import Assumptions, Change
from rungwise.fsm.analysis.review.summary import conflicts_of, journal_text
from support.changes import PRICES, last_week, of_nothing, of_turns, to_interactive, to_other_table


def visible(page: str) -> str:
    """Return what a page shows, on one line: no style, no picture, no markup."""
    body = page[page.index("<body>") :].replace("<wbr>", "")
    for hidden in ("style", "svg"):
        body = re.sub(rf"<{hidden}\b.*?</{hidden}>", " ", body, flags=re.DOTALL)
    inline = re.sub(r"</?(code|b|small|span|ins|del)\b[^>]*>", " ", body)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", inline)).split())


QUESTIONS = [
    (
        "how long can a caller wait now?",
        "Seconds: at most 91 s, before 901 s (15 min) (0.1 ×); more calls may end over_budget.",
    ),
    (
        "what ends worse now?",
        "▲ Worse: refused instead of done (the first backend fails each time, the next one "
        "answers): a refusal.",
    ),
    (
        "what happens on a 429 now?",
        "429; 503; 529 retry (2 s), fallback → ✓ done 3 attempts, 2 to 3 s retry (1 s), fallback → "
        "✓ done 3 attempts, 1 to 1.5 s",
    ),
    (
        "how often is a 429 tried again now?",
        "retry ×2 · 1→8 s may_retry the same request may be sent again",
    ),
    (
        "which rows are new?",
        "Rows of the table A refusal no longer falls back (after_refusal is 'end'): 1 row can no "
        "longer be taken − refused [may_ask_another] → fallback",
    ),
    (
        "does a refusal still fall back?",
        "after a refusal the next backend is asked no other backend is asked",
    ),
    (
        "which backends get a chance?",
        "minimum for the last of 2 1 attempt and 225 s (3.75 min) 1 attempt and 22.5 s",
    ),
    (
        "what is the longest path now?",
        "now ask, retry x2, reask, fallback, recheck, reask, prefill x2, enlarge x3 "
        "(budget.attempts ends it)",
    ),
    (
        "what would last week's calls have done?",
        "Of 3 past journals: 1 takes the same path to the end, 1 ends earlier, 1 differs from a "
        "step on.",
    ),
    (
        "how long may a stream be silent now?",
        "after 10 s before the first content, 10 s between two pieces",
    ),
]


@pytest.mark.full
def test_ten_questions_of_a_reviewer_are_answered_from_the_one_page() -> None:
    shown = visible(to_interactive().to_html())
    assert [question for question, answer in QUESTIONS if answer not in shown] == []
    # And what may it cost now? The longest hint of any rung is a part of that.
    assert re.search(r"Money: at most 2\.4\d+, before 6\.1\d+ \(0\.4 ×\)\.", shown)
    assert (
        "Outcomes got worse. A refusal: refused instead of done; "
        "429 with a Retry-After of 120 s: failed instead of done. "
        "With two backends, this change lets a call cost at most 0.4 × as much and take at most "
        "0.1 × as long; 1 row can no longer be taken; 8 events lead to something else."
    ) in shown
    assert all(f"{each.name} : {journal_text(each)}." in shown for each in last_week())


def test_past_calls_say_where_they_differ_and_what_is_unknown() -> None:
    monday, tuesday, friday = map(journal_text, last_week())
    assert (
        monday == "the same path to the end (done), with as many attempts and 1.1 s less of waits"
    )
    assert tuesday == (
        "step 6: before: retry 3 after 8.8 s (failed_transiently); now: fallback 1 "
        "(failed_transiently); until then as many attempts and 3.3 s less of waits; no journal "
        "holds what would follow"
    )
    assert friday.startswith("step 2: before: fallback 1 (refused); now: ends as refused (refused)")


@pytest.mark.full
def test_the_ladders_show_new_removed_and_moved_rows() -> None:
    shown = visible(to_other_table().to_html())
    assert "8 rows are new; 8 rows are gone; the order of malformed changes" in shown
    assert "retry ×3 · 2→60 s (was 2.) may_retry" in shown
    assert "retry ×3 · 2→60 s (now 1.) may_retry" in shown
    assert "+ may_apologize apologize ×2" in shown
    assert "− may_prefill prefill ×2" in shown
    assert (
        "hints.nudge the text of a nudge That reply answer had no content. ... results above and "
        "carry go on" in shown
    )


@pytest.mark.full
def test_a_page_of_a_turn_has_a_part_for_its_calls() -> None:
    page = of_turns().to_html()
    shown = visible(page)
    turn, _, calls = shown.partition("What changes for each call of a turn")
    assert "The limit of summaries is 0: 6 rows can no longer be taken" in turn
    assert "limits.retries" in calls
    assert "limits.retries" not in turn.partition("What changes in the policy")[2]
    ids = re.findall(r'\bid="([^"]+)"', re.sub(r"<svg\b.*?</svg>", "", page, flags=re.DOTALL))
    assert len(ids) == len(set(ids)) > 10


def test_a_page_of_no_change_says_so() -> None:
    shown = visible(of_nothing().to_html())
    assert "Nothing changes: the two policies are the same." in shown
    assert "Every event leads to the same as before." in shown


@pytest.mark.parametrize(
    "made", [to_other_table, pytest.param(of_turns, marks=pytest.mark.full), of_nothing]
)
def test_a_page_loads_and_runs_nothing(made: Callable[[], PolicyDiff]) -> None:
    page = made().to_html()
    assert "<script" not in page
    assert "script-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "http" not in visible(page).replace("HTTP", "")


def test_what_comes_from_outside_is_escaped() -> None:
    hostile = "<img src=x onerror=alert(1)> & </style>"
    fields = (
        Change("hints.placeholder", "x", "<b>x"),
        Change("hints.nudge", "Go on.", f"Go {hostile * 3}"),
    )
    found = evolve(of_nothing(), fields=fields)
    page = found.to_html()
    assert "<img" not in page
    assert "&lt;img" in page
    assert "Only wording changes (hints.placeholder, hints.nudge)" in visible(page)


def test_a_page_explains_its_figures_and_escapes_its_names() -> None:
    names = ("<b>old</b>.toml", "x" * 300 + "/new.toml")
    setting = Assumptions(
        names,
        max_tokens=1000,
        input_tokens=2000,
        prices=PRICES,
    )
    shown = visible(evolve(of_nothing(), setting=setting).to_html())
    assert "OLD is <b>old</b>.toml, NEW is ...xxx" in shown
    assert "x" * 130 not in shown
    assert (
        "an output cap of 1,000 tokens; a prompt of 2,000 tokens; prices for a million tokens of "
        "2.5 for input" in shown
    )


def test_conflicting_limits_are_named() -> None:
    policy = Policy(budget=rungwise.Budget(seconds=300), limits=rungwise.Limits(retries=6))
    assert list(conflicts_of(policy)) == [
        "an attempt may take 600 s (10 min) (timeouts.total), but the call ends at 300 s (5 min)",
        "all retries of one backend may wait 183 s (3.05 min), more than the 75 s reserved for "
        "the next",
    ]
    assert list(conflicts_of(Policy())) == []


@pytest.mark.full
def test_the_troubles_that_differ_stand_first() -> None:
    page = diff_policies(Policy(), Policy(after_refusal="end"), 2).to_html()
    troubles = page[page.index("</details>", page.index('id="troubles"')) :]
    first, _, folded = troubles.partition("without a change</summary>")
    assert "a refusal" in first
    assert "429" not in first
    assert "429" in folded
    assert "Calls handle each of these troubles as before." in of_nothing().to_html()


# as Markdown: it fits a comment, and nothing that it quotes is read as markup


GITHUB_TAKES = 65_536
HOSTILE = (
    "a | `b` <img src=x> @octocat [x](http://y) **z** www.evil.example "
    "https://evil.example #12\n# d ~~e~~"
)


@pytest.mark.full
def test_the_headline_stands_first_and_the_long_parts_are_folded() -> None:
    text = to_interactive().to_markdown()
    assert text.startswith(
        "**Outcomes got worse. A refusal: refused instead of done; 429 with a Retry-After of 120 "
        "s: failed instead of done. With two backends, this change lets a call cost at most 0.4 ×"
    )
    assert "| `limits.retries` | `3` | `2` |" in text
    assert "<details><summary>Events that lead to something else (8)</summary>" in text
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
    (line,) = [
        line for line in found.to_markdown().splitlines() if line.startswith("| `hints.nudge`")
    ]
    assert line.count("|") == 4
    assert line.startswith("| `hints.nudge` | `'plain'` | <code>")


@pytest.mark.full
def test_it_fits_a_comment_however_much_changes() -> None:
    plain = of_nothing()
    fields = tuple(Change(f"hints.rungs.r{n}", HOSTILE * 90, "|" * 9000) for n in range(900))
    rows = plain.policies[0].table.rows * 9  # type: ignore[union-attr]
    past = tuple(WhatIf(name=HOSTILE * 90, kind="unclear", why="<" * 9000) for _ in range(900))
    huge = evolve(
        plain,
        fields=fields,
        appear=rows,
        vanish=rows,
        journals=past,
        calls=evolve(plain, fields=fields),
    )
    text = huge.to_markdown()
    assert len(text) < GITHUB_TAKES
    assert text.startswith("**With one backend")
    assert "**Worst cases of a call, with one backend: unchanged**" in text
    (omitted,) = [
        line for line in text.splitlines() if line.startswith("Omitted for lack of space: ")
    ]
    assert "Fields (900)" in omitted
    assert "Past calls" in omitted
    assert text.count("<details>") == text.count("</details>")


def test_a_long_list_says_how_many_more_there_are() -> None:
    fields = tuple(Change(f"hints.rungs.r{n}", "a", "b") for n in range(50))
    text = evolve(of_nothing(), fields=fields).to_markdown()
    assert "**Fields (50)**" in text
    assert "\nand 10 more\n" in text

"""`rungwise stats`: what it reads, what it leaves out, and what its tables and charts show."""

import json
import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise import Client, OpenAIChat
from rungwise.adapters.cli import output
from rungwise.adapters.cli.journals import stats as module
from rungwise.adapters.durable.durable import Durable
from rungwise.fsm.analysis.stats.counts import Stats
from rungwise.fsm.analysis.stats.shown import FORMS, MOST_ROWS, lines_of, tables_of
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.command_line import invoke, printed, refused
from support.counted import journals, stats_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of which some journals are files, one of them in a folder of its own, and
    some are lines.
    """
    folder = tmp_path / "journals"
    (folder / "deeper").mkdir(parents=True)
    texts = [*journals()]
    (folder / "first.json").write_bytes(
        orjson.dumps(orjson.loads(texts[0]), option=orjson.OPT_INDENT_2)
    )
    (folder / "deeper" / "second.json").write_bytes(texts[1])
    (folder / "turn.json").write_bytes(texts[-1])
    (folder / "more.jsonl").write_bytes(b"\n\n".join(texts[2:-1]) + b"\n")
    (folder / "notes.txt").write_text("no journal, and no file of journals")
    return folder


def shown(*arguments: object) -> dict[str, Any]:
    stdout = printed("stats", *arguments, "--json")
    read: dict[str, Any] = orjson.loads(stdout)
    return read


def test_files_and_lines_of_a_folder_count_however_deep(folder: Path) -> None:
    counts = shown(folder)
    assert counts == orjson.loads(orjson.dumps(stats_of().as_mapping()))
    total = counts["total"]
    assert total["calls"] == 10
    assert total["outcomes"] == {"done": 8, "failed": 2}
    assert total["turns"] == {"finished": 1}
    assert [(each["day"], each["model"], each["calls"]) for each in counts["groups"]] == [
        ("-", "-", 2),
        ("2026-11-18", "gpt-5", 2),
        ("2026-11-18", "sonnet", 2),
        ("2026-11-19", "gpt-5", 2),
        ("2026-11-19", "sonnet", 2),
    ]


def test_files_that_are_named_count_whatever_their_names(folder: Path, tmp_path: Path) -> None:
    (folder / "more.jsonl").rename(tmp_path / "more")
    assert shown(tmp_path / "more", folder / "first.json")["total"]["calls"] == 7


def test_the_table_is_no_wider_than_a_hundred_columns(folder: Path) -> None:
    (folder / "wide.jsonl").write_bytes(
        b"\n".join(journals("a-model-with-a-very-long-name-of-its-own" * 4))
    )
    stdout = printed("stats", folder)
    lines = stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["in", "all", "number", "p50", "p95"]
    assert ["calls", "20"] in [line.split() for line in lines]
    assert ["failed", "permanently", "(auth)", "12", "66.7%"] in [line.split() for line in lines]
    assert next(each for each in lines if each.startswith("2026-11-18 a-model-")).split()[2] == "2"


def test_what_each_caller_has_spent(tmp_path: Path) -> None:
    """The journals are those of a proxy that tells its clients apart by their keys."""
    documents = [orjson.loads(text) for text in journals()][:8]
    for place, document in enumerate(documents):
        document["caller"] = ("team-a", "team-b", "team-a", "")[place % 4]
    lines = b"\n".join(map(orjson.dumps, documents))
    (tmp_path / "calls.jsonl").write_bytes(lines)
    callers = shown(tmp_path)["total"]["callers"]
    assert [*callers.items()][:2] == [
        ("team-a", {"calls": 4, "input_tokens": 4_000_000, "output_tokens": 400_000, "cost": 13.0}),
        ("team-b", {"calls": 2, "input_tokens": 2_000_000, "output_tokens": 200_000, "cost": 4.0}),
    ]
    rows = [line.split() for line in invoke("stats", tmp_path).stdout.splitlines()]
    assert ["team-b", "2", "2", "000", "000", "200", "000", "4"] in rows


def test_the_row_of_a_day_and_a_model(folder: Path) -> None:
    [row] = [
        line
        for line in invoke("stats", folder).stdout.splitlines()
        if line.startswith("2026-11-18 sonnet")
    ]
    assert " ".join(row.split()) == "2026-11-18 sonnet 2 1 2 0 s 0.46 s 0.46 s 6 s 6 s 4.5"


def words_of(chart: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", chart)).replace("\u00a0", " ").split())


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_a_chart_has_the_numbers_and_a_bar_for_each(
    folder: Path, tmp_path: Path, ending: str
) -> None:
    target = tmp_path / f"chart.{ending}"
    result = invoke("stats", folder, "-o", target)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert shown(folder, "-o", target)["total"]["calls"] == 10
    chart = target.read_text()
    words = words_of(chart)
    tables = tables_of(stats_of())
    assert len(tables) == 7
    for (title, *_), *rows in tables:
        assert title in words
        assert all(" ".join([name, *cells]) in words for name, cells, _ in rows)
    assert chart.count("rw-answer" if ending == "svg" else '"answer"') >= 6
    assert "<script" not in chart


def test_what_strangers_wrote_is_escaped_and_obeys_nobody() -> None:
    for form in FORMS.values():
        chart = form(stats_of("<script>alert(1)</script>\x1b[31m"))
        assert "\x1b" not in chart
    assert "<script" not in FORMS[".svg"](stats_of("<script>")) + FORMS[".html"](
        stats_of("<script>")
    )


HOSTILE = {
    "empty": b"",
    "binary": bytes(range(256)) * 50,
    "deep": b"[" * 100_000,
    "deeper": b'{"version": 1, "table": ' + b'{"a": ' * 500 + b"1" + b"}" * 501,
    "number": b"1" * 5000,
    "list": b"[1, 2]",
    "object": b"{}",
    "version": b'{"version": 2}',
    "turn": b'{"version": 1, "table": "turn"}',
    "text": b'"a journal"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_journal_is_left_out_with_a_note(folder: Path, name: str) -> None:
    (folder / "bad.json").write_bytes(HOSTILE[name])
    result = invoke("stats", folder)
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"left out, because they are no journals: 1; the first is {folder}/bad.json"
    )
    assert ["calls", "10"] in [line.split() for line in result.stdout.splitlines()]


def test_a_broken_line_is_named_and_the_others_count(tmp_path: Path) -> None:
    texts = [*journals()]
    (tmp_path / "some.jsonl").write_bytes(
        b"\n".join([b"{nonsense", *texts[:3], b"\xff\xfe", texts[3]])
    )
    result = invoke("stats", tmp_path, "--json")
    assert orjson.loads(result.stdout)["total"]["calls"] == 4
    assert f"no journals: 2; the first is {tmp_path}/some.jsonl:1: " in result.stderr


def test_a_line_and_a_file_that_are_too_large_are_left_out(folder: Path) -> None:
    (folder / "large.json").write_bytes(b"{\n" + b" " * 40_000_000)
    (folder / "large.jsonl").write_bytes(b"{" + b" " * 40_000_000 + b"}\n" + next(journals()))
    result = invoke("stats", folder, "--json")
    assert orjson.loads(result.stdout)["total"]["calls"] == 11
    assert "no journals: 3" in result.stderr


@given(
    st.binary(max_size=300)
    | st.sampled_from([*journals()]).flatmap(lambda text: st.just(text[: len(text) // 2]))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_no_bytes_make_a_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "any.json").write_bytes(content)
    result = invoke("stats", tmp_path)
    assert result.exit_code == 2
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_journal_whose_values_are_of_other_types_is_left_out(folder: Path) -> None:
    document = orjson.loads(next(journals()))
    spoilt = [
        {**document, "started": "yesterday"},
        {**document, "chain": 7},
        {**document, "steps": [{"number": 1}]},
        {**document, "outcome": 3},
        {**document, "chain": [{**each, "prices": "cheap"} for each in document["chain"]]},
    ]
    (folder / "spoilt.jsonl").write_bytes(b"\n".join(map(orjson.dumps, spoilt)))
    result = invoke("stats", folder, "--json")
    assert f"no journals: {len(spoilt)}; " in result.stderr
    assert orjson.loads(result.stdout)["total"]["calls"] == 10


@pytest.mark.full
def test_numbers_beyond_all_measure_are_shown_all_the_same(tmp_path: Path) -> None:
    document = orjson.loads([*journals()][1])
    document["chain"][0]["prices"] = {"input": 1e12, "output": 1e12}
    step = {
        **document["steps"][-1],
        "at": 1e15,
        "wait": 1e15,
        "usage": dict.fromkeys(("input_tokens", "output_tokens"), 10**15),
    }
    document["steps"] = [{**step, "number": number} for number in range(1, 20_001)]
    (tmp_path / "vast.json").write_bytes(orjson.dumps(document))
    assert shown(tmp_path)["total"]["input_tokens"] == 2**63 - 1
    for ending in ("svg", "html"):
        printed("stats", tmp_path, "-o", tmp_path / f"chart.{ending}")
    assert "1000000000000000 s" in invoke("stats", tmp_path).stdout


@pytest.mark.parametrize("days", [1e14, -1e14, 9e14])
def test_no_date_is_too_far(tmp_path: Path, days: float) -> None:
    (tmp_path / "far.json").write_bytes(
        orjson.dumps({**orjson.loads(next(journals())), "started": days})
    )
    assert shown(tmp_path)["groups"][0]["day"] == "-"


def test_nothing_to_count_is_bad_input(tmp_path: Path) -> None:
    for arguments in ([], [tmp_path]):
        assert "there are no journals: name files, folders or a --database" in refused(
            "stats", *arguments
        )
    assert "does not exist" in invoke("stats", tmp_path / "nowhere").stderr
    (tmp_path / "bad.json").write_text("nonsense")
    assert f"no journals: 1; the first is {tmp_path}/bad.json" in refused("stats", tmp_path)


@pytest.mark.parametrize("name", ["chart.png", "chart"])
def test_a_chart_of_another_kind_is_refused(folder: Path, name: str) -> None:
    assert "a chart ends in .svg or .html" in refused("stats", folder, "-o", folder / name)
    assert not (folder / name).exists()


def test_a_file_that_cannot_be_read_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: str) -> Any:
        raise PermissionError(13, "Permission denied")
        yield

    monkeypatch.setattr(module, "_texts", refuse)
    stderr = refused("stats", folder)
    assert "no journals: 4; the first is " in stderr
    assert ": Permission denied" in stderr


def test_a_folder_that_cannot_be_read_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(folder)["total"]["calls"]
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    (folder / "closed").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    result = invoke("stats", folder, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["total"]["calls"] == whole
    assert f"no journals: 1; the first is {folder}/closed: Permission denied" in result.stderr


@pytest.mark.parametrize("command", ["stats", "calls"])
@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_database_of_something_else_is_bad_input(
    command: str, content: bytes, tmp_path: Path
) -> None:
    place = tmp_path / "other.sqlite"
    place.write_bytes(content)
    assert "the database cannot be read, or holds no durable calls (" in refused(
        command, "--database", f"sqlite:///{place}"
    )


def test_a_person_who_waits_sees_how_many_have_been_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    result = invoke("stats", folder, "--json", env={"TERM": "xterm", "FORCE_COLOR": "1"})
    assert result.exit_code == 0
    assert "9 journals" in result.stderr


def test_the_calls_of_a_database_count(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/calls.sqlite"
    script = Script([ScriptedReply(text="In the reeds."), ScriptedReply(status=400)])
    with EmbeddedProvider(script) as provider:
        backend = OpenAIChat("heron-1", base_url=provider.base_url, api_key="sk-1f3870be274f6c49")
        with Durable(Client(backend), database) as durable:
            durable.call("one", "Where do herons nest?")
            with pytest.raises(Exception, match="400"):
                durable.call("two", "Where do owls nest?")
    counts = shown("--database", database)
    assert counts["total"]["outcomes"] == {"done": 1, "failed": 1}
    assert {each["model"] for each in counts["groups"]} == {"heron-1"}
    assert all(each["day"] > "2026" for each in counts["groups"])
    refused("stats", "--database", f"sqlite:///{tmp_path}/none.sqlite")


def test_long_tables_end_with_the_newest_days() -> None:
    stats = Stats()
    for day in range(MOST_ROWS + 5):
        stats._count((f"day {day:03}", "m"), "outcomes", "done")
    rows = tables_of(stats)[-1]
    assert rows[0][0] == f"by day and model, the last {MOST_ROWS} of {MOST_ROWS + 5}"
    assert len(rows) == MOST_ROWS + 1
    assert rows[-1][0] == f"day {MOST_ROWS + 4} m"
    assert max(map(len, lines_of(rows))) <= 100

"""`rungwise exam` over real sockets: programs of a few lines, and what comes of them."""

import json
import sys
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from rungwise.adapters.exam.answer import ANSWER
from rungwise.adapters.exam.cases import catalogue
from rungwise.adapters.exam.examinees import PORT
from rungwise.adapters.exam.programs import KEY
from rungwise.adapters.exam.wanted import example
from support.command_line import invoke, printed, refused
from support.proxies import proxy

ASK = """
import json, os, sys, urllib.request
def ask(model="m", **more):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    headers["content-type"] = "application/json"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""
NAIVE = "print(ask())"
WITH_SECOND = """
try:
    text = ask()
except Exception:
    text = ask("second")
print(text or ask("second"))
"""
LIAR = """
try:
    print(ask())
except Exception:
    pass
"""
BUSY = """
for _ in range(9):
    try:
        print(ask())
        break
    except Exception as error:
        print("error", error)
"""


@pytest.fixture
def program(tmp_path: Path):
    """Return `program(source)`, the command that runs a program that can ask."""

    def write(source: str) -> list[str]:
        path = tmp_path / "program.py"
        path.write_text(ASK + dedent(source), encoding="utf-8")
        return ["--", sys.executable, str(path)]

    return write


def grades(*arguments: object) -> dict[str, str]:
    result = invoke("exam", "--json", *arguments)
    assert result.exit_code in (0, 1), result.output
    return {each["name"]: each["grade"] for each in json.loads(result.stdout)["cases"]}


def cases(*names: str) -> list[str]:
    return [part for name in names for part in ("--case", name)]


def test_who_has_one_backend_and_no_retry_gives_up_honestly(program):
    names = ["error_once", "overloaded", "cut", "html", "empty", "length", "bad_key", "filtered"]
    assert grades(*cases(*names), *program(NAIVE)) == {
        "error_once": "safe",
        "overloaded": "safe",
        "cut": "safe",
        "html": "safe",
        "empty": "fail",
        "length": "fail",
        "bad_key": "safe",
        "filtered": "pass",
    }


def test_who_has_a_second_backend_is_rescued_by_it(program):
    names = ["overloaded", "cut", "html", "empty", "bad_key", "filtered", "error_once"]
    assert grades(*cases(*names), *program(WITH_SECOND)) == {
        "overloaded": "pass",
        "cut": "pass",
        "html": "pass",
        "empty": "pass",
        "bad_key": "pass",
        "filtered": "partial",
        "error_once": "partial",
    }


def test_who_hides_errors_fails_and_so_does_who_never_stops_asking(program):
    assert grades(*cases("overloaded"), *program(LIAR)) == {"overloaded": "fail"}
    assert grades(*cases("overloaded"), *program(BUSY)) == {"overloaded": "fail"}


def test_the_table_gives_the_reason_in_a_sentence(program):
    result = invoke("exam", *cases("overloaded", "error_once"), *program(BUSY))
    assert result.exit_code == 1
    assert "sent 9 requests where 6 are enough" in result.stdout
    assert "pass  500, once" in result.stdout
    assert "1-0-0-1  pass-partial-safe-fail, 2 cases in " in result.stdout
    assert "fail    503, for ever" in result.stderr


def test_what_a_request_came_to_is_in_the_json(program):
    came = json.loads(printed("exam", "--json", *cases("overloaded"), *program(WITH_SECOND)))
    [case] = came["cases"]
    first, second = case["requests"]
    assert (first["model"], first["is_primary"], first["status"]) == ("m", True, 503)
    assert (second["model"], second["is_primary"], second["status"]) == ("second", False, 200)
    assert case["tokens"] > 0
    assert case["exit_code"] == 0


@pytest.mark.parametrize(
    ("least", "code"),
    [("pass=1", 0), ("pass=2", 1), ("safe=2", 0), ("partial=2", 1)],
)
def test_fail_under_decides_the_exit_code(program, least: str, code: int):
    names = cases("filtered", "overloaded")
    assert invoke("exam", "--fail-under", least, *names, *program(NAIVE)).exit_code == code


def test_no_case_begins_behind_the_budget(program):
    result = invoke("exam", "--budget", "0.01s", "--json", "--cases", "2", *program(NAIVE))
    assert json.loads(result.stdout)["left_out"] == ["retry_after", "busy"]


def test_a_program_that_asks_nobody_cannot_be_examined(program):
    assert "sent no request to its provider (exit code 0)" in refused("exam", *program("1"))


def test_a_program_that_shows_no_answer_cannot_be_examined(program):
    assert "did not print the whole answer" in refused("exam", *program("ask()"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--case", "nothing"], "there is no case 'nothing'"),
        (["--case", "cut_call"], "the case cut_call does not fit"),
        (["--case", "json_for_events"], "the case json_for_events does not fit"),
        (["--fail-under", "good=3"], "not a grade with a number"),
        (["--fail-under", "pass"], "not a grade with a number"),
        (["--budget", "soon"], "not a duration"),
    ],
)
def test_what_cannot_be_is_refused(program, arguments: list[str], says: str):
    assert says in " ".join(refused("exam", *arguments, *program(NAIVE)).split())


def test_the_cases_are_listed():
    listed = printed("exam", "--list")
    assert [line.split()[0] for line in listed.splitlines()] == list(catalogue())


SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}


def test_who_asks_for_json_gets_it(program):
    source = f"""
    wants = {{"type": "json_schema", "json_schema": {{"name": "a", "schema": {SCHEMA}}}}}
    print(json.loads(ask(response_format=wants))["answer"])
    """
    assert grades(*cases("not_json"), *program(source)) == {"not_json": "safe"}


def test_who_offers_a_tool_gets_a_cut_call(program):
    source = """
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    print(ask(tools=[tool]) or ask("second"))
    """
    assert grades(*cases("cut_call"), *program(source)) == {"cut_call": "pass"}


def test_an_example_fits_its_schema():
    schema = {
        "$defs": {"Bird": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "type": "object",
        "properties": {
            "birds": {"type": "array", "items": {"$ref": "#/$defs/Bird"}},
            "kind": {"enum": ["a", "b"]},
            "count": {"type": "integer"},
            "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "fixed": {"const": 7},
        },
    }
    assert example(schema, schema) == {
        "birds": [{"name": ANSWER}],
        "kind": "a",
        "count": 1,
        "either": True,
        "fixed": 7,
    }


def test_a_schema_that_holds_itself_ends():
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert len(json.dumps(example(schema, schema))) < 200


def test_files_hold_what_the_terminal_shows(program, tmp_path: Path):
    page = tmp_path / "exam.html"
    junit = tmp_path / "exam.xml"
    names = cases("overloaded", "error_once", "empty")
    outputs = ["-o", page, "-o", junit, "-o", tmp_path / "exam.json"]
    result = invoke("exam", *outputs, "--json", *names, *program(NAIVE))
    assert (tmp_path / "exam.json").read_text() == result.stdout
    assert "503, for ever" in page.read_text()
    assert page.read_text().count('class="asked"') == 3
    suite = ElementTree.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "0")
    [failure] = suite.iter("failure")
    assert failure.get("message", "").startswith("an empty answer, for ever: showed no answer")


def test_cases_without_time_are_skipped_in_the_xml(program, tmp_path: Path):
    junit = tmp_path / "exam.xml"
    names = cases("overloaded", "empty")
    invoke("exam", "--budget", "1ms", "-o", junit, *names, *program(NAIVE))
    suite = ElementTree.fromstring(junit.read_text())
    assert [each.get("name") for each in suite] == ["overloaded", "empty"]
    assert len(list(suite.iter("skipped"))) == 2


def test_the_journal_has_the_bytes_and_no_key(program, tmp_path: Path):
    source = """
    import urllib.request as u
    u.urlopen(u.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions?key=secret-1",
        b'{"model": "m"}', {"x-api-key": "secret-2", "cookie": "secret-3"}))
    print(ask())
    """
    folder = tmp_path / "journal"
    invoke("exam", "--journal", folder, *cases("cut", "overloaded"), *program(source))
    cut = (folder / "01-cut.txt").read_text()
    assert "secret-" not in cut
    assert KEY not in cut
    assert "POST /v1/chat/completions?key=(removed)" in cut
    assert "(then the connection closes)" in cut
    assert ANSWER[:60] in cut
    assert ANSWER not in cut
    assert "<<< 503" in (folder / "02-overloaded.txt").read_text()


def test_a_function_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    both = "def call(messages):\n    return ask()\nasync def acall(messages):\n    return ask()\n"
    (tmp_path / "functions.py").write_text(ASK + both, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    expected = {"overloaded": "safe", "empty": "fail"}
    for name in ("call", "acall"):
        assert grades(*cases(*expected), "--import", f"functions:{name}") == expected


@pytest.mark.full
def test_a_gateway_is_examined_by_its_upstream(tmp_path: Path):
    chains = printed("exam", "--print-config", "rungwise")
    with proxy(chains, tmp_path) as served:
        names = cases("cut", "overloaded", "bad_key", "filtered")
        came = grades(*names, "--gateway", served.base_url, "--model", "m-{}")
    rescued = dict.fromkeys(["cut", "overloaded", "bad_key"], "pass")
    assert came == {**rescued, "filtered": "partial"}


def test_a_gateway_that_is_not_there_cannot_be_examined():
    arguments = ["exam", "--gateway", "http://127.0.0.1:1", "--model", "m"]
    assert "sent no request to its provider" in refused(*arguments)


def test_the_configurations_name_both_backends():
    for gateway in ("litellm", "rungwise"):
        config = printed("exam", "--print-config", gateway)
        assert "primary-0" in config
        assert f"primary-{len(catalogue())}" in config
        assert "second" in config
        assert f"http://127.0.0.1:{PORT}/v1" in config


def test_one_thing_is_examined():
    named = ["--import", "a:b"]
    for arguments in ([], [*named, "--gateway", "http://x"], [*named, "--", "c"]):
        assert "name one thing to examine" in refused("exam", *arguments)
    assert "--gateway needs --model" in refused("exam", "--gateway", "http://x")
    assert "as MODULE:NAME" in refused("exam", "--import", "module")
    assert "end its name in .html" in refused("exam", "-o", "exam.txt", "--", "true")


@pytest.mark.full
def test_walks_are_played_as_cases(program):
    came = grades("--walks", "--cases", "2", *program(WITH_SECOND))
    assert len(came) == 2
    assert all("+" in name for name in came)

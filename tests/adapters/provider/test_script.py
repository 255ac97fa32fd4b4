from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import ConfigurationError, ToolCall
from rungwise.adapters.provider import script as script_module
from rungwise.testing import Script, ScriptedReply

text = st.text() | st.sampled_from(
    ['"', "'''", "\n", "\r\n", "\\", "\\u0041", "\x7f\x00", "🪜", "a = 1 # b", "[[replies]]"]
)
seconds = st.integers(0, 100) | st.floats(0, 1e20)
errors = st.none() | st.fixed_dictionaries(
    {}, optional={"message": text, "type": text, "param": text, "code": text}
)
counts = st.dictionaries(text, st.integers(0, 2**63 - 1) | st.floats(0, 1e9), max_size=3)
headers = st.dictionaries(
    st.sampled_from(["Retry-After", "x-odd.name"]),
    st.sampled_from(["", "30", 'é "\\ #']),
)
FIELDS = {
    "text": text,
    "reasoning": text,
    "reasoning_field": st.sampled_from(
        ["reasoning_content", "reasoning", "reasoning_text", "reasoning_details"]
    ),
    "tool_calls": st.lists(st.builds(ToolCall, text, text, text), max_size=2),
    "finish": st.none() | text,
    "refusal": text,
    "model": text,
    "usage": st.none() | counts | st.dictionaries(text, counts, max_size=2),
    "status": st.sampled_from([200, 400, 429, 500, 999]),
    "error": errors,
    "body": st.none() | text,
    "headers": headers,
    "delay": seconds,
    "chunk_delay": seconds,
    "hang": st.booleans(),
    "cut_after": st.none() | st.integers(0, 10_000),
    "chunk_size": st.integers(1, 100),
    "write_sizes": st.lists(st.integers(1, 100), max_size=3),
    "done": st.booleans(),
    "error_event": errors,
    "final_message": st.none() | st.booleans() | text,
    "manner": st.sampled_from([[], "text_snapshots", ["indexes_zero", "framed_twice"]]),
}
replies = st.builds(ScriptedReply, **FIELDS)
scripts = st.builds(
    Script, st.lists(replies, min_size=1, max_size=3), st.sampled_from(["repeat", "error", "loop"])
)


@given(scripts)
def test_toml_round_trip(script: Script) -> None:
    assert Script.from_toml(script.to_toml()) == script


def test_toml_says_only_what_differs_from_the_defaults() -> None:
    script = Script(
        [ScriptedReply(), ScriptedReply(text='say "hi"\n', tool_calls=[{"name": "look"}])], "loop"
    )
    assert script.to_toml() == (
        'after = "loop"\n\n'
        "[[replies]]\n\n"
        "[[replies]]\n"
        'text = "say \\"hi\\"\\n"\n'
        'tool_calls = [{ id = "call_1", name = "look", arguments = "{}" }]\n'
    )
    assert repr(script.replies[0]) == "ScriptedReply()"


def test_the_example_of_the_module_is_a_script() -> None:
    example = [
        line.strip()
        for line in (script_module.__doc__ or "").splitlines()
        if line.startswith("    ")
    ]
    script = Script.from_toml("\n".join(example))
    assert [next(iter(reply.given)) for reply in script.replies] == ["status", "text", "tool_calls"]


def test_what_comes_after_the_last_reply() -> None:
    one = ScriptedReply(text="one")
    two = ScriptedReply(text="two")
    assert [Script([one, two]).reply(index) for index in range(4)] == [one, two, two, two]
    assert [Script([one, two], "loop").reply(index) for index in range(4)] == [one, two, one, two]
    ended = Script([one, two], "error").reply(2)
    assert ended.status == 500
    assert (
        ended.error["message"] == "The script has ended: it has 2 replies, and this is request 3."
    )


def test_the_finish_reason_fits_the_reply() -> None:
    assert ScriptedReply(text="x").answer.finish_reason == "stop"
    assert (
        ScriptedReply(tool_calls=[ToolCall("1", "look", "{}")]).answer.finish_reason == "tool_calls"
    )
    assert ScriptedReply(finish="").answer.finish_reason is None
    assert ScriptedReply(finish="length").answer.finish_reason == "length"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("replies = [", "f.toml: not valid TOML: "),
        ("", "f.toml: replies is empty; give at least one reply"),
        ("replies = 'x'", "f.toml: replies must be a list of tables: start each with [[replies]]"),
        ("replies = ['x']", "f.toml: replies[0] must be a table, not 'x'"),
        ("[[reply]]", "f.toml: reply is unknown; did you mean 'replies'?"),
        (
            "after = 'stop'\n[[replies]]",
            "f.toml: after must be one of repeat, error, loop, not 'stop'",
        ),
        (
            "[[replies]]\n[[replies]]\ntxt = ''",
            "f.toml: replies[1].txt is unknown; did you mean 'text'?",
        ),
        (
            "[[replies]]\nzzz = ''",
            "f.toml: replies[0].zzz is unknown; it must be one of text, reasoning, ",
        ),
        ("[[replies]]\ntext = 3", "f.toml: replies[0].text must be a string, not 3"),
        (
            "[[replies]]\nstatus = '429'",
            "f.toml: replies[0].status must be a status from 200 to 999 that has a body",
        ),
        (
            "[[replies]]\nstatus = 204",
            "f.toml: replies[0].status must be a status from 200 to 999 that has a body",
        ),
        (
            "[[replies]]\ndelay = nan",
            "f.toml: replies[0].delay must be a number of seconds, 0 or more, not nan",
        ),
        ("[[replies]]\nhang = 1", "f.toml: replies[0].hang must be true or false, not 1"),
        (
            "[[replies]]\ncut_after = true",
            "f.toml: replies[0].cut_after must be a whole number of bytes, 0 or more",
        ),
        (
            "[[replies]]\nchunk_size = 0",
            "f.toml: replies[0].chunk_size must be a whole number of characters above 0",
        ),
        (
            "[[replies]]\nwrite_sizes = 3",
            "f.toml: replies[0].write_sizes must be a list of whole numbers of bytes",
        ),
        (
            "[[replies]]\nwrite_sizes = [0]",
            "f.toml: replies[0].write_sizes must be a list of whole numbers of bytes",
        ),
        (
            "[[replies]]\nreasoning_field = 'x'",
            "f.toml: replies[0].reasoning_field must be one of reasoning_content, ",
        ),
        (
            "[[replies]]\nusage = { a = 'b' }",
            "f.toml: replies[0].usage must be a table of numbers, 0 or more, not ",
        ),
        (
            "[[replies]]\nfinal_message = 1",
            "f.toml: replies[0].final_message must be true, false or a string, not 1",
        ),
        (
            "[[replies]]\nerror = 'x'",
            "f.toml: replies[0].error must be a table of message, type, code, param",
        ),
        (
            "[[replies]]\nerror.mesage = 'x'",
            "f.toml: replies[0].error.mesage is unknown; did you mean 'message'?",
        ),
        (
            "[[replies]]\nerror_event.type = 1",
            "f.toml: replies[0].error_event.type must be a string, not 1",
        ),
        (
            "[[replies]]\nheaders = 1",
            "f.toml: replies[0].headers must be a table of strings, not 1",
        ),
        (
            "[[replies]]\nheaders.retry-after = 1",
            "f.toml: replies[0].headers.retry-after must be one line in Latin-1",
        ),
        (
            '[[replies]]\nheaders.a = "b\\nc"',
            "f.toml: replies[0].headers.a must be one line in Latin-1, not 'b\\nc'",
        ),
        (
            "[[replies]]\nheaders.'a b' = 'c'",
            "f.toml: replies[0].headers: 'a b' is not a header name",
        ),
        (
            "[[replies]]\nheaders.Content-Length = '1'",
            "f.toml: replies[0].headers.Content-Length is set by the provider",
        ),
        (
            "[[replies]]\ntool_calls = {}",
            "f.toml: replies[0].tool_calls must be a list of tables with id, name, ",
        ),
        (
            "[[replies]]\ntool_calls = [1]",
            "f.toml: replies[0].tool_calls[0] must be a table with id, name, arguments",
        ),
        (
            "[[replies]]\ntool_calls = [{}]",
            "f.toml: replies[0].tool_calls[0].name is missing; give the tool's name",
        ),
        (
            "[[replies]]\ntool_calls = [{ name = 'x', args = '' }]",
            "f.toml: replies[0].tool_calls[0].args is unknown; did you mean 'arguments'?",
        ),
        (
            "[[replies]]\ntool_calls = [{ name = 'x', arguments = {} }]",
            "f.toml: replies[0].tool_calls[0].arguments must be a string, not {}; write the JSON "
            "as one string",
        ),
    ],
)
def test_what_is_wrong_is_named(toml: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Script.from_toml(toml, "f.toml")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "\ud83d"},
        {"delay": -1},
        {"usage": {"a": 2**63}},
        {"headers": None},
        {"tool_calls": "look"},
    ],
)
def test_the_constructor_checks_too(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        ScriptedReply(**fields)


def test_a_script_holds_replies_only() -> None:
    with pytest.raises(ConfigurationError, match=r"replies\[0\] must be a ScriptedReply, not str"):
        Script(["text"])  # type: ignore[list-item]


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    with pytest.raises(ConfigurationError, match=r"script\.toml: cannot be read: No such file"):
        Script.load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"script\.toml: not UTF-8: .* at byte 0"):
        Script.load(path)
    path.write_text("[[replies]]\ntext = '🪜'\n", encoding="utf-8")
    assert Script.load(str(path)) == Script([ScriptedReply(text="🪜")])

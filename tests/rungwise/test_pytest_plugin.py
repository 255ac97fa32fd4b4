"""The pytest plugin, in pytest runs of its own."""

from importlib.metadata import entry_points

import pytest

from support.command_line import printed_by

pytest_plugins = ["pytester"]

INSTALLED = any(each.value == "rungwise.pytest_plugin" for each in entry_points(group="pytest11"))
# what is installed is loaded, and not twice
PLUGIN = () if INSTALLED else ("-p", "rungwise.pytest_plugin")


@pytest.fixture
def run(pytester: pytest.Pytester) -> object:
    def start(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)

    return start


@pytest.mark.full
def test_the_fixtures_make_calls_that_never_wait(run) -> None:
    result = run(
        """
        import time
        import anyio
        import pytest
        import rungwise
        from rungwise.testing import Script, ScriptedReply

        ANSWER = ScriptedReply(text="An answer.")
        BUSY = ScriptedReply(status=503, headers={"retry-after": "60"})
        providers = []

        def test_waits_are_virtual(rungwise_provider, rungwise_client, rungwise_clock):
            provider = rungwise_provider(BUSY, ANSWER)
            providers.append(provider)
            started = time.monotonic()
            client = rungwise_client(provider)
            assert client.call("hi").text == "An answer."
            assert time.monotonic() - started < 30
            assert rungwise_clock.waits == [60.0]
            assert len(provider.requests) == 2

        def test_providers_are_closed_at_the_end():
            with pytest.raises(OSError):
                import httpx
                try:
                    httpx.get(providers[0].base_url)
                except httpx.TransportError as error:
                    raise OSError from error

        def test_chains_and_scripts(rungwise_provider, rungwise_client, rungwise_clock):
            first = rungwise_provider(Script([ScriptedReply(status=401)]))
            second = rungwise_provider(lambda request: ANSWER)
            client = rungwise_client(first, second, policy=rungwise.Policy(budget=rungwise.Budget(attempts=2)))
            assert client.call("hi").backend == "backend-2"
            assert anyio.run(client.acall, "hi").backend == "backend-2"

        def test_without_replies_there_is_an_empty_one(rungwise_provider, rungwise_client, rungwise_clock):
            with pytest.raises(rungwise.EmptyResponse):
                rungwise_client(rungwise_provider(), testing=rungwise.testing.Clocks(clock=rungwise_clock, sleep=rungwise_clock.sleep, jitter=lambda: 0.0)).call("hi")
            assert rungwise_clock.waits == [1.0, 2.0, 4.0]
        """  # noqa: E501
    )
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*- rungwise -*")


@pytest.mark.full
def test_turns_run_with_tools_that_answer_from_a_list(run) -> None:
    result = run(
        """
        from rungwise.testing import ScriptedReply

        def test_a_turn(rungwise_provider, rungwise_client, rungwise_tools):
            asks = ScriptedReply(tool_calls=[{"name": "look", "arguments": '{"path": "x"}'}])
            provider = rungwise_provider(asks, asks, ScriptedReply(text="An answer."))
            look = rungwise_tools("look", "two nests", OSError("the bank is closed"))
            result = rungwise_client(provider).turn("hi", tools=[look])
            assert (result.outcome, result.text) == ("finished", "An answer.")
            assert look.called == [{"path": "x"}] * 2
            told = [m["content"] for m in provider.requests[2].body["messages"] if m["role"] == "tool"]
            assert told[0] == "two nests"
            assert "two nests" not in told[1]

        def test_without_answers_there_is_none(rungwise_tools):
            assert rungwise_tools("look")(path="x") is None
        """  # noqa: E501
    )
    result.assert_outcomes(passed=2)


@pytest.mark.full
def test_the_summary_tells_what_was_covered(run) -> None:
    result = run(
        """
        import rungwise
        from rungwise import testing
        from rungwise import verify

        def test_some_calls():
            certificate = verify()
            empty = rungwise.core.Reply(stop_reason="stop")
            for script in ([empty], [rungwise.core.Reply("An answer.", stop_reason="stop")]):
                testing.assert_call_honest(testing.run(rungwise.Policy(), script), certificate=certificate)
        """  # noqa: E501
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*- rungwise -*",
            "2 paths, 2 of them different; 5 of * states and 5 of * rows; 1 of * guards both ways; "
            "5 of * pairs of rows; at worst 4 of 24 attempts, 7 of * waiting seconds (ask, "
            "reask x3, exhausted)",
        ]
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("profile", "examples", "same"), [("rungwise-ci", 100, True), ("rungwise-fuzz", 1000, False)]
)
def test_the_profiles_can_be_asked_for(
    run,
    profile: str,
    examples: int,
    same: bool,
) -> None:
    result = run(
        f"""
        from hypothesis import given, settings, strategies as st

        drawn = []

        @given(st.integers())
        def test_it(number):
            drawn.append(number)

        def test_profile():
            assert settings.get_current_profile_name() == {profile!r}
            assert settings.default.derandomize is {same}
            assert len(drawn) == {examples}
        """,
        f"--hypothesis-profile={profile}",
    )
    result.assert_outcomes(passed=2)


def test_a_run_that_does_not_use_it_is_left_alone(run) -> None:
    result = run(
        """
        import sys

        def test_nothing_was_imported():
            ours = ("rungwise.fsm", "rungwise.adapters", "transitions", "httpx")
            assert [name for name in sys.modules if name.startswith(ours)] == []
        """,
        "-p",
        "no:hypothesispytest",
    )
    result.assert_outcomes(passed=1)
    assert result.errlines == []
    result.stdout.no_fnmatch_line("*- rungwise -*")


def test_it_works_where_hypothesis_is_missing(run) -> None:
    result = run(
        """
        import sys
        sys.modules["hypothesis"] = None

        def test_provider(rungwise_provider):
            assert rungwise_provider().base_url

        def test_clock(rungwise_clock):
            pass
        """,
        "-p",
        "no:hypothesispytest",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*rungwise.testing needs Hypothesis*"])


def test_importing_it_is_cheap() -> None:
    code = (
        "import sys; before = set(sys.modules); import pytest; import rungwise.pytest_plugin;"
        " ours = ('rungwise.fsm', 'rungwise.adapters', 'hypothesis', 'httpx', 'transitions', "
        "'anyio', 'orjson');"
        " print([n for n in ours if n in sys.modules])"
    )
    assert printed_by(code) == "[]\n"


EXAMINED = """
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["choices"][0]["message"]["content"])
"""
AN_EXAM = """
import sys

def test_it(examiner):
    exam = examiner([sys.executable, "program.py"], cases=["overloaded", "empty"])
    assert exam.total == "0-0-1-1"
    assert exam.of("fail") == ["empty"]
    assert exam.of("safe") == ["overloaded"]
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "expected"), [([], "skipped"), (["--rungwise-exam"], "passed")]
)
def test_exams_run_where_they_are_asked_for(
    pytester: pytest.Pytester, run, options: list[str], expected: str
) -> None:
    pytester.makepyfile(program=EXAMINED)
    assert run(AN_EXAM, *options).parseoutcomes() == {expected: 1}

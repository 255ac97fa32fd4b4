"""Programs on the SDKs and frameworks that people use gain the ladder by a line, in sixteen faults
of a provider.

Every program in `programs/` is what its library's own documents show, with the transport or the
proxy put in.
"""

import subprocess
from pathlib import Path

import pytest
from attrs import frozen

from adoption.environments import GROUPS, python_for
from adoption.playing import JSON_ANSWER, PROGRAMS, WAYS, Came, play
from failover.faults import FAULTS
from rungwise.adapters.exam.answer import ANSWER
from support.missing import missing


@frozen
class Program:
    """Say how a program is run, and what it raises for a fault of its own request.

    Arguments:
        name: of its file.
        group: the environment; "" is the one that tests run in.
        raises: the class of its error, with its library.
        ways: those of its functions that make calls.
        answer: what the provider answers.
        alone: whether its calls follow one another: it, or its library, changes what the process
        shares.
        held: whether a cut answer is asked for anew instead of being continued.
    """

    name: str
    group: str
    raises: str
    ways: tuple[str, ...] = WAYS
    answer: str = ANSWER
    alone: bool = False
    held: bool = False

    def __str__(self) -> str:
        return f"{self.name.removeprefix('with_')}{'-' if self.group else ''}{self.group}"


OWN = (
    Program("with_openai", "", "openai.BadRequestError"),
    Program("with_anthropic", "", "anthropic.BadRequestError"),
    Program("with_google_genai", "", "google.ClientError"),
    Program("with_google_interactions", "", "google.BadRequestError"),
)
OTHERS = (
    Program("with_openai", "openai2", "openai.BadRequestError"),
    Program("with_litellm", "openai2", "litellm.ContentPolicyViolationError", alone=True),
    Program("with_litellm_anthropic", "openai2", "litellm.BadRequestError"),
    Program("with_llama_index", "openai2", "openai.BadRequestError"),
    Program("with_dspy", "openai2", "dspy.LMInvalidRequestError", ("whole", "awhole")),
    Program("with_langchain_openai", "langchain", "langchain_openai.OpenAIInvalidRequestError"),
    Program(
        "with_langchain_google_genai",
        "langchain",
        "langchain_google_genai.GoogleInvalidRequestError",
    ),
    Program(
        "with_langchain_anthropic",
        "langchain",
        "langchain_anthropic.AnthropicInvalidRequestError",
        alone=True,
    ),
    Program(
        "with_instructor",
        "instructor",
        "instructor.InstructorRetryException",
        answer=JSON_ANSWER,
        held=True,
    ),
    *(
        Program(
            name,
            "pydantic-ai",
            "pydantic_ai.ModelRequestRejectedError",
            ("whole", "awhole", "astream"),
        )
        for name in ("with_pydantic_ai", "with_pydantic_ai_anthropic", "with_pydantic_ai_google")
    ),
)

REQUESTS = {
    "S01": 2,
    "S02": 3,
    "S03": 2,
    "S04": 3,
    "S05": 2,
    "S06": 2,
    "S07": 2,
    "S08": 4,
    "S09": 2,
    "S10": 4,
    "S11": 1,
    "S12": 2,
    "S13": 1,
    "S14": 4,
    "S15": 3,
    "S16": 3,
}
"""How many requests the provider gets, the fallback's among them: those of the ladder, without any
of the program's.
"""
REQUESTS_HELD = {**REQUESTS, "S08": 3, "S10": 3, "S14": 3}
OFTEN = ("S03", "S08", "S13", "S16")


def faults_of(program: Program, came: list[Came]) -> list[str]:
    """Return what is wrong with the calls of a program."""
    requests = REQUESTS_HELD if program.held else REQUESTS
    wrong = []
    for call in came:
        # which nothing rescues: the caller gets its library's error, with the reason
        if call.fault == "S13":
            kind, says = call.error or ("", "")
            is_right = (
                kind == program.raises and "The prompt was rejected by the content filter." in says
            )
        else:
            is_right = call.is_whole
        if not is_right or call.requests != requests[call.fault]:
            wrong.append(str(call))
    return wrong


def check(program: Program, python: Path, faults: tuple[str, ...]) -> None:
    """Play faults to each way of a program, and again those that may only have been late."""
    came = play(program.name, python, faults, answer=program.answer, alone=program.alone)
    assert sorted({each.way for each in came}) == sorted(program.ways)
    assert len(came) == len(faults) * len(program.ways)
    if faults_of(program, came):
        again = tuple({each.fault for each in came if faults_of(program, [each])})
        came = play(program.name, python, again, answer=program.answer, alone=True)
    assert not (wrong := faults_of(program, came)), "\n".join(wrong)


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", OWN, ids=str)
def test_a_program_gains_the_ladder(program: Program):
    check(program, python_for(program.group), OFTEN)


@pytest.mark.slowest
@pytest.mark.full
@pytest.mark.parametrize("program", [*OWN, *OTHERS], ids=str)
def test_a_program_gains_the_ladder_in_every_fault(program: Program):
    try:
        python = python_for(program.group)
    except subprocess.CalledProcessError as error:
        missing(f"{program.group} needs packages that cannot be had: {error}")
    check(program, python, tuple(FAULTS))


OF_OTHER_TESTS = {
    "phoenix",
    "litellm",
    "litellm-proxy",
    "llm",
    "shell-gpt",
    "llmock",
    "agentchaos",
    "llama-cpp",
}
"""Servers, commands and examiners, each of which has a test of its own."""


def test_every_program_and_every_environment_is_used():
    named = {program.name for program in (*OWN, *OTHERS)}
    assert named == {path.stem for path in PROGRAMS.glob("with_*.py")}
    assert {program.group for program in OTHERS} == {*GROUPS} - OF_OTHER_TESTS

"""The pytest plugin: fixtures for calls that never wait, Hypothesis profiles, a line on coverage.

pytest loads it in every run of an environment that has Rungwise, so it imports nothing before a
fixture is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from attrs import fields_dict

import rungwise
import rungwise.testing

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.adapters.exam.examining import Exam
    from rungwise.adapters.provider.server import EmbeddedProvider
    from rungwise.fsm.testing.scripted import VirtualClock

__all__ = [
    "ScriptedTool",
    "examiner",
    "rungwise_client",
    "rungwise_clock",
    "rungwise_provider",
    "rungwise_tools",
]

KEY = "sk-5e884898da280471"
EXAMS = 4
"""Cases of an exam that run side by side."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs exams."""
    group = parser.getgroup("rungwise")
    group.addoption(
        "--rungwise-exam", action="store_true", help="run the tests that use the fixture examiner"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register our Hypothesis profiles if one of them was asked for, before Hypothesis loads it."""
    profile = config.getoption("--hypothesis-profile", default=None)
    if isinstance(profile, str) and profile.startswith("rungwise-"):
        try:
            import rungwise.fsm.testing  # noqa: F401  (it registers them)
        except ImportError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was covered, if anything was."""
    module = sys.modules.get("rungwise.fsm.testing.coverage")
    if module is not None and module.RECORDER.paths:
        terminalreporter.write_sep("-", "rungwise")
        terminalreporter.write_line(module.RECORDER.summary())


@pytest.fixture
def rungwise_clock() -> VirtualClock:
    """Return a clock that only moves when told; the clients of `rungwise_client` wait on it."""
    from rungwise.fsm.testing.scripted import VirtualClock

    return VirtualClock()


@pytest.fixture
def rungwise_provider() -> Iterator[Callable[..., EmbeddedProvider]]:
    """Return `provider(*replies, after="repeat")`, which serves scripted replies over HTTP.

    It serves until the test ends. Instead of the replies it takes a `rungwise.testing.Script`, or a
    function from the request to its reply.
    """
    provider = rungwise.testing.EmbeddedProvider
    with ExitStack() as stack:
        yield lambda *replies, **options: stack.enter_context(provider(_script(replies, **options)))


def _script(replies: tuple[Any, ...], **options: Any) -> Any:
    unknown = sorted(options.keys() - {"after"})
    if unknown:
        raise rungwise.ConfigurationError(f"provider has no option {unknown[0]!r}; there is: after")
    if len(replies) == 1:
        [only] = replies
        is_script = isinstance(only, rungwise.testing.Script)
        if not options and (is_script or callable(only)):
            return only
        if is_script or isinstance(only, list | tuple):
            raise rungwise.ConfigurationError(
                "provider takes its replies one by one, as in provider(*replies), or a Script alone"
            )
    return rungwise.testing.Script(replies or (rungwise.testing.ScriptedReply(),), **options)


class ScriptedTool:
    """A tool that answers from a list, call by call, and records its arguments.

    Arguments:
        name: by which the model calls it.
        answers: what it returns, or raises; the last one repeats.
    """

    def __init__(self, name: str, answers: tuple[Any, ...]) -> None:
        self.__name__ = name
        self.__doc__ = None  # the model would read that of the class
        self.answers = answers or (None,)
        self.called: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> Any:
        """Return the next answer, or raise it where it is an exception."""
        self.called.append(arguments)
        answer = self.answers[min(len(self.called), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def examiner(request: pytest.FixtureRequest) -> Callable[..., Exam]:
    """Return `examiner(program, cases=(), count=20, budget=None)`, which examines a program.

    The program is a command as a list of words, or a function named as in `"module:name"`. A test
    that asks for this fixture is skipped without the option `--rungwise-exam`, since a program may
    wait long for a silent provider.
    """
    if not request.config.getoption("--rungwise-exam"):
        pytest.skip("an exam takes the program's own waits: run it with --rungwise-exam")
    return _examine


def _examine(
    program: str | Sequence[str],
    *,
    cases: Iterable[str] = (),
    count: int = 20,
    budget: float | None = None,
) -> Exam:
    """Examine a program.

    Arguments:
        program: a command, or the name of a function.
        cases: their names; none for the first ones that fit.
        count: how many of these.
        budget: seconds after which no further case begins.
    """
    from rungwise.adapters.exam.examinees import Program, function
    from rungwise.adapters.exam.examining import examine

    command = function(program) if isinstance(program, str) else program
    return examine(Program(command), names=cases, count=count, budget=budget, at_once=EXAMS)


@pytest.fixture
def rungwise_tools() -> Callable[..., ScriptedTool]:
    """Return `tool(name, *answers)`, which builds a tool for `client.turn(..., tools=[...])`.

    It answers from the list. An answer that is an exception is raised; `tool.called` lists the
    arguments of each call.
    """
    return lambda name, *answers: ScriptedTool(name, answers)


@pytest.fixture
def rungwise_client(rungwise_clock: VirtualClock) -> Iterator[Callable[..., Client]]:
    """Return `client(*providers, **options)`, which builds a client whose waits are virtual.

    Its backends are these providers, in order. The options are those of `rungwise.Client`; a
    provider may also be a backend of any kind.
    """
    error = rungwise.ConfigurationError
    names = sorted(signature(rungwise.Client).parameters.keys() - {"chain", "removed"})
    clocks = rungwise.testing.Clocks(
        clock=rungwise_clock,
        sleep=rungwise_clock.sleep,
        async_sleep=rungwise_clock.asleep,
        jitter=lambda: 0.0,
    )

    with ExitStack() as stack:

        def build(*providers: Any, **options: Any) -> Client:
            # Of what has become a part of `testing`, the client itself says so.
            moved = fields_dict(rungwise.testing.Clocks)
            unknown = sorted(options.keys() - set(names) - moved.keys())
            if unknown:
                raise error(f"client has no option {unknown[0]!r}; there are: {', '.join(names)}")
            for each in providers:
                if not hasattr(each, "encode") and not hasattr(each, "base_url"):
                    kind = type(each).__name__
                    raise error(
                        "client takes its providers one by one, as in client(*providers), "
                        f"not {kind}"
                    )
            chain = [_backend(number, each) for number, each in enumerate(providers, 1)]
            options.setdefault("testing", clocks)
            return stack.enter_context(rungwise.Client(chain, **options))

        yield build


def _backend(number: int, provider: Any) -> Any:
    """Return a backend as it is, and a backend that asks any other provider."""
    if hasattr(provider, "encode"):
        return provider
    return rungwise.OpenAIChat(
        f"model-{number}", name=f"backend-{number}", base_url=provider.base_url, api_key=KEY
    )

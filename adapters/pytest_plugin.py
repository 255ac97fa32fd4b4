"""The pytest plugin: fixtures for calls that never wait, two Hypothesis profiles, and a line on what was covered.

pytest loads it in every run of an environment that has Rungwise, so it imports nothing before a fixture is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from adapters.client import Client
    from adapters.provider import EmbeddedProvider, Responder
    from adapters.script import Script, ScriptedReply
    from fsm.testing.clock import VirtualClock

PROFILE_OPTION = "--hypothesis-profile"
PROFILES = "rungwise-"
KEY = "sk-5e884898da280471"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register our Hypothesis profiles if one of them was asked for, before Hypothesis loads it."""
    asked = config.getoption(PROFILE_OPTION, default=None)
    if isinstance(asked, str) and asked.startswith(PROFILES):
        from fsm.testing.profiles import register_profiles

        register_profiles()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was covered, if anything was."""
    module = sys.modules.get("fsm.testing.coverage")
    if module is not None and module.RECORDER.paths:
        terminalreporter.write_sep("-", "rungwise")
        terminalreporter.write_line(module.RECORDER.summary())


@pytest.fixture
def rungwise_clock() -> VirtualClock:
    """Return a clock that only moves when told; the clients of `rungwise_client` wait on it."""
    from fsm.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def rungwise_provider() -> Iterator[Callable[..., EmbeddedProvider]]:
    """Return `provider(*replies, after="repeat")`, which serves scripted replies over HTTP until the test ends.

    A `Script`, or a function from the request to its reply, may be given in place of the replies.
    """
    from adapters.provider import EmbeddedProvider

    with ExitStack() as stack:

        def start(*replies: ScriptedReply | Script | Responder, **options: Any) -> EmbeddedProvider:
            return stack.enter_context(EmbeddedProvider(_script(replies, **options)))

        yield start


def _script(replies: tuple[Any, ...], **options: Any) -> Any:
    from adapters.script import Script, ScriptedReply
    from fsm.errors import ConfigurationError

    if len(replies) == 1 and (isinstance(replies[0], Script) or callable(replies[0])) and not options:
        return replies[0]
    if len(replies) == 1 and isinstance(replies[0], Script | list | tuple):
        raise ConfigurationError("provider takes its replies one by one, as in provider(*replies), or a Script alone")
    return Script(replies or (ScriptedReply(),), **options)


@pytest.fixture
def rungwise_client(rungwise_clock: VirtualClock) -> Iterator[Callable[..., Client]]:
    """Return `client(*providers, **options)`: its backends are these providers, in order, and its waits are virtual.

    The options are those of `adapters.Client`; a provider may also be a backend of any kind.
    """
    from adapters.client import Client
    from adapters.openai_chat import OpenAIChat

    with ExitStack() as stack:

        def build(*providers: Any, **options: Any) -> Client:
            chain = [
                OpenAIChat(f"model-{number}", name=f"backend-{number}", base_url=each.base_url, api_key=KEY)
                if not hasattr(each, "encode")
                else each
                for number, each in enumerate(providers, 1)
            ]
            clock = rungwise_clock
            waits = {"clock": clock, "sleep": clock.sleep, "async_sleep": clock.asleep, "jitter": lambda: 0.0}
            return stack.enter_context(Client(chain, **{**waits, **options}))

        yield build

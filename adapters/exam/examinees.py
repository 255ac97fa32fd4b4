"""Who is examined: a program, a function, or a gateway. Each plays a case on its stage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from rungwise.adapters.exam.cases import catalogue
from rungwise.adapters.exam.programs import ProgramEnd, environment, run
from rungwise.adapters.exam.stage import Stage
from rungwise.adapters.http.closing import Closing
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest

PORT: Final = 8399
"""Where the provider listens to a gateway, which was started before it."""

NUMBER: Final = "{}"
"""Stands in the name of a gateway's model for the number of the case."""

LITELLM: Final = """\
# litellm --config FILE --port 4000; rungwise exam --gateway http://127.0.0.1:4000 --model 'm-{}'
router_settings:
  num_retries: 2
  timeout: 30
  default_fallbacks: ["second"]
model_list:
  - model_name: second
    litellm_params:
      model: openai/second
      api_base: http://127.0.0.1:PORT/v1
      api_key: exam
"""
LITELLM_MODEL: Final = """\
  - model_name: m-NUMBER
    litellm_params:
      model: openai/primary-NUMBER
      api_base: http://127.0.0.1:PORT/v1
      api_key: exam
"""
RUNGWISE: Final = """\
# rungwise proxy FILE; rungwise exam --gateway http://127.0.0.1:8000 --model 'm-{}'
"""
RUNGWISE_MODEL: Final = """
[[chain.m-NUMBER]]
api = "openai"
model = "primary-NUMBER"
base_url = "http://127.0.0.1:PORT/v1"
key_env = ""

[[chain.m-NUMBER]]
api = "openai"
model = "second"
base_url = "http://127.0.0.1:PORT/v1"
key_env = ""
"""
CONFIGURATIONS: Final = {
    "litellm": (LITELLM, LITELLM_MODEL),
    "rungwise": (RUNGWISE, RUNGWISE_MODEL),
}
"""How a gateway is told of its upstream: the beginning of a file, and the block of each model."""


def configuration(gateway: str) -> str:
    """Return the file for a gateway, with a model for each case: a gateway that remembers what went
    wrong, and avoids it, must meet the next fault as well.
    """
    head, block = CONFIGURATIONS[gateway]
    models = [block.replace("NUMBER", str(number)) for number in range(len(catalogue()) + 1)]
    return "".join([head, *models]).replace("PORT", str(PORT))


@frozen
class Program:
    """A program that is started for each case, with a provider of its own.

    Arguments:
        command: the program and its arguments.
        protocols: those in which it is told of the provider; none for all.
        names: of the variables that are passed on to it.
    """

    command: Sequence[str]
    protocols: Sequence[str] = ()
    names: Sequence[str] = ()

    def __call__(self, stage: Stage, limit: float) -> ProgramEnd:
        """Play a case, at most for so many seconds."""
        with EmbeddedProvider(stage.respond) as provider:
            base = provider.base_url.removesuffix("/v1")
            return run(self.command, environment(base, self.protocols, self.names), limit)


def function(named: str) -> list[str]:
    """Return the command that calls a function, named as in `module:name`."""
    return [sys.executable, "-m", "rungwise.adapters.exam.calling", named]


class ExaminedGateway(Closing):
    """A gateway that runs already: its upstream is one provider, which every case uses.

    Arguments:
        url: its address.
        model: whom to ask it for; in each case another one if `{}` stands in it, for its number.
        key_variable: the variable of the environment that holds its key.
        port: where its upstream listens.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key_variable: str = "",
        port: int = PORT,
    ) -> None:
        self._stage: Stage | None = None
        self._names = [key_variable] if key_variable else []
        asking = [sys.executable, "-m", "rungwise.adapters.exam.asking"]
        self._command = [*asking, url]
        self._model = model
        self._played = 0
        self._provider = EmbeddedProvider(self._respond, port=port)

    def close(self) -> None:
        """Stop the upstream."""
        self._provider.close()

    def __call__(self, stage: Stage, limit: float) -> ProgramEnd:
        """Play a case, at most for so many seconds; one case at a time."""
        self._stage = stage
        model = self._model.replace(NUMBER, str(self._played))
        if model != self._model:
            stage.backend = None
        self._played += 1
        variables = environment("http://127.0.0.1:1", names=self._names)
        return run([*self._command, model, *self._names], variables, limit)

    def _respond(self, request: ReceivedRequest) -> ScriptedReply:
        stage = self._stage
        return ScriptedReply(status=503) if stage is None else stage.respond(request)

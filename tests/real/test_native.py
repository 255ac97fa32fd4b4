"""llama.cpp's own server in each protocol that it speaks, with a model of which every word is
known.

pip brings the server built (`xllamacpp`), so that this runs without a compiler; `run.py` checks
much more, of a server that it builds.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rungwise
from adoption.environments import python_for
from real.checking import ASKED, LAST, WHOLE, counted
from real.server import ModelServer
from support.modes import MODES, ask, options_of

pytestmark = pytest.mark.full

HERE = Path(__file__).parent
WINDOW = 4_096
ENOUGH = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    try:
        python = str(python_for("llama-cpp"))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"llama.cpp's server cannot be had: {error}")
    folder = tmp_path_factory.mktemp("native")
    model = folder / "plain.gguf"
    subprocess.run([python, HERE / "model.py", model, str(LAST), "plain"], check=True)
    command = [python, str(HERE / "native.py"), str(model), "{port}", str(WINDOW)]
    with ModelServer(command, folder, health="/health", context=WINDOW) as running:
        yield running


BACKENDS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: rungwise.OpenAIChat("counter", base_url=f"{url}/v1"),
    "responses": lambda url: rungwise.OpenAIResponses("counter", base_url=f"{url}/v1"),
    "messages": lambda url: rungwise.Anthropic("counter", base_url=f"{url}/v1"),
}


def result_of(server: ModelServer, api: str, mode: str, **options: Any) -> rungwise.Result:
    limits = rungwise.Limits(continuations=0)
    policy = rungwise.Policy(limits=limits)
    backend = BACKENDS[api](server.root)
    with rungwise.Client(backend, policy=policy, **options_of(mode)) as client:
        return ask(client, mode, ASKED, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", BACKENDS)
def test_a_text_within_its_cap_is_whole(server: ModelServer, api: str, mode: str) -> None:
    result = result_of(server, api, mode, max_tokens=ENOUGH)
    assert (result.outcome, result.text, result.attempts) == ("done", WHOLE, 1)
    assert result.usage.output_tokens == LAST + 1  # the model says that it has ended, too


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cap", [1, 7, LAST - 1])
@pytest.mark.parametrize("api", BACKENDS)
def test_a_text_that_its_cap_cuts_is_partial(
    server: ModelServer, api: str, cap: int, mode: str
) -> None:
    result = result_of(server, api, mode, max_tokens=cap)
    assert (result.outcome, result.text) == ("partial", counted(cap))
    assert result.usage.output_tokens == cap

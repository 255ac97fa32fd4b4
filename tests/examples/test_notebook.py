"""The notebook: its cells, what they send and show; and in the full run, the notebook itself in a
kernel of its own.
"""

import ast
import asyncio
import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

import rungwise
from support.missing import missing

ROOT = Path(__file__).parents[2]
NOTEBOOK = Path(__file__).with_name("notebook.ipynb")
CELLS: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def run_cells() -> dict[str, Any]:
    """Run the code of the notebook; what it shows as a bundle of MIME types is under `shown` of
    what is returned.
    """
    names: dict[str, Any] = {"shown": []}
    # IPython's own, which every notebook has
    names["display"] = lambda data, raw: names["shown"].append(data)
    for cell in CELLS:
        if cell["cell_type"] == "code":
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as in a notebook
            awaits = eval(
                compile("".join(cell["source"]), f"cell {cell['id']}", "exec", flags), names
            )
            if awaits is not None:
                asyncio.run(awaits)
    return names


def test_it_is_kept_without_outputs() -> None:
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert code
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)


def test_its_cells_play_without_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_cells()
    said = capsys.readouterr().out
    assert "The air scatters blue light more than red light, and so the sky is blue.\n" in said
    assert "failed_transiently [may_retry] -> retry after 0.2 s" in said
    assert "at most 8 attempts\n" in said
    assert said.endswith("done after 3 attempts, as before\n")
    asked = [request.body["messages"] for request in names["provider"].requests]
    assert asked[0] == asked[1] == [{"role": "user", "content": "Why is the sky blue?"}]
    # it is gone on from what came
    assert [message["role"] for message in asked[2]] == ["user", "assistant", "user"]
    (picture,) = names["shown"]
    assert picture["image/svg+xml"].startswith("<svg")


def test_its_cells_ask_the_server_that_the_environment_names(
    rungwise_provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = rungwise_provider(rungwise.testing.ScriptedReply("It is blue."))
    monkeypatch.setenv("MODEL", "mine")
    monkeypatch.setenv("BASE_URL", provider.base_url)
    names = run_cells()
    assert (names["result"].text, names["provider"].requests) == ("It is blue.", [])
    assert [request.body["model"] for request in provider.requests] == ["mine"]


@pytest.mark.full
def test_it_runs_in_a_kernel(tmp_path: Path) -> None:
    venv.create(tmp_path / "its", with_pip=True)
    binaries = tmp_path / "its" / "bin"
    installed = run(binaries / "pip", "install", "-q", ROOT, "nbclient", "ipykernel")
    if installed.returncode:
        missing(f"no kernel can be installed here: {installed.stderr[-300:]}")
    done = run(binaries / "jupyter", "execute", NOTEBOOK, "--output", tmp_path / "done.ipynb")
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "done.ipynb").read_text("utf-8"))["cells"]
    outputs = {cell["id"]: cell["outputs"] for cell in cells if cell["cell_type"] == "code"}
    (result,), (picture,) = outputs["ask"], outputs["picture"]
    assert "done" in result["data"]["text/plain"][0]
    assert "image/svg+xml" in picture["data"]
    # A slow kernel sends what is printed in several pieces.
    printed = [(output["name"], "".join(output["text"])) for output in outputs["replay"]]
    assert {name for name, _ in printed} == {"stdout"}
    assert "".join(text for _, text in printed) == "done after 3 attempts, as before\n"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )

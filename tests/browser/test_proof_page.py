"""A policy is proved in the browser, by the `verify` that runs everywhere, from the site alone."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zipfile import ZipFile

import orjson
import pydantic_core
import pytest

import rungwise
from docs.tools.machine import site
from support.missing import missing
from support.waiting import patience

ROOT: Final = Path(__file__).parents[2]
SECTION: Final = re.compile(r"^<(iframe|div|script).*?</\1>$", re.MULTILINE | re.DOTALL)
POLICY: Final = "[limits]\nretries = 1\n"


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, and log nothing."""

    def log_message(self, *_: Any) -> None:
        pass


def write_page(folder: Path) -> None:
    """Write what the page of the machine has in HTML, as it stands in the site."""
    how = (ROOT / "docs/pages/how-it-works.md").read_text(encoding="utf-8")
    css = (ROOT / "docs/pages/wide.css").read_text(encoding="utf-8")
    body = "\n".join([found[0] for found in SECTION.finditer(how)])
    head = (
        '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    )
    dark = '<meta name="color-scheme" content="light dark">'
    (folder / "how-it-works").mkdir()
    (folder / "favicon.ico").touch()  # which every browser asks for
    page = f"{head}{dark}<title>How</title><style>{css}</style><body>{body}"
    (folder / "how-it-works/index.html").write_text(page, encoding="utf-8")


def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield the address of the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/how-it-works/"
        server.shutdown()


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the machine as `.ci/docs` writes it, with Pyodide."""
    folder = tmp_path_factory.mktemp("site")
    site.write_machine(folder / "machine")
    why = json.loads((folder / "machine/size.json").read_bytes())["missing"]
    if why is not None:
        missing(why)
    write_page(folder)
    yield from served(folder)


@pytest.fixture
def bare_site(tmp_path: Path) -> Iterator[str]:
    """Serve the machine as it is where npm is missing."""
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "index.html").write_text("<title>machine</title>", encoding="utf-8")
    shutil.copy(site.HERE / "prove.js", folder)
    size = {"bytes": 0, "missing": "npm was not there when the site was built"}
    (folder / "size.json").write_text(json.dumps(size), encoding="utf-8")
    write_page(tmp_path)
    yield from served(tmp_path)


def shim(name: str) -> ModuleType:
    """Load what stands in for a compiled library."""
    spec = spec_from_file_location(f"shim_{name}", site.HERE / f"shims/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("value", [{"a": [1, 2.5, "ü", None, True]}, [], {"b": {}, "a": ()}, 1e-7])
@pytest.mark.parametrize("option", [0, "OPT_INDENT_2", "OPT_SORT_KEYS"])
def test_json_is_written_as_orjson_writes_it(value: Any, option: str | int) -> None:
    own = shim("orjson")
    flags = getattr(own, option) if option else 0
    real = orjson.dumps(value, option=getattr(orjson, str(option)) if option else 0)
    assert own.loads(own.dumps(value, option=flags)) == orjson.loads(real)
    if value != 1e-7:
        assert own.dumps(value, option=flags) == real


@pytest.mark.parametrize(
    "text", ['{"some": "json', "[1, [2, {", '"a', '{"a": "b"', "no JSON", '{"']
)
def test_the_beginning_of_json_is_told_from_words(text: str) -> None:
    def is_begun(library: Any) -> bool:
        try:
            library.from_json(text.encode(), allow_partial="trailing-strings")
        except ValueError:
            return False
        return True

    if text != '{"':  # which only a reader that knows the grammar completes
        assert is_begun(shim("pydantic_core")) == is_begun(pydantic_core)


@pytest.mark.full
def test_the_bundle_proves_without_a_compiled_library(tmp_path: Path) -> None:
    site.write_bundle(tmp_path / "rungwise.zip")
    assert (tmp_path / "rungwise.zip").stat().st_size < 3_000_000
    with ZipFile(tmp_path / "rungwise.zip") as bundle:
        bundle.extractall(tmp_path / "core")
    program = """
import json, sys
sys.path.insert(0, sys.argv[1])
from proving import proved
print(json.dumps(dict(proved(sys.argv[2], 2))))
"""
    command = [sys.executable, "-I", "-S", "-c", program, str(tmp_path / "core"), POLICY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = json.loads(done.stdout)
    policy = rungwise.Policy.from_toml(POLICY)
    assert (parts["certificate"] == rungwise.verify(policy, 2).to_text()) is True
    assert (parts["diagram"] == rungwise.draw_policy(policy, "svg")) is True
    assert "problem" not in parts


@pytest.mark.full
def test_a_policy_is_proved_as_it_is_typed(tab: Any, whole_site: str) -> None:
    limit = 1000 * patience(240)
    page = tab.open_url(whole_site, width=390, height=800)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("#prove-policy")
    assert re.search(r"\(loads \d+\.\d MB", page.inner_text("#prove-start"))
    page.focus("#prove-policy")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(POLICY)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "prove-start"
    page.keyboard.press("Enter")
    over = "document.getElementById('prove-says').textContent.endsWith('plays it now.')"
    page.wait_for_function(over, timeout=limit)
    policy = rungwise.Policy.from_toml(POLICY)
    certificate = page.evaluate("document.getElementById('prove-certificate').textContent")
    assert certificate == rungwise.verify(policy, 2).to_text()
    machine = page.query_selector("#machine").content_frame()
    machine.wait_for_function("typeof page !== 'undefined'")
    assert machine.evaluate("machine.limits.retries") == 1
    assert page.evaluate("document.getElementById('prove-diff').srcdoc").startswith("<!doctype")
    assert page.evaluate("document.getElementById('prove-diagram').complete")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    page.focus("#prove-policy")
    page.keyboard.press("Control+End")
    page.keyboard.type("x")
    says = "document.getElementById('prove-says').textContent"
    page.wait_for_function(f"{says}.startsWith('policy.toml')", timeout=limit)
    page.keyboard.press("Backspace")
    page.keyboard.type("reasks = 0\n")
    page.wait_for_function(over, timeout=limit)
    shown = page.evaluate("document.getElementById('prove-certificate').textContent")
    policy = rungwise.Policy.from_toml(f"{POLICY}reasks = 0\n")
    assert shown == rungwise.verify(policy, 2).to_text()
    host = whole_site.removesuffix("/how-it-works/")
    assert [url for url in tab.requests if not url.startswith((host, "data:", "blob:"))] == []
    assert tab.problems == []


@pytest.mark.full
def test_a_site_without_pyodide_says_so(tab: Any, bare_site: str) -> None:
    page = tab.open_url(bare_site, width=390, height=800)
    page.wait_for_function("document.getElementById('prove').textContent !== ''")
    words = page.inner_text("#prove")
    assert words.startswith("This copy of the site cannot prove a policy in the browser, for npm")
    assert "rungwise verify policy.toml" in words
    assert not [problem for problem in tab.problems if "favicon" not in problem]

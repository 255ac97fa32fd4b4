"""The benchmark of the transport and the proxy runs, and every call comes to what it should.
Nothing is timed here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.environments import OTHERS, requirements
from support.waiting import patience

COMMAND = Path(__file__).with_name("gateway.py")


def test_every_environment_has_its_requirements() -> None:
    assert all(requirements(name) for name in ("gateway", *OTHERS))


@pytest.mark.full
def test_the_command_calls_over_the_transport_and_through_the_proxy(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    asked = [sys.executable, str(COMMAND), "--here", "--quick", "--json", str(file)]
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert file.exists(), done.stderr
    proxied = json.loads(file.read_text(encoding="utf-8"))["proxies"]
    assert [*proxied] == ["the server itself", "rungwise proxy", "with two workers"]
    for rounds in proxied.values():
        for each in rounds:
            assert each["paced"]["failed"] == 0
            assert each["paced"]["calls"] == 300
            for way, connections in (("one", 1), ("many", 16), ("crowd", 64)):
                assert each[way]["failed"] == 0, each[way]["why"]
                # which are kept
                assert each[way]["calls"] >= each[way]["connections"] == connections
    assert done.stdout.count("held") + done.stdout.count("MISSED") == 4
    assert done.returncode == int("MISSED" in done.stdout), done.stderr

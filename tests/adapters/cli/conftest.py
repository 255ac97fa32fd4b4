"""What the tests of the command line share."""

import pytest


@pytest.fixture(autouse=True)
def _a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give AWS's tools a region, and nobody on the network to ask for credentials."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

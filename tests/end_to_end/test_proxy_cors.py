"""Web pages of other origins: which may ask the proxy, and what a browser is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.adapters.gateway.serving.cors import Cors
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import Secret
from rungwise.testing import ScriptedReply
from support import sdks
from support.command_line import invoke
from support.gateways import PATHS, client_over, written
from support.proxied import served
from support.runs import Stages

PAGE = "https://app.example"
ALLOWS = "access-control-allow-origin"

pytestmark = pytest.mark.sampled(1)


@pytest.fixture
def proxied(stages: Stages) -> Any:
    @contextmanager
    def proxied(*origins: str, key: Secret | None = None) -> Iterator[str]:
        stages[0].play([ScriptedReply("In the reeds.")])
        cors = Cors(origins) if origins else None
        with (
            client_over(["openai"], stages[:1]) as client,
            served(Proxy(Gateway(client), key=key, cors=cors)) as url,
        ):
            yield url

    return proxied


def asks_first(url: str, origin: str) -> httpx.Response:
    """Send what a browser sends before the request of a page."""
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    return httpx.options(url + PATHS["openai"], headers=headers)


def post(url: str, origin: str, **headers: str) -> httpx.Response:
    given = {"origin": origin, "sec-fetch-site": "cross-site", **headers}
    return httpx.post(url + PATHS["openai"], json=written("openai"), headers=given)


def test_a_page_that_is_named_may_ask(proxied: Any, stages: Stages) -> None:
    key = {"authorization": f"Bearer {sdks.KEY}"}
    with proxied(PAGE, "http://localhost:3000", key=Secret(sdks.KEY)) as url:
        first = asks_first(url, PAGE)
        assert (first.status_code, first.headers[ALLOWS]) == (204, PAGE)
        assert first.headers["access-control-allow-headers"] == "authorization,content-type"
        assert "POST" in first.headers["access-control-allow-methods"]
        for response in (post(url, PAGE, **key), post(url, PAGE)):
            assert response.headers[ALLOWS] == PAGE
            assert response.headers["vary"] == "Origin"
            assert "x-rungwise-journal" in response.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in response.headers
        assert post(url, PAGE).status_code == 401
        other = "https://elsewhere.example"
        assert asks_first(url, other).status_code == 403
        assert ALLOWS not in post(url, other, **key).headers
        assert ALLOWS not in asks_first(url, f"{PAGE}.elsewhere.example").headers
    assert len(stages[0].requests) == 2


def test_every_page_may_ask_where_the_star_is_given(proxied: Any) -> None:
    with proxied("*", key=Secret(sdks.KEY)) as url:
        for response in (asks_first(url, PAGE), post(url, PAGE)):
            assert response.headers[ALLOWS] == "*"
            assert "access-control-allow-credentials" not in response.headers


def test_without_a_key_only_pages_that_are_named_get_in(proxied: Any, stages: Stages) -> None:
    with proxied(PAGE, "*") as url:
        assert post(url, PAGE).status_code == 200
        assert post(url, "https://elsewhere.example").status_code == 403
        assert post(url, PAGE, **{"content-type": "text/plain"}).status_code == 415
        assert post(url, PAGE, host="rebound.example").status_code == 421
        assert httpx.post(url + PATHS["openai"], json=written("openai")).status_code == 200
    assert len(stages[0].requests) == 2


def test_it_is_off_unless_it_is_asked_for(proxied: Any) -> None:
    with proxied(key=Secret(sdks.KEY)) as url:
        first = asks_first(url, PAGE)
        assert (first.status_code, ALLOWS in first.headers) == (401, False)
        assert ALLOWS not in post(url, PAGE, authorization=f"Bearer {sdks.KEY}").headers


@pytest.mark.parametrize(
    "origin", ["", "app.example", "https://app.example/", "https://App.example", "null", "a b"]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigurationError, match=r"an origin is a scheme, a host"):
        Cors([origin])


def test_the_star_needs_a_key(tmp_path: Any) -> None:
    file = tmp_path / "chains.toml"
    file.write_text('[[chain.a]]\napi = "ollama"\nmodel = "m"\n')
    result = invoke("proxy", file, "--port", 0, "--cors", "*")
    assert (result.exit_code, "give the proxy a key" in result.output) == (2, True)
    result = invoke("proxy", file, "--port", 0, "--cors", "app.example")
    assert (result.exit_code, "an origin is a scheme" in result.output) == (2, True)

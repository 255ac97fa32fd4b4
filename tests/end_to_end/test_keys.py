"""Which key a backend sends, and where."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rungwise import Anthropic, Client, ConfigurationError, OpenAIChat, OpenAIResponses
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.testing import ScriptedReply

KEY = "key-of-the-environment-9d2f"
TEXT = "In the reeds."


@pytest.fixture
def anywhere(serve: Any) -> Iterator[tuple[Any, httpx.Client]]:
    """Send what goes to any host to one server on this machine."""
    provider = serve(ScriptedReply(text=TEXT))
    here = httpx.URL(provider.base_url)

    class Here(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            request.url = request.url.copy_with(scheme="http", host=here.host, port=here.port)
            return super().handle_request(request)

    with httpx.Client(transport=Here()) as http:
        yield provider, http


BEDROCK = "AWS_BEARER_TOKEN_BEDROCK"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "url", "variable"),
    [
        (OpenAIChat, "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
        (OpenAIChat, "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", BEDROCK),
        (OpenAIChat, "https://bedrock-mantle.us-east-1.api.aws/v1", BEDROCK),
        (OpenAIResponses, "https://bedrock-mantle.us-east-1.api.aws/v1", BEDROCK),
        (Anthropic, "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1", BEDROCK),
    ],
)
def test_a_key_of_the_environment_is_sent_to_its_host(
    monkeypatch: pytest.MonkeyPatch, anywhere: Any, kind: type[HttpBackend], url: str, variable: str
) -> None:
    provider, http = anywhere
    monkeypatch.setenv(variable, KEY)
    with Client(kind("m", base_url=url), http=http) as client:
        assert client.call("Where do herons nest?").text == TEXT
    (request,) = provider.requests
    header = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
    assert header == KEY


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://bedrock-runtime-evil.s3.amazonaws.com/openai/v1", BEDROCK),
        ("https://bedrock-runtime-evil.us-east-1.elb.amazonaws.com/openai/v1", BEDROCK),
        ("https://api.perplexity.ai.example.org", "PERPLEXITY_API_KEY"),
        ("https://api.minimaxi.io/v1", "MINIMAX_API_KEY"),
    ],
)
def test_nothing_is_sent_to_a_host_that_looks_like_it(
    monkeypatch: pytest.MonkeyPatch, anywhere: Any, url: str, variable: str
) -> None:
    provider, http = anywhere
    monkeypatch.setenv(variable, KEY)
    with pytest.raises(ConfigurationError, match="api_key is missing"):
        Client(OpenAIChat("m", base_url=url))
    elsewhere = OpenAIChat("n", base_url=provider.base_url)
    with Client([OpenAIChat("m", base_url=url), elsewhere], http=http) as client:
        assert client.call("Where do herons nest?").text == TEXT  # passed over: a backend without a key is unusable
    (request,) = provider.requests
    assert (request.body["model"], KEY in str(request.headers)) == ("n", False)

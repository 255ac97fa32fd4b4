"""What came in the place of a reply is told: its type, and that it is no JSON; nothing of what it
says.
"""

from typing import Any

import pytest

from rungwise import Client, Failed, Journal, Limits, Policy, replay
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import ask

PAGE = "<html><body>sk-secret: please sign in</body></html>"
POLICY = Policy(limits=Limits(retries=0))
FOUND = [
    (PAGE, "text/html; charset=utf-8", "text/html and no JSON"),
    ("sk-secret", "application/json", "called application/json and no JSON"),
    ("sk-secret", "sk-secret", "no JSON"),
    ('["sk-secret"]', "application/json", "JSON of another shape"),
]


@pytest.mark.parametrize(("body", "content_type", "found"), FOUND)
def test_what_came_is_told_and_nothing_of_what_it_says(
    api: str,
    mode: str,
    body: str,
    content_type: str,
    found: str,
    serve: Any,
) -> None:
    provider = serve(ScriptedReply(body=body, headers={"content-type": content_type}))
    backend = protocols.backend(api, provider.base_url)
    with Client(backend, policy=POLICY) as client, pytest.raises(Failed) as caught:
        ask(client, mode)
    result = caught.value.result
    assert result.cause == f"the reply had no usable shape: it was {found}"
    said = f"it was {found} (primary: malformed, HTTP 200)"
    assert str(caught.value).endswith(said)
    text = result.journal.to_json()
    assert [(step.event, step.note) for step in result.journal.steps][-1] == ("malformed", found)
    assert "sk-secret" not in text + str(caught.value)
    assert replay(Journal.from_json(text)).outcome == "failed"


def test_an_empty_body_is_called_one(serve: Any) -> None:
    provider = serve(ScriptedReply(body="", headers={"content-type": "application/json"}))
    client = Client(
        protocols.backend("openai", provider.base_url), policy=POLICY, stream_calls=False
    )
    with client, pytest.raises(Failed, match="it was empty"):
        client.call("Where?")


def test_each_backend_of_a_chain_says_what_came_from_it(serve: Any) -> None:
    first = serve(ScriptedReply(body=PAGE, headers={"content-type": "text/html"}))
    second = serve(ScriptedReply(body="{}", headers={"content-type": "application/json"}))
    chain = [
        protocols.backend("gemini", first.base_url),
        protocols.backend("anthropic", second.base_url, name="second"),
    ]
    with Client(chain, policy=POLICY) as client, pytest.raises(Failed) as caught:
        client.call("Where?")
    assert str(caught.value).endswith(
        "it was JSON of another shape "
        "(primary: malformed, HTTP 200, text/html and no JSON; second: malformed, HTTP 200)"
    )


@pytest.mark.parametrize("text", ['{"nests": 2,}', "Two nests.", '{"nests": 2} {"nests": 2}'])
def test_an_answer_that_never_parses_is_called_so(mode: str, text: str, serve: Any) -> None:
    provider = serve(*[ScriptedReply(text)] * 2)
    with Client(protocols.backend("openai", provider.base_url)) as client:
        result = ask(client, mode, response_format={"type": "json_object"})
    assert (result.outcome, result.text) == ("partial", text)
    assert result.cause == "the answer was wrong: the answer is not JSON"
    assert [request.body["response_format"] for request in provider.requests] == [
        {"type": "json_object"}
    ] * 2
    journal = Journal.from_json(result.journal.to_json())
    assert "nests" not in result.journal.to_json()
    assert replay(journal).journal.steps == result.journal.steps

"""What a plain message holds of types that JSON does not have is refused before anything is sent,
in every form.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from rungwise import Client, ConfigurationError
from rungwise.testing import ScriptedReply
from support import protocols
from support.plain import assistant, user

ASKED: dict[str, Any] = user("Where?")
VALUES: list[Any] = [Decimal("1.5"), b"Secret.", Fraction(1, 3), 1j, {"Secret."}, {5: "Secret."}]
FORMS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "['content'][0]['input']['a']": lambda value: [
        assistant(
            [
                {
                    "type": "tool_use",
                    "id": "a",
                    "name": "f",
                    "input": {"a": value, "keep": "K"},
                }
            ]
        ),
        user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": "R",
                }
            ]
        ),
    ],
    "['parts'][0]['functionResponse']['response']['a']": lambda value: [
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "f", "response": {"a": value, "keep": "K"}}}],
        }
    ],
    "['content'][0]['toolUse']['input']['a']": lambda value: [
        assistant(
            [
                {
                    "toolUse": {
                        "toolUseId": "a",
                        "name": "f",
                        "input": {"a": value},
                    }
                }
            ]
        )
    ],
    "['tool_calls'][0]['function']['arguments']['a']": lambda value: [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": value}}}],
        }
    ],
}


class Measure(float):
    """A float of another library's own kind."""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("place", FORMS)
def test_it_is_refused_by_its_place_and_nothing_is_sent(
    api: str,
    place: str,
    value: Any,
    serve: Any,
) -> None:
    provider = serve(ScriptedReply("A heron."))
    with (
        Client(protocols.backend(api, provider.base_url)) as client,
        pytest.raises(ConfigurationError) as caught,
    ):
        client.call([ASKED, *FORMS[place](value)])
    assert str(caught.value).startswith(f"messages[1]{place} has no form in JSON: ")
    assert "Secret" not in str(caught.value)
    assert "1.5" not in str(caught.value)
    assert not provider.requests


@pytest.mark.parametrize("place", FORMS)
def test_what_json_has_a_form_for_is_sent_in_every_form(api: str, place: str, serve: Any) -> None:
    provider = serve(ScriptedReply("A heron."))
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    with Client(protocols.backend(api, provider.base_url)) as client:
        client.call([ASKED, *FORMS[place]({"b": (Measure(2.5), moment, "x")})])
    body = str(provider.requests[0].body)
    assert "2.5" in body
    assert "2026-11-01" in body
    assert "'null'" not in body

"""The lines of a batch: read one by one, and each fault is of its own line."""

import json
from pathlib import Path
from typing import Any

import pytest

from rungwise.adapters.durable import batch
from rungwise.adapters.durable.batch import read_lines


def read(folder: Path, *texts: str | bytes) -> list[Any]:
    file = folder / "prompts.jsonl"
    lines = [text if isinstance(text, bytes) else text.encode() for text in texts]
    file.write_bytes(b"\n".join(lines))
    return list(read_lines(file))


def test_prompts_messages_and_options_are_those_of_a_call(tmp_path: Path) -> None:
    message = {"role": "user", "content": "Where?"}
    plain = [
        {"prompt": "Where?"},
        {
            "id": "a",
            "messages": [message],
            "max_tokens": 9,
            "temperature": 0.5,
        },
        {"id": 7, "system": "Be brief.", "prompt": "Where?"},
    ]
    first, second, third = read(tmp_path, *map(json.dumps, plain), "", "  ")
    assert [each.id for each in (first, second, third)] == ["1", "a", "7"]
    assert first.request.messages == second.request.messages == (message,)
    assert second.request.max_tokens == 9
    assert second.request.parameters["temperature"] == 0.5
    assert [each["role"] for each in third.request.messages] == ["system", "user"]


NONSENSE = {
    "no JSON": ("{", "it is not JSON"),
    "no object": ("[1]", "must be a JSON object"),
    "neither": ("{}", "either a prompt or messages"),
    "both": ('{"prompt": "a", "messages": []}', "either a prompt or messages"),
    "no prompt": ('{"prompt": " "}', "prompt must be a text"),
    "no messages": ('{"messages": "a"}', "messages must be a list"),
    "no role": ('{"messages": [{"content": "a"}]}', "role"),
    "an unknown member": ('{"promt": "a"}', "did you mean 'prompt'"),
    "a wrong option": ('{"prompt": "a", "temperature": "hot"}', "temperature must be"),
    "a wrong id": ('{"prompt": "a", "id": true}', "id must be"),
    "a long id": (json.dumps({"prompt": "a", "id": "x" * 101}), "id must be"),
    "no text": (b"\xff\xfe", "it is not JSON"),
    "too deep": ("[" * 100_000, "it is not JSON"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_cannot_be_read_is_a_fault_of_its_line(name: str, tmp_path: Path) -> None:
    text, says = NONSENSE[name]
    before, wrong, after = read(tmp_path, '{"prompt": "a"}', text, '{"prompt": "b"}')
    assert says in wrong.fault
    assert wrong.number == 2
    assert wrong.request is None
    assert before.fault == ""
    assert after.fault == ""


def test_a_line_that_is_too_long_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LONGEST", 1_000)
    texts = ['{"prompt": "a"}', json.dumps({"prompt": "x" * 5_000}), '{"prompt": "b"}']
    before, long, after = read(tmp_path, *texts)
    assert "longer than" in long.fault
    assert before.id == "1"
    assert after.id == "3"
    assert after.request is not None

"""What a wire declares is all that the shared code knows of its form."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rungwise.adapters.wires import losses, registry
from rungwise.adapters.wires.plain import messages
from rungwise.adapters.wires.registry import APIS, WIRES, Wire, declared
from rungwise.fsm.replies.parts import Message, OpaquePart, TextPart

ROOM: Final = Path(registry.__file__).parent
SHARED: Final = [
    ROOM / name
    for name in ("form.py", "losses.py", "pairing.py", "plain/messages.py", "portability.py")
]
CACHES: Final = (messages._readers, declared, losses._read)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Add a protocol of its own to those that are known."""
    parts: dict[str, Any] = {
        "toy_said": lambda part: TextPart(str(part["words"])),
        "toy_mute": lambda part: None,
    }
    wire = Wire(
        protocol="a toy",
        client="toy.Client({!r})",
        client_path="/talk",
        members={"toy_said": "type words"},
        parts=parts,
        untyped_parts={"toyNote": lambda inner: (TextPart("note:"), TextPart(inner["words"]))},
        messages={"toy_turn": lambda message: (Message.saying("user", message["toy_turn"]),)},
        marks="toyMark",
    )
    for module in (messages, losses, registry):
        monkeypatch.setattr(module, "WIRES", {**WIRES, "toy": wire})
    for each in CACHES:
        each.cache_clear()
    yield wire
    for each in CACHES:
        each.cache_clear()


def test_messages_are_read_as_a_wire_declares(toy: Wire) -> None:
    mute: Mapping[str, Any] = {"type": "toy_mute"}
    parts = [
        {"type": "toy_said", "words": "a"},
        {"toyNote": {"words": "b"}},
        {"toyNote": "bare"},
        mute,
    ]
    (message,) = messages.read_messages([{"role": "user", "content": parts}])
    texts = message.parts[:3]
    opaque = message.parts[3:]
    assert texts == (TextPart("a"), TextPart("note:"), TextPart("b"))
    assert opaque == (OpaquePart("", {"toyNote": "bare"}), OpaquePart("", mute))
    assert messages.read_message({"role": "toy", "toy_turn": "c"}) == (Message.saying("user", "c"),)


def test_what_no_wire_reads_is_reported_as_a_wire_declares(toy: Wire) -> None:
    part = {"type": "toy_said", "words": "a", "colour": "red"}
    assert [*losses.unread_of_message({"role": "user", "content": [part]})] == ["colour"]
    assert losses._is_mark({"toyMark": {}})


def test_the_shared_code_names_no_protocol_and_nothing_that_only_one_has() -> None:
    names = {api for api in APIS if api != "responses"} | {"converse", "openai"}
    for wire in WIRES.values():
        names |= {*wire.parts, *wire.untyped_parts, *wire.messages, *wire.members}
        names |= {
            name
            for each in ("calls", "results", "definitions", "marks", "references")
            for name in getattr(wire, each).split()
        }
    telling = [name for name in names if name in APIS or re.search(r"[A-Z_]", name)]
    assert len(telling) > 25
    for path in SHARED:
        source = path.read_text(encoding="utf-8")
        assert [name for name in telling if re.search(rf"[\"']{name}[\"']", source)] == [], (
            path.name
        )
        assert not re.search(r"anthropic|bedrock|gemini|ollama", source, re.IGNORECASE), path.name

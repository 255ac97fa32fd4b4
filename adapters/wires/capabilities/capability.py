"""What is known about a model on a server.

The classes are here, the rows in `table.py` and in the declarations of the wires. Unknown is a
value of its own: what is not known to work is not relied upon, and what is not known to fail is not
reported.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve, field, fields, frozen

from rungwise.fsm.call.conversation.request import MOST_TOKENS
from rungwise.fsm.values.checks import (
    explains_names,
    is_flag,
    is_number,
    is_text,
    is_whole,
    must,
    or_none,
)
from rungwise.fsm.values.patterns import Pattern

ANY: Final[Any] = ""
DECISIONS: Final = ("openai", "gemini", "systemone", "sglang")
"""The shapes of endpoints for decisions."""


def is_shape(value: object) -> bool:
    """Tell whether a value is the name of a shape, or None."""
    return value is None or value in DECISIONS


_FLAG: Final = must("True, False or None", or_none(is_flag), names_class=True)
_TOKENS: Final = must(
    "a whole number of tokens above 0, or None",
    or_none(lambda value: is_whole(value, 1, MOST_TOKENS)),
    names_class=True,
)
_SECONDS: Final = must(
    "a number of seconds above 0, or None",
    or_none(lambda value: is_number(value, 0) and value > 0),
    names_class=True,
)


@explains_names({})
@frozen(kw_only=True)
class Capabilities:
    """Describe what a model can do on a server; None means unknown.

    Arguments:
        prefill: whether it continues a trailing assistant turn; unknown counts as no.
        tools: whether it calls tools.
        images: whether it sees pictures.
        documents: whether it reads documents such as PDFs.
        json_schema: whether it can be held to a JSON schema.
        reasoning: whether the effort of its reasoning can be set.
        caches: whether it accepts cache marks; only Bedrock needs to know.
        system_turns: whether it takes system messages between the turns; only Messages need to
            know.
        hides_cuts: whether it calls a reply whole that its output cap has cut. A reply that fills
            its cap and ends amid a sentence is then continued, once a call; if nothing is added, it
            was whole.
        window: tokens of the prompt and the answer together.
        largest_output: tokens of an answer, at most.
        first_token: seconds from the head of a response to the first content, for a model that
            thinks silently. A policy that sets its own `first_token`, as
            `rungwise.Policy.interactive` does, wins.
        decisions: the shape of its endpoint for decisions: "openai" (also vLLM), "gemini",
            "systemone" or "sglang". `rungwise.Client.decide` asks there.
        inferred_from: the model whose row stands in for what no table says of this one, which is
            newer.

    Raises:
        ConfigurationError: a field is malformed.
    """

    prefill: bool | None = field(default=None, validator=_FLAG)
    tools: bool | None = field(default=None, validator=_FLAG)
    images: bool | None = field(default=None, validator=_FLAG)
    documents: bool | None = field(default=None, validator=_FLAG)
    json_schema: bool | None = field(default=None, validator=_FLAG)
    reasoning: bool | None = field(default=None, validator=_FLAG)
    caches: bool | None = field(default=None, validator=_FLAG)
    system_turns: bool | None = field(default=None, validator=_FLAG)
    hides_cuts: bool | None = field(default=None, validator=_FLAG)
    window: int | None = field(default=None, validator=_TOKENS)
    largest_output: int | None = field(default=None, validator=_TOKENS)
    first_token: float | None = field(default=None, validator=_SECONDS)
    decisions: str | None = field(
        default=None,
        validator=must(f"one of {', '.join(DECISIONS)}, or None", is_shape, names_class=True),
    )
    inferred_from: str | None = field(
        default=None, validator=must("a model, or None", or_none(is_text), names_class=True)
    )

    def or_else(self, other: Capabilities) -> Capabilities:
        """Return these capabilities; the others fill in what is unknown."""
        own: dict[str, Any] = {}
        for each in fields(Capabilities):
            value = getattr(self, each.name)
            if value is not None:
                own[each.name] = value
        return evolve(other, **own)


def pattern(text: str) -> Pattern:
    """Return a pattern to search in the ids of models, in lower case.

    A `~` stands for a dash or a dot: vendors and gateways write versions either way.
    """
    return Pattern(text.replace("~", "[-.]"))


@frozen
class Family:
    """Say from which of its rows the newer models of a family inherit."""

    # What precedes the name where something does, in words: the vendor and its gateways. Another
    # vendor's model of the name is another model.
    vendors: str
    model: str  # the name, with the numbers of the version as its groups
    newest: str  # the newest model that rows describe
    name: Pattern = field(init=False)
    above: tuple[int, ...] = field(init=False)  # the version of that model

    def __attrs_post_init__(self) -> None:
        before = self.vendors.replace(" ", "|")
        name = pattern(rf"(?:^|\b(?:{before}|models)[/.]){self.model}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "above", self._version_of(self.newest))

    def has_newer(self, model: str) -> bool:
        """Tell whether a model is newer than the newest that rows describe, and of its kind."""
        return not OTHER_KINDS.search(model) and self._version_of(model) > self.above

    def _version_of(self, model: str) -> tuple[int, ...]:
        match = self.name.search(model)
        return tuple(int(number or 0) for number in match.groups()) if match else ()


OTHER_KINDS: Final = Pattern(
    r"^ft:|embed|tts|speech|image|audio|realtime|live|transcri|translat|moderat|search|research"
    r"|video|omni|chat|distill|gguf|computer|robot|decision"
)
"""What stands in the names of models that are made for something else, or of somebody's own."""


@frozen(kw_only=True)
class CapabilityRow:
    """Hold what is known of some models on some hosts."""

    # a regular expression to search in the host of the URL
    host: Pattern = field(default=ANY, converter=pattern)
    model: Pattern = field(default=ANY, converter=pattern)
    known: Capabilities  # what they can do

    def fits(self, host: str, model: str) -> bool:
        """Tell whether a backend is one of these."""
        return bool(self.host.search(host) and self.model.search(model))

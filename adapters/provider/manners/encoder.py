"""Say a reply in any protocol and in some manners: the renderer's events, changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from attrs import evolve, frozen

from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion, Language
from rungwise.adapters.provider.fields import as_tuple
from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.manners.events import FRAMINGS
from rungwise.adapters.provider.manners.manner import Manner
from rungwise.adapters.provider.manners.speech import Speech
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import did_you_mean, short


def names_of(value: Any) -> Any:
    """Return manners as a tuple of names: one name, or a list of them."""
    return (value,) if isinstance(value, str) else as_tuple(value)


def check_manners(instance: object, attribute: Any, value: Any) -> None:
    """Refuse manners that do not exist, or that move the same thing."""
    if not isinstance(value, tuple):
        raise ConfigurationError(f"{attribute.name} must be a name or a list, not {short(value)}")
    for name in value:
        if name not in MANNERS:
            hint = did_you_mean(name, MANNERS, f"it must be one of {', '.join(MANNERS)}")
            raise ConfigurationError(f"{attribute.name}: {short(name)} is unknown; {hint}")
    for one, other in combinations(value, 2):
        moved = MANNERS[one].moves
        if moved == MANNERS[other].moves:
            both = f"{one} and {other} both move the {moved}"
            raise ConfigurationError(f"{attribute.name}: {both}; give one of them")


@frozen
class Said:
    """Hold a reply as it is sent.

    Arguments:
        media: the media type.
        frames: the body, event by event.
        headers: the headers that its manners add.
    """

    media: str
    frames: list[bytes]
    headers: dict[str, str]


@frozen
class Encoder:
    """Say a reply in some manners. Of a reply in one piece, those that only streams have are left
    out.

    Arguments:
        speech: the reply.
        manners: those that count, in the order in which they are applied.
    """

    speech: Speech
    manners: Sequence[Manner]

    @classmethod
    def of(
        cls,
        answer: Completion,
        request: AnswerRequest,
        language: Language,
        names: Sequence[str],
    ) -> Encoder:
        """Prepare to say a reply.

        Arguments:
            answer: the reply.
            request: what it answers.
            language: the renderer of its protocol.
            names: the manners.

        Raises:
            ConfigurationError: the protocol does not have one of them.
        """
        api = language.api
        existing = [manner for manner in MANNERS.values() if api in manner.streamed + manner.whole]
        wanted = [manner for manner in existing if manner.name in names]
        missing = set(names).difference(manner.name for manner in wanted)
        if missing:
            listed = ", ".join(manner.name for manner in existing)
            raise ConfigurationError(f"{api} has no manner {min(missing)}; it has {listed}")
        streams = request.streams
        if any(manner.swaps and manner.is_in(api, streams=streams) for manner in wanted):
            streams = not streams
            # A stream in place of a whole reply counts its tokens, as that one would.
            body = {**request.body, "stream_options": {"include_usage": True}}
            request = evolve(request, streams=streams, body=body)
        counting = [manner for manner in wanted if manner.is_in(api, streams=streams)]
        for manner in counting:
            if manner.answer:
                answer = manner.answer(answer)
        return cls(Speech(answer, request, language), counting)

    def say(self) -> Said:
        """Return the reply as it is sent."""
        answer = self.speech.answer
        request = self.speech.request
        language = self.speech.language
        if request.streams:
            media = language.stream_type
            frames = list(language.events(answer, request))
        else:
            media = "application/json"
            frames = [language.whole(answer, request)]
        changes = [manner.events for manner in self.manners if manner.events]
        if changes:
            opened, closed = FRAMINGS[media]
            events = [opened(frame) for frame in frames]
            for change in changes:
                events = change(events, self.speech)
            frames = [closed(event) for event in events]
        headers: dict[str, str] = {}
        for manner in self.manners:
            if manner.frames:
                frames = manner.frames(frames)
            media = manner.media or media
            headers |= manner.headers
        return Said(media, frames, headers)

    def lost(self) -> list[str]:
        """Return why the reply cannot be read from what is said; nothing if it can."""
        reasons = [manner.loses(self.speech) for manner in self.manners if manner.loses]
        return [reason for reason in reasons if reason]

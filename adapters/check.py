"""What each backend of a chain would lose of a request, without sending it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.chain.for_backend import losses_of, parameters_for
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.replies.parts import MediaPart, Message, ToolResult
from rungwise.fsm.values.label import label

SMALLEST_WINDOW: Final = 4_096
"""Tokens that fit every window of today."""


@frozen
class BackendCheck:
    """What one backend would lose of a request.

    Arguments:
        name: the name of the backend, with its protocol or position if others of the chain have the
            same name.
        problem: why it cannot be used at all, such as a missing key; None if it can.
        losses: the parts of the request that it does not get, does not understand, or has no room
            for.
        unknowns: questions that the capability table cannot answer.
        inferred_from: the older model from whose row the answers are taken, if they are.
    """

    name: str
    problem: str | None = None
    losses: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()
    inferred_from: str | None = None

    @property
    def is_clean(self) -> bool:
        """Tell whether no loss is known."""
        return self.problem is None and not self.losses

    def __str__(self) -> str:
        lines = [self.name]
        if self.problem is not None:
            lines.append(f"  cannot be used: {self.problem}")
        lines += [f"  loses: {loss}" for loss in self.losses]
        lines += [f"  unknown: {unknown}" for unknown in self.unknowns]
        if self.inferred_from is not None:
            lines.append(f"  inferred: what it can do, from {self.inferred_from}")
        if not self.losses and not self.unknowns:
            lines.append("  takes all of it")
        return "\n".join(lines)


@frozen
class Check:
    """What each backend of a chain would lose of a request.

    It is true if no loss is known. `str` gives a block of text for each backend.

    Arguments:
        backends: in the order of the chain.
    """

    backends: tuple[BackendCheck, ...]

    @property
    def is_clean(self) -> bool:
        """Tell whether no loss is known at any backend."""
        return all(backend.is_clean for backend in self.backends)

    def __bool__(self) -> bool:
        return self.is_clean

    def __str__(self) -> str:
        return "\n".join(map(str, self.backends))


def check_request(request: Request, chain: Sequence[Backend]) -> Check:
    """List what each backend of a chain would lose of a request. It sends nothing."""
    media = frozenset(_media_in(read_messages(request.messages)))
    checks = []
    for backend, name in zip(chain, distinct_names(chain), strict=True):
        if backend.stands_in:
            continue  # it is asked only where the one before it is not
        checks.append(evolve(_checked(request, chain[0], backend, media), name=name))
    return Check(tuple(checks))


def distinct_names(chain: Sequence[Backend]) -> list[str]:
    """Return distinct names of the backends: with the protocol and the names of the parameters or,
    if that is not enough, with the position.
    """
    plain = [backend.name for backend in chain]
    names = []
    for backend in chain:
        api = getattr(backend, "API", "")  # a backend of the user's own may have none
        name = backend.name
        if api and plain.count(name) > 1:
            name = f"{name} ({', '.join((api, *map(label, backend.parameters)))})"
        names.append(name)
    distinct = []
    for place, name in enumerate(names, start=1):
        distinct.append(f"{name}, backend {place}" if names.count(name) > 1 else name)
    return distinct


def with_stand_ins(chain: Sequence[Backend]) -> tuple[Backend, ...]:
    """Return the backends, each with what stands in for it behind it, and with distinct names;
    names that the caller gave stay.
    """
    every: list[Backend] = []
    for backend in chain:
        every.append(backend)
        if backend.stand_in is not None:
            every.append(backend.stand_in)
    backends = []
    for backend, name in zip(every, distinct_names(every), strict=True):
        if isinstance(backend, HttpBackend) and name != backend.name and not backend.is_named:
            backend = evolve(backend, name=name)
        backends.append(backend)
    return tuple(backends)


def _media_in(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the kind of each picture, document, ... in some messages and tool results."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, MediaPart):
                yield part.kind
            elif isinstance(part, ToolResult):
                yield from (media.kind for media in part.media)


@frozen
class _Question:
    """Whether a model can do what a request asks of it.

    Arguments:
        is_asked: whether the request asks it.
        parameter: what asks it; if that is lost already, nothing is left to ask.
        can: whether the model can; None where the capability table does not say.
        loss: what is lost if it cannot.
        whether: the question, behind "whether it".
    """

    is_asked: bool
    parameter: str
    can: bool | None
    loss: str
    whether: str


def _checked(
    request: Request, first: Backend, backend: Backend, media: frozenset[str]
) -> BackendCheck:
    """Return what one backend would lose of a request.

    Arguments:
        request: the request.
        first: the first backend of the chain, whose protocol the parameters are of.
        backend: the one that is checked.
        media: the kinds of media in the messages and tool results.
    """
    # a backend of the user's own may have neither
    model = getattr(backend, "capabilities", None) or Capabilities()
    parameters = {**getattr(backend, "parameters", {}), **parameters_for(request, first, backend)}
    losses = list(losses_of(request, first, backend))
    if isinstance(backend, HttpBackend):
        losses += backend.refused(request)
    unknowns = []
    lost = {loss.partition(":")[0] for loss in losses}
    for question in _questions(request, model, parameters, media):
        if not question.is_asked or question.parameter in lost:
            continue
        if question.can is False:
            losses.append(question.loss)
        elif question.can is None:
            unknowns.append(f"whether it {question.whether}")
    # no table says which models take these
    others = sorted(media & {"audio", "video"})
    if others:
        unknowns.append(f"whether it takes {' and '.join(others)}")
    cap = request.max_tokens or backend.max_tokens
    # what a reply taught outweighs the table
    largest = backend.lessons.largest_output or model.largest_output
    if cap is not None and largest is not None and cap > largest:
        losses.append(f"{cap} tokens of output, of which it writes {largest} at most")
    prompt = request.input_tokens
    if prompt is None:
        prompt = sum(map(estimate_tokens, (request.messages, request.tools, parameters)))
    output = cap or 0
    needed = prompt + output
    tokens = f"about {prompt} tokens of prompt and {output} of output"
    if model.window is None:
        if needed > SMALLEST_WINDOW:
            unknowns.append(f"whether {tokens} fit its window")
    elif needed > model.window:
        losses.append(f"{tokens}, in a window of {model.window}")
    return BackendCheck(
        backend.name, backend.problem, tuple(losses), tuple(unknowns), model.inferred_from
    )


def _questions(
    request: Request, model: Capabilities, parameters: Mapping[str, Any], media: frozenset[str]
) -> Iterator[_Question]:
    """Yield what the capability table may know of a model.

    Arguments:
        request, media: as for `_checked`.
        model: what the table knows.
        parameters: those of the request and of the backend.
    """
    yield _Question(
        is_asked=bool(request.tools or parameters.get("tools")),
        parameter="tools",
        can=model.tools,
        loss="tools, which it does not call",
        whether="calls tools",
    )
    yield _Question(
        is_asked="image" in media,
        parameter="images",
        can=model.images,
        loss="pictures, which it does not see",
        whether="sees pictures",
    )
    yield _Question(
        is_asked="file" in media,
        parameter="documents",
        can=model.documents,
        loss="documents, which it does not read",
        whether="reads documents",
    )
    form = mapping_of(parameters.get("response_format")).get("type")
    yield _Question(
        is_asked=form == "json_schema",
        parameter="response_format",
        can=model.json_schema,
        loss="the JSON schema, which it is not held to",
        whether="keeps to a schema",
    )
    effort = parameters.get("reasoning_effort")
    yield _Question(
        is_asked=effort not in (None, "none"),
        parameter="reasoning_effort",
        can=model.reasoning,
        loss="reasoning_effort, which it does not know",
        whether="knows efforts",
    )

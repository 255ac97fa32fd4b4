"""What each backend of a chain would lose of a request, without sending it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.chain.for_backend import losses_of, parameters_for
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.replies.parts import MediaPart, Message, ToolResult

SMALLEST_WINDOW: Final = 4_096
"""Tokens that fit every window of today."""


@frozen
class BackendCheck:
    """What one backend would lose of a request.

    Arguments:
        name: the name of the backend, with its protocol or position if others of the chain have the
        same name. problem: why it cannot be used at all, such as a missing key; None if it can.
        losses: the parts of the request that it does not get, does not understand, or has no room
        for. unknowns: questions that the capability table cannot answer.
    """

    name: str
    problem: str | None = None
    losses: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Tell whether no loss is known."""
        return self.problem is None and not self.losses

    def __str__(self) -> str:
        lines = [f"loses: {loss}" for loss in self.losses]
        lines += [f"unknown: {unknown}" for unknown in self.unknowns]
        problem = [f"cannot be used: {self.problem}"] if self.problem is not None else []
        return "\n".join(
            [self.name, *[f"  {each}" for each in (*problem, *(lines or ["takes all of it"]))]]
        )


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
    held = frozenset(_media_in(read_messages(request.messages)))
    checked = [_checked(request, chain[0], backend, held) for backend in chain]
    return Check(
        tuple(
            [
                evolve(each, name=name)
                for each, name in zip(checked, _distinct_names(chain), strict=True)
            ]
        )
    )


def _distinct_names(chain: Sequence[Backend]) -> list[str]:
    """Return distinct names of the backends: add the protocol or, if that is not enough, the
    position.
    """
    names = [backend.name for backend in chain]
    # a backend of the user's own may have none
    apis = [getattr(backend, "API", "") for backend in chain]
    names = [
        f"{name} ({api})" if api and names.count(name) > 1 else name
        for name, api in zip(names, apis, strict=True)
    ]
    return [
        f"{name}, backend {place}" if names.count(name) > 1 else name
        for place, name in enumerate(names, start=1)
    ]


def _media_in(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, MediaPart):
                yield part.kind
            elif isinstance(part, ToolResult):
                yield from (media.kind for media in part.media)


def _checked(
    request: Request, first: Backend, backend: Backend, held: frozenset[str]
) -> BackendCheck:
    # a backend of the user's own may have none
    model = getattr(backend, "capabilities", None) or Capabilities()
    parameters = {**getattr(backend, "parameters", {}), **parameters_for(request, first, backend)}
    losses = list(losses_of(request, first, backend))
    unknowns = []
    effort = parameters.get("reasoning_effort")
    wants_schema = mapping_of(parameters.get("response_format")).get("type") == "json_schema"
    for is_asked, can, lost, wants in (
        (
            bool(request.tools or parameters.get("tools")),
            model.tools,
            "tools, which it does not call",
            "calls tools",
        ),
        ("image" in held, model.images, "pictures, which it does not see", "sees pictures"),
        ("file" in held, model.documents, "documents, which it does not read", "reads documents"),
        (
            wants_schema,
            model.json_schema,
            "the JSON schema, which it is not held to",
            "keeps to a schema",
        ),
        (
            effort not in (None, "none"),
            model.reasoning,
            "reasoning_effort, which it does not know",
            "knows efforts",
        ),
    ):
        if is_asked and can is False:
            losses.append(lost)
        elif is_asked and can is None:
            unknowns.append(f"whether it {wants}")
    if beside := sorted(held & {"audio", "video"}):
        unknowns.append(f"whether it takes {' and '.join(beside)}")
    cap = request.max_tokens or backend.max_tokens
    if cap is not None and model.largest_output is not None and cap > model.largest_output:
        losses.append(f"{cap} tokens of output, of which it writes {model.largest_output} at most")
    prompt = request.input_tokens
    if prompt is None:
        prompt = sum(map(estimate_tokens, (request.messages, request.tools, parameters)))
    needed = prompt + (cap or 0)
    if model.window is not None and needed > model.window:
        losses.append(
            f"about {prompt} tokens of prompt and {cap or 0} of output, in a window of "
            f"{model.window}"
        )
    elif model.window is None and needed > SMALLEST_WINDOW:
        unknowns.append(
            f"whether about {prompt} tokens of prompt and {cap or 0} of output fit its window"
        )
    return BackendCheck(backend.name, backend.problem, tuple(losses), tuple(unknowns))

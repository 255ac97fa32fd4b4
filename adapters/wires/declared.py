"""What each protocol over HTTP declares of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.errors import ConfigurationError


class Declared(ABC):
    """Hold what a protocol declares; `HttpBackend` reads it."""

    __slots__ = ()

    DEFAULT_URL: ClassVar[str]
    """The provider's own."""
    PATH: ClassVar[str]
    """The path after the base URL; a base URL may also include it."""
    API: ClassVar[str]
    """The protocol's name on the command line and in the registry."""
    DECODER: ClassVar[type[StreamDecoder]]
    """What reads its replies."""
    FORM: ClassVar[Form]
    """The form of its conversations."""
    RESERVED: ClassVar[Mapping[str, str]]
    """Parameters that callers cannot set, and what to do instead."""
    REFUSES: ClassVar[tuple[Callable[[Mapping[str, Any], str], None], ...]] = ()
    """What refuses others, such as those for several answers, with a ConfigurationError that says where they are."""

    @abstractmethod
    def _body(self, send: Send, *, stream: bool) -> Body:
        """Return the JSON body of one attempt."""

    def _own_headers(self) -> dict[str, str]:
        """Return the headers that the protocol requires in every request."""
        return {}

    @classmethod
    def refuse_reserved(cls, parameters: Mapping[str, Any], where: str) -> None:
        """Refuse parameters that callers cannot set, with a ConfigurationError."""
        for name, instead in cls.RESERVED.items():
            if name in parameters:
                raise ConfigurationError(f"{where} cannot set {name!r}: {instead}")
        for refuse in cls.REFUSES:
            refuse(parameters, where)

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the reason."""
        return {}

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        """Tell whether parameters keep the model from continuing an assistant turn."""
        return False

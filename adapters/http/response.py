"""What the drivers of event loops ask of a response, whichever transport it came on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol


class AsyncResponse(Protocol):
    """Hold the head of a response, and read its body."""

    is_decoded: bool
    status_code: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Return what its head says."""

    def apieces(self) -> AsyncGenerator[bytes]:
        """Read the body as it comes."""

    async def aclose(self) -> None:
        """Let go of the connection."""

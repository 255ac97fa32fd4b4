"""What the backends of Google's two protocols have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

from attrs import frozen

from rungwise.adapters.wires.endpoint import is_token
from rungwise.adapters.wires.gemini.parameters import traits_of
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.values.secret import Secret


@frozen
class GoogleBackend(HttpBackend):
    """Speak a protocol of Google's with one of its models."""

    PARAMETERS: ClassVar[ModuleType]
    """What translates the parameters: `format_of`, `choice_of`, and `sent_effort`, each of which
    returns None for a value that cannot be expressed.
    """

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol lacks, each with the reason."""
        losses: dict[str, str] = {}
        if parameters.get("parallel_tool_calls") is False:
            losses["parallel_tool_calls"] = "Gemini has no switch for it"
        format = parameters.get("response_format")
        if format is not None and cls.PARAMETERS.format_of(format) is None:
            losses["response_format"] = "its type must be text, json_object or json_schema"
        choice = parameters.get("tool_choice")
        if choice is not None and cls.PARAMETERS.choice_of(choice) is None:
            losses["tool_choice"] = "it names no mode and no function"
        return losses

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        losses = dict(super()._unsupported(request))
        effort = self._parameters_of(request).get("reasoning_effort")
        if effort is None:
            return losses
        efforts = traits_of(self.model).thinking
        sent = self.PARAMETERS.sent_effort(effort, self.model)
        if not efforts:
            losses["reasoning_effort"] = "this model takes none"
        elif sent is None:
            losses["reasoning_effort"] = f"it must be one of {', '.join(efforts)}"
        elif sent != effort:
            losses[f"reasoning_effort {effort}"] = f"it is sent as {sent}"
        return losses

    def _credentials(self, key: Secret) -> dict[str, str]:
        if is_token(key):
            return super()._credentials(key)
        return {"x-goog-api-key": key.reveal()}

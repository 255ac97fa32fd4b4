"""Plain messages, and the rejection of a request, in few words."""

from typing import Any

from rungwise.testing import ScriptedReply


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def bad_request(message: str, **more: Any) -> ScriptedReply:
    """Return a reply of status 400 with an error."""
    return ScriptedReply(status=400, error={"message": message, **more})

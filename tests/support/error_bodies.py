"""Error bodies in the shapes of their providers."""

from typing import Any


def openai(
    message: str,
    kind: str | None = None,
    code: str | None = None,
    param: str | None = None,
) -> dict[str, Any]:
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": param,
            "code": code,
        }
    }


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_1",
    }


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {
        "error": {
            "code": code,
            "status": status,
            "message": message,
            "details": list(details),
        }
    }


def minimax(code: int, message: str = "x") -> dict[str, Any]:
    return {"base_resp": {"status_code": code, "status_msg": message}}


def minimax_error(status: int, message: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {
            "type": "x_error",
            "message": message,
            "http_code": str(status),
        },
    }

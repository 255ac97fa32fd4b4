"""Check that a request body is what the provider's own client would send, strictly by that client's
types.

Unknown keys are refused at any depth, and iterables are checked item by item.
"""

import base64
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, Union, get_args, get_origin

import typing_extensions


class Mismatch(AssertionError):
    """A value does not fit a type."""


def check(api: str, body: Mapping[str, Any]) -> None:
    """Check a request body in a protocol. Skips the test if the official client is not installed.

    Raises:
        Mismatch: the body does not fit the client's types.
    """
    _CHECKS[api](body)


def _check_params(module: str, name: str) -> Callable[[Mapping[str, Any]], None]:
    """Return the check by a client that has a type for streams, and one for all else."""

    def check(body: Mapping[str, Any]) -> None:
        kind = "Streaming" if body.get("stream") else "NonStreaming"
        fits(body, getattr(import_module(module), f"{name}{kind}"))

    return check


def _check_gemini(body: Mapping[str, Any]) -> None:
    known = import_module("google.genai.types")
    kinds = {
        "contents": list[known.Content],
        "systemInstruction": known.Content,
        "tools": list[known.Tool],
        "toolConfig": known.ToolConfig,
        "generationConfig": known.GenerationConfig,
        "safetySettings": list[known.SafetySetting],
        "cachedContent": str,
        "serviceTier": str,
    }
    for name, value in body.items():
        fits(value, kinds[name], name)


def _check_interactions(body: Mapping[str, Any]) -> None:
    known = import_module("google.genai.interactions")
    format = body.get("response_format")
    if isinstance(format, dict) and "schema" in format:  # which the type calls otherwise
        named = {**format, "schema_": format["schema"]}
        del named["schema"]
        body = {**body, "response_format": named}
    fits(body, known.CreateModelInteractionParam)


def _check_ollama(body: Mapping[str, Any]) -> None:
    known = import_module("ollama._types")
    fits(body, known.ChatRequest)
    fits(body.get("options", {}), known.Options, "options")
    for message in body["messages"]:  # of which the client takes any mapping, as it does of a tool
        fits(
            {**message, "images": [{"value": each} for each in message.get("images", ())]},
            known.Message,
            "message",
        )
    fits(body.get("tools", []), list[known.Tool], "tools")


def _check_bedrock(body: Mapping[str, Any]) -> None:
    shape, validator = _converse()
    report = validator.validate({"modelId": "m", **_with_blobs(body)}, shape)
    if report.has_errors():
        raise Mismatch(report.generate_report())


@cache
def _converse() -> tuple[Any, Any]:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return model.operation_model("Converse").input_shape, ParamValidator()


def _with_blobs(value: Any, name: str = "") -> Any:
    """Return a body as it is before JSON encoding."""
    if isinstance(value, dict):
        return {key: _with_blobs(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_blobs(each) for each in value]
    return base64.b64decode(value) if name in ("bytes", "redactedContent") else value


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "openai": _check_params("openai.types.chat.completion_create_params", "CompletionCreateParams"),
    "responses": _check_params(
        "openai.types.responses.response_create_params", "ResponseCreateParams"
    ),
    "anthropic": _check_params("anthropic.types.message_create_params", "MessageCreateParams"),
    "gemini": _check_gemini,
    "interactions": _check_interactions,
    "ollama": _check_ollama,
    "bedrock": _check_bedrock,
}


# values and types


def fits(value: Any, kind: Any, where: str = "body") -> None:
    """Check that JSON data fit a type: a `TypedDict`, a model, or the type of one of their fields.

    Raises:
        Mismatch: they do not.
    """
    origin = get_origin(kind)
    if kind in (Any, object):
        return
    if origin in (
        typing.Annotated,
        typing_extensions.Required,
        typing_extensions.NotRequired,
        typing.ClassVar,
    ):
        fits(value, get_args(kind)[0], where)
    elif isinstance(
        kind,
        typing.TypeAliasType
        if hasattr(typing, "TypeAliasType")
        else typing_extensions.TypeAliasType,
    ):
        fits(value, kind.__value__, where)
    elif origin in (Union, types.UnionType):
        _fits_one(value, get_args(kind), where)
    elif origin is Literal:
        _must(value in get_args(kind), where, f"is {value!r}, not one of {get_args(kind)}")
    elif typing_extensions.is_typeddict(kind):
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        # where annotations are strings, Python takes every key for a required one
        optional = (typing.NotRequired, typing_extensions.NotRequired)
        required = [
            name for name in kind.__required_keys__ if get_origin(hints[name]) not in optional
        ]
        _fits_fields(value, hints, required, where)
    elif isinstance(kind, type) and hasattr(kind, "model_fields"):
        _fits_model(value, kind, where)
    elif origin in (list, Sequence, Iterable) or kind is list:
        _must(isinstance(value, list), where, "is no list")
        for index, each in enumerate(value):
            fits(each, (*get_args(kind), Any)[0], f"{where}[{index}]")
    elif origin in (dict, Mapping) or kind in (dict, Mapping):
        _must(isinstance(value, dict), where, "is no object")
        for key, each in value.items():
            fits(each, (*get_args(kind), Any, Any)[1], f"{where}.{key}")
    elif isinstance(kind, type) and kind is not float:
        _must(
            type(value) is kind or (issubclass(kind, str) and isinstance(value, str)),
            where,
            f"is no {kind}",
        )
    elif kind is float:
        _must(type(value) in (int, float), where, "is no number")


def _fits_one(value: Any, kinds: Iterable[Any], where: str) -> None:
    faults = []
    for kind in kinds:
        try:
            return fits(value, kind, where)
        except Mismatch as fault:
            faults.append(f"  {getattr(kind, '__name__', kind)}: {fault}")
    told = "\n".join(sorted(faults, key=lambda fault: "'type'" in fault or ".type" in fault)[:4])
    raise Mismatch(f"{where} fits none of them:\n{told}")


def _fits_fields(
    value: Any,
    hints: Mapping[str, Any],
    required: Iterable[str],
    where: str,
) -> None:
    _must(isinstance(value, dict), where, "is no object")
    _must(
        not (unknown := value.keys() - hints.keys()),
        where,
        f"has {sorted(unknown)}, which nobody knows",
    )
    _must(not (missing := {*required} - value.keys()), where, f"lacks {sorted(missing)}")
    for name, each in value.items():
        fits(each, hints[name], f"{where}.{name}")


def _fits_model(value: Any, kind: Any, where: str) -> None:
    """Check an object against a pydantic model, by the names used on the wire."""
    _must(isinstance(value, dict), where, "is no object")
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    _must(
        not (unknown := value.keys() - fields.keys()),
        where,
        f"has {sorted(unknown)}, which nobody knows",
    )
    for name, field in fields.items():
        if name in value:
            is_data = bytes in (field.annotation, *get_args(field.annotation))
            fits(value[name], str | None if is_data else field.annotation, f"{where}.{name}")
        else:
            _must(not field.is_required(), where, f"lacks {name}")


def _must(holds: bool, where: str, fault: str) -> None:
    if not holds:
        raise Mismatch(f"{where} {fault}")

"""What a request wants: read from its body, in whatever protocol it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

import orjson
from attrs import frozen

from rungwise.adapters.exam.answer import ANSWER, rest_of
from rungwise.adapters.gateway.languages import CHAT, language_of
from rungwise.adapters.provider.server import ReceivedRequest

TOOLS: Final = ("tools", "toolConfig", "functions")
SCHEMAS: Final = ("schema", "responseSchema", "responseJsonSchema", "_responseJsonSchema", "format")
DEEPEST: Final = 12
"""Levels of a body, and of a schema, that are looked at."""


@frozen(kw_only=True)
class Wanted:
    """Hold what matters of a request.

    Arguments:
        api: its protocol.
        path: its path, with the query.
        body: its JSON.
        number: among the requests of its case, counted from 1.
        model: whom it asks.
        streams: whether it wants a stream.
    """

    api: str
    path: str
    body: Mapping[str, Any]
    number: int
    model: str
    streams: bool

    @property
    def backend(self) -> tuple[str, str]:
        """Return its protocol and model."""
        return self.api, self.model

    @property
    def tool(self) -> str:
        """Return the name of the first tool that it offers; "" for none."""
        offered = [self.body.get(member) for member in TOOLS]
        names = (each.get("name") for each in _values(offered) if isinstance(each, Mapping))
        return next((name for name in names if isinstance(name, str)), "")

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """Return the schema of the JSON that it asks for; None for text."""
        settings = {name: value for name, value in self.body.items() if name not in TOOLS}
        objects = (each for each in _values(settings) if isinstance(each, Mapping))
        for each, member in product(objects, SCHEMAS):
            schema = each.get(member)
            if isinstance(schema, Mapping) and "properties" in schema:
                return schema
        return None

    @property
    def prefix(self) -> str:
        """Return the longest beginning of the answer that it gives back; "" for none."""
        texts = (each.strip() for each in _values(self.body) if isinstance(each, str))
        return max((text for text in texts if rest_of(text) != ANSWER), key=len, default="")

    @property
    def answer(self) -> str:
        """Return the whole answer to it."""
        schema = self.schema
        if schema is None:
            return ANSWER
        return orjson.dumps(example(schema, schema)).decode()


def wanted_by(request: ReceivedRequest, number: int) -> Wanted:
    """Read a request."""
    language = language_of(request.path) or CHAT
    path = request.path.partition("?")[0]
    read = language.read_request(path, request.body, number)
    return Wanted(
        api=language.api,
        path=request.path,
        body=request.body,
        number=number,
        model=read.model,
        streams=read.streams,
    )


def _values(value: object, depth: int = 0) -> Iterator[object]:
    """Yield a value and all that stands in it."""
    yield value
    if depth == DEEPEST:
        return
    inner: Iterable[object] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    for each in inner:
        yield from _values(each, depth + 1)


def example(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value of a schema, whose texts are the answer.

    Arguments:
        schema: of the value.
        root: the schema that holds the definitions.
        depth: how many levels stand above.
    """
    if depth > DEEPEST:
        return None
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return example(schema[choice][0], root, depth + 1)
    if "$ref" in schema:
        target: Any = root
        for name in str(schema["$ref"]).split("/")[1:]:
            target = target.get(name, {})
        return example(target, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        members = schema.get("properties", {})
        return {name: example(member, root, depth + 1) for name, member in members.items()}
    if kind == "array":
        return [example(schema.get("items", {}), root, depth + 1)]
    scalars = {"string": ANSWER, "integer": 1, "number": 1.0, "boolean": True}
    return scalars.get(kind)

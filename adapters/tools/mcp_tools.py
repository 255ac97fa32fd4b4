"""The tools of an MCP server as the tools of a turn.

A turn runs each call as a task of its own: when the connection to a server over HTTP dies, the
package `mcp` cancels the task that opened it, and a call in that task would be cancelled with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread
import orjson
from attrs import frozen

from rungwise.fsm.errors import ConfigurationError, ToolError
from rungwise.fsm.replies.parts import MediaKind, MediaPart
from rungwise.fsm.turn.tools import Tool, Toolbox
from rungwise.fsm.turn.validity import as_name
from rungwise.fsm.values.label import label

MOST_PAGES: Final = 100
"""The most pages of tools that are read: a server may name a next one for ever."""

MOST_TOOLS: Final = 1_000
"""The most tools of a server; no model takes as many."""

LARGEST_SCHEMA: Final = 200_000
"""The most bytes of the schema of a tool, as JSON."""

LONGEST_ERROR: Final = 500
"""The most characters of a server's error that a model gets."""

_KINDS: Final[dict[str, MediaKind]] = {"image": "image", "audio": "audio", "video": "video"}


async def mcp_toolbox(session: Any) -> Toolbox:
    """Return the tools of an MCP server, for `aturn` and `astream_turn` in the same event loop.

    Arguments:
        session: an `mcp.Client` or an initialized `mcp.ClientSession`, of version 2 of that package
            or later. It stays open for as long as the turn runs.

    Raises:
        ConfigurationError: this is no session, the schema of a tool is none or too large, or there
            are too many tools.
    """
    members = [getattr(session, name, None) for name in ("list_tools", "call_tool")]
    if not all(map(callable, members)):
        raise ConfigurationError(
            f"mcp_toolbox takes a Client or a ClientSession of mcp, not {type(session).__name__}"
        )
    listed = await _listed(session)
    # a server may make much work here, and other tasks wait for the event loop
    return await anyio.to_thread.run_sync(_toolbox, session, listed)


def _toolbox(session: Any, listed: Sequence[Any]) -> Toolbox:
    """Return the tools of a server."""
    tools = []
    for tool in listed:
        schema = {"type": "object"}
        schema.update(tool.input_schema or {})
        _check_size(tool.name, schema)
        tools.append(
            Tool(
                McpCall(session, tool.name),
                name=as_name(tool.name),
                description=tool.description or "",
                parameters=schema,
            )
        )
    return Toolbox.of(tools)


def _check_size(name: str, schema: Any) -> None:
    """Refuse a schema that is too large, or nested too deeply."""
    try:
        size = len(orjson.dumps(schema))
    except TypeError:
        size = LARGEST_SCHEMA + 1
    if size > LARGEST_SCHEMA:
        raise ConfigurationError(
            f"the schema of the tool {label(name)} has more than {LARGEST_SCHEMA} bytes, or is "
            f"nested too deeply"
        )


async def _listed(session: Any) -> list[Any]:
    """Return the tools of a server, from all pages."""
    try:
        from mcp.types import PaginatedRequestParams
    except ImportError:
        raise ConfigurationError(
            "mcp_toolbox needs the extra: pip install 'rungwise[mcp]'"
        ) from None
    from mcp import ClientSession

    tools: list[Any] = []
    cursor = None
    for _ in range(MOST_PAGES):
        if isinstance(session, ClientSession):
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        else:
            page = await session.list_tools(cursor=cursor)
        tools += page.tools
        if len(tools) > MOST_TOOLS:
            raise ConfigurationError(f"the server has more than {MOST_TOOLS} tools")
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


@frozen(eq=False)
class McpCall:
    """Call one tool of a server."""

    session: Any  # the client or the session
    name: str  # the tool's own name, which providers may not accept

    needs_loop = True
    """A session belongs to one event loop."""

    async def __call__(self, **arguments: Any) -> Any:
        """Return what the tool returned: its text, and pictures and files as such."""
        from mcp import MCPError

        try:
            result = await self.session.call_tool(self.name, arguments)
        except MCPError as error:
            raise ToolError(
                f"the server of the tool failed: {label(str(error), LONGEST_ERROR)}"
            ) from None
        except RuntimeError as error:  # the result breaks the schema that its tool declares
            raise ToolError(
                f"the tool returned what it must not: {label(str(error), LONGEST_ERROR)}"
            ) from None
        parts = list(_parts(result.content))
        texts = "\n".join(part for part in parts if isinstance(part, str))
        if result.is_error:
            raise ToolError(texts or "the tool failed")
        media = [part for part in parts if isinstance(part, MediaPart)]
        if not parts and result.structured_content is not None:
            return result.structured_content
        if not media:
            return texts
        return [texts, *media] if texts else media


def _parts(content: Iterable[Any]) -> Iterable[str | MediaPart]:
    """Read the blocks of a result: texts, links as text, and media."""
    for block in content:
        if block.type == "text":
            yield block.text
        elif block.type in ("image", "audio"):
            yield MediaPart(_KINDS[block.type], data=block.data, media_type=block.mime_type)
        elif block.type == "resource_link":
            yield f"{block.name}: {block.uri}"
        elif block.type == "resource":
            inner = block.resource
            media_type = block.resource.mime_type or ""
            if hasattr(inner, "text"):
                yield inner.text
                continue
            kind = _KINDS.get(media_type.partition("/")[0], "file")
            name = str(inner.uri).rpartition("/")[2]
            yield MediaPart(kind, data=inner.blob, media_type=media_type, name=name)

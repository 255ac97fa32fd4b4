"""The tools of a real MCP server in a turn, over its standard streams and over HTTP."""

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp
import pytest

import rungwise
from rungwise import Anthropic, Client, ConfigurationError, ToolCall, TurnPolicy
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.waiting import patience

SERVER = """
import sys
import anyio
from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("birds")

@server.tool()
def wingspan(name: str) -> int:
    return 195

@server.tool()
def picture(name: str) -> Image:
    return Image(data=b"png", format="png")

@server.tool()
def breaks() -> str:
    raise ValueError("the lake is closed")

@server.tool()
async def sleeps() -> str:
    await anyio.sleep(600)
    return "never"

if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
"""
CALLS = [
    ToolCall("c1", "wingspan", '{"name": "heron"}'),
    ToolCall("c2", "picture", '{"name": "heron"}'),
    ToolCall("c3", "breaks", "{}"),
    ToolCall("c4", "wingspan", '{"bird": "heron"}'),
]


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "server.py"
    path.write_text(textwrap.dedent(SERVER), encoding="utf-8")
    if request.param == "stdio":
        yield mcp.StdioServerParameters(command=sys.executable, args=[str(path)])
        return
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen([sys.executable, str(path), str(port)], stderr=subprocess.DEVNULL)
    try:
        anyio.run(answers, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.kill()
        running.wait()


async def answers(port: int) -> None:
    """Wait until something listens at a port."""
    with anyio.fail_after(patience(30)):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                return
            except OSError:
                await anyio.sleep(0.05)


def turn(
    target: Any, calls: list[ToolCall], **options: Any
) -> tuple[rungwise.TurnResult, list[Any]]:
    """Run a turn with the tools of a server; return its result and the blocks that told the model
    of the calls.
    """

    async def run() -> tuple[rungwise.TurnResult, list[Any]]:
        script = Script([ScriptedReply(tool_calls=calls), ScriptedReply(text="195 cm.")])
        async with mcp.Client(target) as session:
            toolbox = await rungwise.mcp_toolbox(session)
            with EmbeddedProvider(script) as provider:
                async with Client(
                    Anthropic("m", base_url=provider.base_url, api_key="k")
                ) as client:
                    result = await client.aturn("How wide?", tools=toolbox, **options)
                    named = [tool["name"] for tool in provider.requests[0].body["tools"]]
                    assert named == ["wingspan", "picture", "breaks", "sleeps"]
                    return result, provider.requests[1].body["messages"][-1]["content"]

    return asyncio.run(run())


def test_a_turn_runs_its_tools(server: Any) -> None:
    result, told = turn(server, CALLS)
    assert result.outcome == "finished"
    assert result.text == "195 cm."
    texts = ["".join(part.get("text", "") for part in as_blocks(each["content"])) for each in told]
    assert texts[0] == "195"
    assert "breaks" in texts[2]
    assert "name" in texts[3]
    assert [bool(each.get("is_error")) for each in told] == [False, False, True, True]
    [picture] = [part for part in as_blocks(told[1]["content"]) if part["type"] == "image"]
    assert picture["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": "cG5n",
    }


def as_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.full
@pytest.mark.sampled(2)
def test_one_that_hangs_is_ended(server: Any) -> None:
    result, told = turn(
        server, [ToolCall("c1", "sleeps", "{}"), CALLS[0]], policy=TurnPolicy(tool_seconds=2.0)
    )
    assert result.outcome == "finished"
    assert [bool(each.get("is_error")) for each in told] == [True, False]


@pytest.mark.parametrize("wrong", [None, "birds", object()])
def test_what_is_no_session_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="mcp_toolbox takes"):
        asyncio.run(rungwise.mcp_toolbox(wrong))


@pytest.mark.full
def test_a_turn_without_an_event_loop_says_what_to_do(server: Any) -> None:
    async def run() -> None:
        async with mcp.Client(server) as session:
            toolbox = await rungwise.mcp_toolbox(session)
            with EmbeddedProvider(Script([ScriptedReply(text="195 cm.")])) as provider:
                client = Client(Anthropic("m", base_url=provider.base_url, api_key="k"))
                with pytest.raises(ConfigurationError, match="aturn"):
                    client.turn("How wide?", tools=toolbox)
                assert provider.requests == []

    asyncio.run(run())


class Session:
    """A session that lists tools, page by page."""

    def __init__(self, *pages: list[Any]) -> None:
        self.pages = pages

    async def list_tools(self, cursor: str | None = None) -> Any:
        place = int(cursor or 0)
        following = str(place + 1) if place + 1 < len(self.pages) else None
        return SimpleNamespace(tools=self.pages[place], next_cursor=following)

    async def call_tool(self, name: str, arguments: Any) -> None: ...


def listed(name: str, schema: Any) -> Any:
    return SimpleNamespace(name=name, description="", input_schema=schema)


def nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


HUGE: dict[str, Callable[[], list[list[Any]]]] = {
    "many properties": lambda: [
        [listed("t", {"properties": {f"p{number}": {} for number in range(100_000)}})]
    ],
    "a long text": lambda: [[listed("t", {"description": "x" * 300_000})]],
    "deeply nested": lambda: [[listed("t", nested(5_000))]],
    "many tools": lambda: [[listed(f"t{number}", {}) for number in range(10_000)]],
    "many tools on many pages": lambda: [
        [listed(f"t{page} {number}", {}) for number in range(100)] for page in range(50)
    ],
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_too_much_for_any_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"too deeply|more than 1000 tools"):
        anyio.run(rungwise.mcp_toolbox, Session(*HUGE[name]()))


def test_other_tasks_go_on_while_tools_are_read() -> None:
    threads: set[int] = set()

    class Listed:
        name = "t"
        description = ""

        @property
        def input_schema(self) -> dict[str, Any]:
            threads.add(threading.get_ident())
            return {}

    async def read() -> None:
        await rungwise.mcp_toolbox(Session([Listed()]))
        assert threads
        assert threading.get_ident() not in threads

    anyio.run(read)

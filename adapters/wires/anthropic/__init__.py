"""Anthropic's Messages."""

from rungwise.adapters.wires.anthropic.plain import READERS
from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.capabilities.table import CLAUDE_PREFILLS
from rungwise.adapters.wires.registry import KeyPlace, Wire

WIRE = Wire(
    protocol="Messages",
    client="anthropic.Anthropic(base_url={!r})",
    client_path="/v1/messages",
    keys=(KeyPlace("api.anthropic.com api.claude.com", ("ANTHROPIC_API_KEY",)),),
    capabilities=(
        CapabilityRow(model=CLAUDE_PREFILLS, known=Capabilities(prefill=True)),
        # From Opus 4.8 on, not on Google's cloud [platform.claude.com, mid-conversation system
        # messages].
        CapabilityRow(
            host=r"^(?!.*\.googleapis\.com$)",
            model=r"claude~(?:opus~4~[89]|(?:opus|sonnet|haiku|fable|mythos)~[5-9])",
            known=Capabilities(system_turns=True),
        ),
    ),
    members={
        "image": "type source title",
        "document": "type source title context",
        "source": "type media_type data url file_id content",
        "tool_result": "type tool_use_id content is_error",
        "tool_use": "type id name input",
        "tool": "type name description strict input_schema",
    },
    parts=READERS,
    kinds="text redacted_thinking server_tool_use mcp_tool_use mcp_tool_result mcp_tool_listing"
    " web_search_tool_result web_fetch_tool_result tool_search_tool_result"
    " code_execution_tool_result bash_code_execution_tool_result"
    " text_editor_code_execution_tool_result advisor_tool_result container_upload"
    " tool_addition tool_removal fallback tool_reference browser_state",
    sealed="redacted_thinking",
    calls="tool_use",
    results="tool_result",
)

"""Anthropic's Messages."""

from typing import Final

from rungwise.adapters.wires.anthropic.plain import READERS
from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.capabilities.table import CLAUDE_PREFILLS
from rungwise.adapters.wires.registry import KeyPlace, Wire

SYSTEM_TURNS: Final = r"claude~(?:opus~4~[89]|(?:opus|sonnet|haiku|fable|mythos)~[5-9])"
"""Models that take system messages between the turns.

From Opus 4.8 on, not on Google's cloud [platform.claude.com, mid-conversation system messages].
"""

WIRE = Wire(
    protocol="Messages",
    client="anthropic.Anthropic(base_url={!r})",
    client_path="/v1/messages",
    # [anthropic-sdk-python, message_create_params, those of the beta too]
    parameters="anthropic_beta anthropic_version billing_policy cache_control compaction container"
    " context_management diagnostics fallback_credit_token fallbacks inference_geo mcp_servers"
    " metadata output_config output_format service_tier speed stop_sequences thinking thread top_k"
    " user_profile_id workspace_id",
    keys=(
        KeyPlace("api.anthropic.com api.claude.com", ("ANTHROPIC_API_KEY",)),
        KeyPlace("aws-external-anthropic.REGION.api.aws", ("ANTHROPIC_AWS_API_KEY",)),
    ),
    capabilities=(
        CapabilityRow(model=CLAUDE_PREFILLS, known=Capabilities(prefill=True)),
        CapabilityRow(
            host=r"^(?!.*\.googleapis\.com$)",
            model=SYSTEM_TURNS,
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

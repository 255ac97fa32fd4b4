"""Gemini's Interactions.

A conversation is a list of steps, each of which says what it is by its type: what the user put in,
thoughts, calls of functions, their results, what the model put out. Consecutive steps of the model
are one answer.
"""

from typing import Final

from rungwise.adapters.wires.interactions.plain import read_step
from rungwise.adapters.wires.registry import Wire

CONFIG: Final = (
    "image_config seed speech_config stop_sequences temperature thinking_level thinking_summaries"
    " tool_choice top_p transcription_config video_config"
)
"""The members of `generation_config` [google-genai, generationconfig.py]."""

WIRE = Wire(
    protocol="Interactions",
    client="google.genai.Client(http_options={{'base_url': {!r}}}).interactions",
    client_path="/v1beta/interactions",
    # [google-genai, createmodelinteraction.py]
    parameters=f"{CONFIG} cached_content environment generation_config labels response_mime_type"
    " response_modalities safety_settings service_tier store webhook_config",
    members={
        **dict.fromkeys(("image", "audio", "video", "document"), "type data mime_type uri"),
        "tool": "type name description parameters",
    },
    items=dict.fromkeys(("user_input", "model_output", "thought", "function_result"), read_step),
    kinds="code_execution_call code_execution_result google_search_call google_search_result"
    " google_maps_call google_maps_result url_context_call url_context_result file_search_result"
    " mcp_server_tool_call mcp_server_tool_result retrieval_call retrieval_result"
    " tool_search_result processing_call processing_result",
    sealed="thought",
)

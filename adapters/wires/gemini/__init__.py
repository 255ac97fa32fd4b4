"""Gemini's generateContent.

A conversation is a list of contents with parts, and the model is named in the URL.
"""

from typing import Final

from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.capabilities.table import GEMINI_PREFILLS
from rungwise.adapters.wires.gemini.plain import read_content
from rungwise.adapters.wires.registry import KeyPlace, Wire

CONFIG: Final = (
    "temperature topP topK candidateCount stopSequences seed presencePenalty frequencyPenalty"
    " responseLogprobs logprobs responseMimeType responseFormat responseSchema responseJsonSchema"
    " responseModalities mediaResolution speechConfig audioTimestamp audioTranscriptionConfig"
    " thinkingConfig imageConfig routingConfig modelConfig modelSelectionConfig translationConfig"
    " enableAffectiveDialog enableEnhancedCivicAnswers"
)
"""The members of `generationConfig` [google-genai, models.py and types.py]."""

WIRE = Wire(
    protocol="generateContent",
    client="google.genai.Client(http_options={{'base_url': {!r}}})",
    client_path="/v1beta/models/any:generateContent",
    parameters=f"{CONFIG} cachedContent continuationToken generationConfig labels"
    " modelArmorConfig outputConfig safetySettings serviceTier store toolConfig",
    keys=(KeyPlace("generativelanguage.googleapis.com", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),),
    capabilities=(CapabilityRow(model=GEMINI_PREFILLS, known=Capabilities(prefill=True)),),
    members={
        "part": "text thought thoughtSignature inlineData fileData functionCall functionResponse",
        **dict.fromkeys(("inlineData", "fileData"), "mimeType data fileUri displayName"),
        "functionResponse": "id name response parts",
        "tool": "name description functionDeclarations parameters parametersJsonSchema",
    },
    messages={"parts": read_content},
    results="functionResponse",
    definitions="functionDeclarations",
)

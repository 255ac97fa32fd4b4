"""Ollama's native chat."""

from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.registry import KeyPlace, Wire

WIRE = Wire(
    protocol="Ollama's chat",
    client="ollama.Client(host={!r})",
    client_path="/api/chat",
    keys=(KeyPlace("ollama.com www.ollama.com", ("OLLAMA_API_KEY",)),),
    # [docs.ollama.com, structured outputs]
    capabilities=(CapabilityRow(known=Capabilities(json_schema=True)),),
)

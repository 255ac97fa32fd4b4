"""Make a call that needs two attempts, and a turn with a tool, and export their traces over OTLP.

python traced.py OTLP_URL
"""

import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import rungwise
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply, testing

LOOK = rungwise.ToolCall("1", "look", '{"city": "Malmö"}')
REPLIES = [
    ScriptedReply(status=503),
    ScriptedReply("Here."),
    ScriptedReply(tool_calls=[LOOK]),
    ScriptedReply("There."),
]


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine."


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1])))
with testing(), EmbeddedProvider(Script(REPLIES)) as server:
    client = rungwise.Client(rungwise.OpenAIChat("gpt-5", base_url=server.base_url, api_key="k"))
    rungwise.otel.instrument(client, tracer_provider=provider)
    print(client.call("Where?").text, client.turn("And where?", tools=[look]).text)
provider.shutdown()

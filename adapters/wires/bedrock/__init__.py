"""Amazon Bedrock's Converse."""

from typing import Final

from rungwise.adapters.wires.anthropic import SYSTEM_TURNS
from rungwise.adapters.wires.bedrock.plain import READERS
from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.capabilities.table import CLAUDE_PREFILLS
from rungwise.adapters.wires.registry import KeyPlace, Wire

# The endpoints of every partition [botocore/data/partitions.json], the private ones, and the host
# of the protocols of OpenAI and Anthropic [docs.aws.amazon.com/bedrock, endpoints].
_DOMAINS: Final = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "c2s.ic.gov",
    "sc2s.sgov.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
    "api.aws",
    "api.amazonwebservices.com.cn",
    "api.amazonwebservices.eu",
)
_HOSTS: Final = (
    *(f"bedrock-runtime{kind}.REGION.{domain}" for kind in ("", "-fips") for domain in _DOMAINS),
    *(f"vpce-*.bedrock-runtime.REGION.vpce.{domain}" for domain in _DOMAINS[:2]),
)
KEYS: Final = KeyPlace(
    " ".join((*_HOSTS, "bedrock-mantle.REGION.api.aws")), ("AWS_BEARER_TOKEN_BEDROCK",)
)
"""AWS's own hosts: no others get a key or credentials that the caller did not pass."""

WIRE = Wire(
    protocol="Converse",
    client="boto3.client('bedrock-runtime', endpoint_url={!r})",
    client_path="/model/any/converse",
    # [botocore, bedrock-runtime, ConverseRequest]; `top_k` goes to its place there
    parameters="additionalModelRequestFields additionalModelResponseFieldPaths guardrailConfig"
    " inferenceConfig outputConfig performanceConfig projectIdentifier promptVariables"
    " requestMetadata serviceTier toolConfig top_k",
    keys=(KEYS,),
    capabilities=(
        CapabilityRow(model=CLAUDE_PREFILLS, known=Capabilities(prefill=True)),
        # a turn may be the system's [botocore, bedrock-runtime, ConversationRole]
        CapabilityRow(model=SYSTEM_TURNS, known=Capabilities(system_turns=True)),
        # Claude from 3.7 and 3.5 Haiku on, and Nova [docs.aws.amazon.com/bedrock, prompt caching].
        CapabilityRow(
            model=r"claude~(?:3~7|3~5~haiku|(?:haiku|sonnet|opus|fable|mythos)~(?:[4-9]|preview))"
            r"|amazon\.nova",
            known=Capabilities(caches=True),
        ),
        # "You invoked an unsupported model or your request did not allow prompt caching", 403
        # [BerriAI/litellm #39210, strands-agents/harness-sdk #1807]. The id of an inference profile
        # tells no maker.
        CapabilityRow(
            model=r"claude~(?:2|instant|3~(?:haiku|sonnet|opus))"
            r"|(?:^|[./])(?:ai21|cohere|deepseek|google|meta|minimax|mistral|moonshot(?:ai)?"
            r"|nvidia|openai|qwen|writer|zai)\.",
            known=Capabilities(caches=False),
        ),
    ),
    members={
        "image": "source format",
        "document": "source format name context",
        **dict.fromkeys(("audio", "video"), "source format"),
        "source": "bytes s3Location text",
        "toolResult": "toolUseId content status type",
        "tool": "name description toolSpec strict inputSchema",
    },
    untyped_parts=READERS,
    sealed="reasoningContent",
    results="toolResult",
    definitions="toolSpec",
    marks="cachePoint",
)

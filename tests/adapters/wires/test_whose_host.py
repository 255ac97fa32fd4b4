"""The environment's key goes to its provider's own hosts, matched as a whole, and to none that
looks like them.
"""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import Bedrock, OpenAIChat
from rungwise.adapters.wires.endpoint import key_of_environment, variables_of
from rungwise.adapters.wires.registry import WIRES

KEY = "key-of-the-environment-9d2f"
HOSTS = [host for wire in WIRES.values() for place in wire.keys for host in place.hosts.split()]
VARIABLES = sorted(
    {name for wire in WIRES.values() for place in wire.keys for name in place.variables}
)

NOT_THEIRS = [
    # Anybody can have these names of a bucket, a load balancer, an instance or a function.
    "bedrock-runtime-evil.s3.amazonaws.com",
    "bedrock-runtime-evil.us-east-1.elb.amazonaws.com",
    "bedrock-runtime.s3.amazonaws.com",
    "bedrock-runtime.s3-us-west-2.amazonaws.com",
    "bedrock-runtime.us-east-1.s3.amazonaws.com",
    "bedrock-runtime-1.us-east-1.elb.amazonaws.com",
    "bedrock-runtime.us-east-1.vpce-svc-0a1b.us-east-1.vpce.amazonaws.com",
    "bedrock-runtime.us-east-1.on.aws",
    "bedrock-runtime.execute-api.us-east-1.amazonaws.com",
    "bedrock-runtime-evil.us-east-1.amazonaws.com",
    "evil.bedrock-runtime.us-east-1.vpce.amazonaws.com",
    "bedrock-runtime.us-east-1.amazonaws.com.evil.org",
    "dashscope-evil.aliyuncs.com",
    "dashscope.oss-cn-hangzhou.aliyuncs.com",
    "evil.openai.azure.com.cdn.example",
    "a.b.openai.azure.com",
    "evil-openai.azure.com",
    "openai.azure.com",
    "evil.blob.core.windows.net",
    # These belong to somebody else altogether, or serve pages that anybody writes.
    "api.minimax.com",
    "api.minimaxi.io",
    "community.openai.com",
    "status.anthropic.com",
    "x.ai",
    "docs.x.ai",
    "api-openai.com",
    "api.openai.com.evil.org",
    "evilapi.openai.com",
    "api.openai.co",
    "apiXopenai.com",
]


@pytest.fixture(autouse=True)
def every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")


@pytest.mark.parametrize("host", NOT_THEIRS)
def test_a_host_of_somebody_else_gets_no_key(host: str) -> None:
    for kind in (OpenAIChat, Bedrock):
        backend = kind("m", base_url=f"https://{host}/v1")
        assert backend.problem is not None
        assert KEY not in str(backend._sent_headers)
    assert key_of_environment(f"https://{host}") is None


LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
SIGNS = st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789-._:/\\@?#% \n\u0430\u212a\uff0e")
CLOUDS = st.sampled_from(
    [
        "s3.amazonaws.com",
        "eu-west-1.elb.amazonaws.com",
        "execute-api.eu-west-1.amazonaws.com",
        "oss-cn-beijing.aliyuncs.com",
        "cloudapp.azure.com",
        "web.core.windows.net",
        "storage.googleapis.com",
    ]
)


@st.composite
def hosts(draw: st.DrawFn) -> str:
    """Draw a host of the table."""
    pieces = re.split(r"(\*|REGION)", draw(st.sampled_from(HOSTS)))
    filled = {
        "*": LABEL,
        "REGION": st.sampled_from(["eu-north-1", "us-gov-west-1", "ap-southeast-4"]),
    }
    return "".join(draw(filled[piece]) if piece in filled else piece for piece in pieces)


@st.composite
def look_alikes(draw: st.DrawFn) -> str:
    """Draw a host of the table, and change it as somebody would who wants to be taken for it."""
    host = draw(hosts())
    one = draw(LABEL)
    two = draw(LABEL)
    sign = draw(SIGNS)
    labels = host.split(".")
    at = draw(st.integers(0, host.count(".")))
    cut = draw(st.integers(0, len(host) - 1))
    cloud = draw(CLOUDS)
    ends = ["", one, f"{one}.{two}", f"{one}.{two}\\"]
    before_it = [f"{one}-{host}", f"{one}{host}", f"{one}@{host}"]
    before_it += [f"{end}.{host}" for end in ends]
    behind_it = [f"{host}.{one}", f"{host}.{one}.{two}", f"{host}-{one}.{two}"]
    marked = [f"{host}.", f"{host}@{one}.{two}", f"{host}:8443", f"{host}\n"]
    in_clouds = [f"{labels[0]}.{cloud}", f"{host}.{cloud}"]
    before = labels[:at]
    label, *behind = labels[at:]
    relabelled = [
        [*before, one, label, *behind],
        [*before, one, two, label, *behind],
        [*before, *behind],
        [*before, f"{label}-{one}", *behind],
        [*before, one, *behind],
    ]
    misspelt = [
        host[:cut] + sign + host[cut + 1 :],
        host[:cut] + host[cut + 1 :],
        host.replace(".", "-", 1),
    ]
    others = [".".join(each) for each in relabelled]
    longer = [*before_it, *behind_it, *marked, *in_clouds]
    return draw(st.sampled_from([*longer, *others, *misspelt]))


def is_theirs(host: str) -> bool:
    """Tell, label by label, whether the table names a host."""
    labels = host.split(".")
    if not re.fullmatch(r"[a-z0-9.-]+", host) or not all(labels):
        return False
    regions = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")

    def fits(pattern: str, label: str) -> bool:
        return (
            bool(regions.fullmatch(label))
            if pattern == "REGION"
            else fnmatchcase(label, pattern.replace("*", "?*"))
        )

    patterns = (host.split(".") for host in HOSTS)
    return any(len(each) == len(labels) and all(map(fits, each, labels)) for each in patterns)


@given(hosts())
def test_a_providers_own_host_is_known_over_tls_alone(host: str) -> None:
    assert is_theirs(host)
    assert variables_of(f"https://{host}")
    assert variables_of(f"http://{host}") == ()


@settings(max_examples=500)
@given(look_alikes())
def test_a_host_that_only_looks_like_a_providers_gets_no_key(host: str) -> None:
    assert bool(variables_of(f"https://{host}")) is is_theirs(host)


@pytest.mark.parametrize("host", HOSTS)
def test_no_host_of_the_table_leaves_a_domain_open(host: str) -> None:
    fixed = re.split(r"^.*(?:\*|REGION)[^.]*\.", host)[-1]
    assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", fixed)

"""What a backend can do beyond answering: data keyed by host and model, and what servers taught this process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from threading import Lock
from typing import Final, Literal
from urllib.parse import urlsplit

from attrs import frozen

PrefillMode = Literal["no", "trailing", "prefix", "partial", "continue_final_message"]
"""How a trailing assistant turn is continued: not at all, as it stands, by a mark on it, or by flags of the request."""


@frozen
class Rule:
    """Allow prefill where all three patterns are found; models are matched in lower case with dots as dashes."""

    mode: PrefillMode
    host: str = ""
    model: str = ""
    path: str = ""
    echoes: bool = False


_CLAUDE = (
    r"claude-(?:haiku-4-5|sonnet-4(?:-[05])?|opus-4(?:-[015])?|3(?:-[57])?-(?:haiku|sonnet|opus)"
    r"|(?:haiku|sonnet|opus)-3(?:-[57])?|2(?:-[01])?|instant(?:-1)?(?:-2)?)"
    r"(?:-latest|-v\d+|[-@]\d{8}|:\d+|:beta)*$"
)
# Gemini 3.5 flash is left out: it was seen to accept and to reject a trailing model turn.
_GEMINI = r"gemini-(?:2(?:-[05])?|3(?:-1)?)-[a-z]"
_REASONERS = r"reason|thinking|qwq|qvq|gpt-oss|qwen-?3|-r1"

# The first rule that fits decides. What none fits is denied: a wrong "no" costs a user turn, a wrong "yes" a rejected
# request. Self-hosted servers (vLLM, SGLang, llama.cpp, Ollama) cannot be told apart by their URL; their users say so.
RULES: Final[tuple[Rule, ...]] = (
    Rule("prefix", host=r"(^|\.)mistral\.ai$", echoes=True),
    Rule("prefix", host=r"^api\.deepseek\.com$", path=r"^/beta\b", model=rf"^(?!.*(?:{_REASONERS}))"),
    Rule("partial", host=r"(^|\.)moonshot\.(ai|cn)$"),
    Rule(
        "partial",
        host=r"^dashscope[a-z-]*\.aliyuncs\.com$",
        model=r"^(?!.*(?:thinking|qwq|qvq))qwen(?:-(?:max|plus|flash|turbo|coder|vl)|2|-?3.*(?:instruct|coder))",
    ),
    Rule("trailing", host=r"(^|\.)groq\.com$", model=rf"^(?!.*(?:{_REASONERS}))"),
    Rule("trailing", host=r"(^|\.)googleapis\.com$|(^|\.)openrouter\.ai$", model=_GEMINI),
    Rule("trailing", model=_CLAUDE),
)


@lru_cache(maxsize=256)
def _rule(base_url: str, model: str) -> Rule | None:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return None
    model = model.lower().replace(".", "-")
    for rule in RULES:
        if re.search(rule.host, host) and re.search(rule.path, parts.path) and re.search(rule.model, model):
            return rule
    return None


def prefill_of(base_url: str, model: str) -> PrefillMode:
    """Tell how this model at this URL continues a trailing assistant turn; "no" unless a rule allows it."""
    rule = _rule(base_url, model)
    return rule.mode if rule else "no"


def echoes(base_url: str, model: str) -> bool:
    """Tell whether this model at this URL repeats a continued turn at the start of its answer."""
    rule = _rule(base_url, model)
    return rule is not None and rule.echoes


class Learned:
    """Remember what servers said of themselves, for the life of the process; safe to share between threads."""

    def __init__(self) -> None:
        self._no_prefill: set[tuple[str, str]] = set()
        self._lock = Lock()

    def learn_no_prefill(self, identity: tuple[str, str]) -> None:
        """Remember that this backend rejected a prefill.

        Arguments:
            identity: one of the backend's `identities`.
        """
        with self._lock:
            self._no_prefill.add(identity)

    def refuses_prefill(self, identities: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a backend with any of these identities has rejected a prefill before."""
        with self._lock:
            return bool(self._no_prefill) and not self._no_prefill.isdisjoint(identities)

    def forget(self) -> None:
        """Forget everything, as a test or a long-lived process after a server's upgrade may want."""
        with self._lock:
            self._no_prefill.clear()


LEARNED: Final = Learned()
"""The memory that every backend of this process asks."""

"""The reasons that there are for a request that brought no reply."""

from typing import Literal

Reason = Literal[
    "auth", "billing", "rate_limit", "overloaded", "server_error", "timeout", "connection", "certificate",
    "context_overflow", "payload_too_large", "output_cap", "prefill_unsupported", "parameter_unsupported",
    "reasoning_signature", "reasoning_missing", "failed_generation", "model_not_found", "content_policy", "format",
    "malformed", "silence", "unknown",
]  # fmt: skip
"""Why a request failed: the failure taxonomy."""

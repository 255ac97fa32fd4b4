"""Ollama's native chat."""

from typing import Final

from rungwise.adapters.wires.capabilities.capability import Capabilities, CapabilityRow
from rungwise.adapters.wires.registry import KeyPlace, Wire

OPTIONS: Final = (
    "numa num_ctx num_batch num_gpu main_gpu low_vram f16_kv logits_all vocab_only use_mmap"
    " use_mlock embedding_only num_thread num_keep seed top_k top_p min_p tfs_z typical_p"
    " repeat_last_n temperature repeat_penalty presence_penalty frequency_penalty mirostat"
    " mirostat_tau mirostat_eta penalize_newline stop"
)
"""The members of `options` [ollama-python, _types.py]."""

WIRE = Wire(
    protocol="Ollama's chat",
    client="ollama.Client(host={!r})",
    client_path="/api/chat",
    parameters=f"{OPTIONS} format keep_alive logprobs options shift think top_logprobs truncate",
    keys=(KeyPlace("ollama.com www.ollama.com", ("OLLAMA_API_KEY",)),),
    # [docs.ollama.com, structured outputs]
    capabilities=(CapabilityRow(known=Capabilities(json_schema=True)),),
)

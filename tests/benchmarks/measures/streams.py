"""Streams over their raw bytes: each protocol, inline reasoning, and what goes on after a cut."""

from collections.abc import Iterator
from typing import Any

from benchmarks.bench import Bench, race
from benchmarks.contestants import BARE, LANGCHAIN, LITELLM, OPENAI, PYDANTIC_AI, STREAMED, TENACITY
from benchmarks.figures import Goal, Section

PATHS = {
    "OpenAIChat": "chat/completions",
    "OpenAIResponses": "responses",
    "Anthropic": "messages",
    "Gemini": "models/bench:streamGenerateContent?alt=sse",
    "Ollama": "api/chat",
    "Bedrock": "model/bench/converse-stream",
}
KINDS = {
    "plain": "",
    "think": ", half of it inline reasoning",
    "seam": ", after a cut",
}
APART = {"apart": ", one after another, CPU time"}
SIZES = (200, 2000)
OVER_RAW_BYTES = 1.35
PEERS = (
    (OPENAI, "stream"),
    (LITELLM, "stream"),
    (PYDANTIC_AI, "astream"),
    (LANGCHAIN, "stream"),
    (TENACITY, "stream"),
)


def measure(bench: Bench) -> Iterator[Section]:
    """Compare the streams of each size."""
    wanted = [("OpenAIChat", kind) for kind in KINDS] + [
        (each, "plain") for each in PATHS if each != "OpenAIChat"
    ]
    contestants = (BARE, STREAMED, *(peer for peer, _ in PEERS))
    with bench.team(contestants) as workers:
        for chunks in SIZES[:1] if bench.quick else SIZES:
            for backend, kind in wanted:
                yield _compared(bench, workers, backend, kind, chunks)
        for backend in PATHS:
            yield _compared(bench, workers, backend, "apart", SIZES[0])


def _compared(
    bench: Bench,
    workers: Any,
    backend: str,
    kind: str,
    chunks: int,
) -> Section:
    raw = {"path": PATHS[backend], "requests": 2 if kind == "seam" else 1}
    entries: list[Any] = [(BARE, "stream", raw), (STREAMED, "stream", {"backend": backend})]
    if backend == "OpenAIChat" and kind == "plain":
        entries += [(peer, way, {}) for peer, way in PEERS]
    title = f"A stream of {chunks} chunks, {backend}{(KINDS | APART)[kind]}"
    url = bench.url(chunks=chunks, kind=kind)
    figures = race(bench, workers, entries, url, by_processor=kind in APART)
    [own] = [figure.ratio for figure in figures if figure.who == STREAMED.who]
    assert own is not None
    goal = Goal(f"{title[0].lower()}{title[1:]}, over its raw bytes", "≤", OVER_RAW_BYTES)
    return Section(f"streams.{backend}.{kind}.{chunks}", title, "s", figures, [goal.of(own)])

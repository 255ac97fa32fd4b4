"""The page about manners: its tables, which are made from the catalogue and the encoder."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.manners.manner import Manner
from support import protocols
from support.mannered import Mannered

PAGE: Final = Path(__file__).parents[2] / "docs" / "pages" / "manners.md"
NAMES: Final = {
    "openai": "chat",
    "responses": "Responses",
    "anthropic": "Messages",
    "gemini": "Gemini",
    "interactions": "Interactions",
    "ollama": "Ollama",
    "bedrock": "Converse",
}
"""What the page calls each protocol."""
MOST: Final = 3
"""The most manners that are combined."""
LONG: Final = "The kingfishers nest in the steep bank, well above the water."
SHORT: Final = "In the bank."
"""The texts whose replies are counted: one that comes in many pieces, and one in two."""
THREAD: Final = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def _linked(seen: str) -> str:
    """Link the threads of a server."""
    links = [
        f"[{name}#{number}](https://github.com/{name}/issues/{number})"
        for name, number in THREAD.findall(seen)
    ]
    server = seen.partition("[")[0].strip()
    if server and links:
        return f"{server} ({', '.join(links)})"
    return server or ", ".join(links)


def _protocols(manner: Manner) -> str:
    """Name the protocols that have a manner, and in which replies."""
    both = [NAMES[api] for api in manner.streamed if api in manner.whole]
    streamed = [NAMES[api] for api in manner.streamed if api not in manner.whole]
    whole = [NAMES[api] for api in manner.whole if api not in manner.streamed]
    said = []
    for names, where in ((both, ""), (streamed, " (streamed)"), (whole, " (whole)")):
        if len(names) == len(NAMES):
            said.append(f"every one{where}")
        elif names:
            said.append(f"{', '.join(names)}{where}")
    return "; ".join(said)


def _rows() -> Iterator[str]:
    """Yield the table of all manners."""
    yield "| manner | the server sends | Rungwise reads | protocols | seen at |"
    yield "| --- | --- | --- | --- | --- |"
    for manner in MANNERS.values():
        seen = ", ".join(map(_linked, manner.seen))
        cells = (f"`{manner.name}`", manner.says, manner.reads, _protocols(manner), seen)
        yield f"| {' | '.join(cells)} |"


def _combined(api: str, *, streams: bool) -> Iterator[tuple[str, ...]]:
    """Yield all combinations of up to three manners."""
    names = [name for name, each in MANNERS.items() if each.is_in(api, streams=streams)]
    for count in range(1, MOST + 1):
        for chosen in combinations(names, count):
            if len({MANNERS[name].moves for name in chosen}) == count:
                yield chosen


def _shares() -> Iterator[str]:
    """Yield the table of combinations, and how many of them lose what."""
    yield "| reply | manners | combinations | can be read | cannot: the reason, and the share |"
    yield "| --- | --- | --- | --- | --- |"
    for api in protocols.PROTOCOLS:
        for streams in (True, False):
            count = 0
            reasons: Counter[str] = Counter()
            for chosen in _combined(api, streams=streams):
                count += 1
                for text in (LONG, SHORT):
                    case = Mannered(api, streams, chosen, text, chunk_size=8)
                    reasons[next(iter(case.lost), "")] += 1
            names = [name for name, each in MANNERS.items() if each.is_in(api, streams=streams)]
            whole = reasons.pop("") / (2 * count)
            lost = [f"{why} {n / (2 * count):.1%}" for why, n in sorted(reasons.items())]
            mode = "streamed" if streams else "whole"
            yield (
                f"| {NAMES[api]}, {mode} | {len(names)} | {count} | {whole:.1%} | "
                f"{'; '.join(lost)} |"
            )


def written(page: str) -> str:
    """Return a page with its tables as they should be."""
    for name, rows in (("manners", _rows()), ("combinations", _shares())):
        begin = f"<!-- {name}: written by tests/renew.py -->"
        end = f"<!-- {name} end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        table = "\n".join(rows)
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page

"""An extraction: 200 records from notes in prose, under one budget of money, with a progress bar.

    python tests/examples/extract.py records.jsonl                              # plays, without a
    key python tests/examples/extract.py records.jsonl --model gpt-5 --prices 1.25/10 --money 0.50

Each record is a `Sighting`. An answer that is none goes back to the model with the reason, within
the same budget; at the end it says how many were corrected, and what could not be read.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from pydantic import BaseModel, Field
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

import rungwise

NOTES = [
    f"{1 + n % 28} May 2026: saw {2 + n % 7} herons by the northern lake, note {n}."
    for n in range(200)
]


class Sighting(BaseModel):
    """A bird that somebody has seen."""

    bird: str
    count: int = Field(gt=0)
    day: date


async def extract(
    client: rungwise.Client,
    notes: Iterable[str],
    records: Path,
    budget: rungwise.SharedBudget,
    at_once: int = 8,
) -> tuple[int, int, dict[str, str]]:
    """Write a record for each note; return how many there are, how many were corrected, and the
    causes of failures.
    """
    failed: dict[str, str] = {}
    corrected = written = 0

    async def work() -> None:
        nonlocal corrected, written
        for note in todo:  # the workers share it, so each note is taken once
            try:
                result = await client.acall(
                    f"Extract the sighting.\n\n{note}", returns=Sighting, within=budget
                )
            except rungwise.CallError as error:
                failed[note] = str(error)
            else:
                if isinstance(result.value, Sighting):
                    corrected += result.attempts > 1
                    written += 1
                    print(result.value.model_dump_json(), file=file, flush=True)
                else:
                    failed[note] = result.cause or result.outcome
            bar.update(
                task, advance=1, description=f"{budget.cost:.4f} spent, {corrected} corrected"
            )

    console = Console(stderr=True)
    with (
        records.open("w", encoding="utf-8") as file,
        Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console) as bar,
    ):
        every = list(notes)
        task = bar.add_task("0.0000 spent, 0 corrected", total=len(every))
        todo = iter(every)
        async with client, asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    return written, corrected, failed


def main(backend: rungwise.core.Backend, records: Path, money: float) -> None:
    """Run the extraction, and say what came of it."""
    # it is the money
    budget = rungwise.SharedBudget(rungwise.Budget(money=money, attempts=1_000_000, seconds=None))
    written, corrected, failed = asyncio.run(
        extract(rungwise.Client(backend), NOTES, records, budget)
    )
    print(
        f"{written} records, {corrected} of them corrected, {len(failed)} failed; "
        f"{budget.cost:.4f} spent"
    )
    for note, cause in failed.items():
        print(f"{note}: {cause}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def played(request: rungwise.testing.ReceivedRequest) -> rungwise.testing.ScriptedReply:
    """Answer as a model that counts none every tenth time, until it is told."""
    messages = request.body["messages"]
    note = next(each["content"] for each in messages if each["role"] == "user").rpartition("\n")[2]
    day = int(note.partition(" ")[0])
    number = int(note.rpartition(" ")[2].rstrip("."))
    is_told = "not right" in messages[-1]["content"]
    count = (
        0 if number % 10 == 0 and not is_told else int(note.partition("saw ")[2].partition(" ")[0])
    )
    text = json.dumps(
        {
            "bird": "heron",
            "count": count,
            "day": f"2026-05-{day:02}",
        }
    )
    return rungwise.testing.ScriptedReply(text, delay=0.02)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path)
    parser.add_argument("--money", type=float, default=2.0)
    parser.add_argument("--prices", default="2.5/10", help="of a million tokens, in and out")
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    options = parser.parse_args()
    prices = rungwise.Prices(*map(float, options.prices.split("/")))
    with rungwise.testing.EmbeddedProvider(played) as provider:
        url = options.base_url if options.model else provider.base_url
        backend = rungwise.OpenAIChat(options.model or "played", base_url=url, prices=prices)
        main(backend, options.records, options.money)

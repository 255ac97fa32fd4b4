"""A batch: many prompts, a few at a time, under one budget of money, with a progress bar.

    python tests/examples/batch.py answers.jsonl                              # plays, without a key
    python tests/examples/batch.py answers.jsonl --prompts prompts.txt --model gpt-5 --prices
    1.25/10 --money 0.50

Each answer is a line of JSON, written as soon as it is there. Ctrl-C leaves those that are; run the
same again, and only the prompts without an answer are asked.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

import rungwise


async def run_batch(
    client: rungwise.Client,
    prompts: Iterable[str],
    answers: Path,
    budget: rungwise.SharedBudget,
    at_once: int = 8,
) -> dict[str, str]:
    """Ask what has no answer yet; return the prompts that failed, with their causes."""
    written = answers.read_text("utf-8") if answers.exists() else ""
    whole = written[: written.rfind("\n") + 1]
    if whole != written:
        answers.write_text(whole, "utf-8")  # a kill had cut the last line
    answered = {json.loads(line)["prompt"] for line in whole.splitlines()}
    asked = [prompt for prompt in dict.fromkeys(prompts) if prompt not in answered]
    failed: dict[str, str] = {}

    async def work() -> None:
        for prompt in todo:  # the workers share it, so each prompt is taken once
            try:
                result = await client.acall(prompt, within=budget, max_tokens=500)
            except rungwise.CallError as error:
                failed[prompt] = str(error)
            else:
                line = {
                    "prompt": prompt,
                    "text": result.text,
                    "outcome": result.outcome,
                    "cost": result.cost,
                }
                print(json.dumps(line), file=file, flush=True)
            bar.update(
                task, advance=1, description=f"{budget.cost:.4f} spent, {len(failed)} failed"
            )

    with answers.open("a", encoding="utf-8") as file, shown_progress() as bar:
        task = bar.add_task("0.0000 spent, 0 failed", total=len(asked))
        todo = iter(asked)
        async with client, asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    return failed


def shown_progress() -> Progress:
    """Return a bar on stderr."""
    return Progress(
        *Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)
    )


def main(
    backend: rungwise.core.Backend,
    prompts: list[str],
    answers: Path,
    money: float,
) -> None:
    """Run the batch, and say what failed and why."""
    # it is the money
    budget = rungwise.SharedBudget(rungwise.Budget(money=money, attempts=1_000_000, seconds=None))
    try:
        failed = asyncio.run(run_batch(rungwise.Client(backend), prompts, answers, budget))
    except KeyboardInterrupt:
        sys.exit(
            f"interrupted after {budget.attempts} requests; the answers so far are in {answers}"
        )
    for prompt, cause in failed.items():
        print(f"{prompt}: {cause}", file=sys.stderr)
    sys.exit(1 if failed else 0)


PLAYED = rungwise.testing.Script(
    [rungwise.testing.ScriptedReply(f"Answer {n}.", delay=0.1) for n in range(9)]
    + [
        rungwise.testing.ScriptedReply(status=429, headers={"retry-after": "0.5"}),
        rungwise.testing.ScriptedReply(status=401),
    ],
    after="loop",
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path)
    parser.add_argument("--prompts", type=Path, help="a file with one a line")
    parser.add_argument("--money", type=float, default=0.25)
    parser.add_argument("--prices", default="2.5/10", help="of a million tokens, in and out")
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    options = parser.parse_args()
    prompts = [f"Question {n}?" for n in range(40)]
    if options.prompts:
        prompts = list(filter(str.strip, options.prompts.read_text("utf-8").splitlines()))
    prices = rungwise.Prices(*map(float, options.prices.split("/")))
    with rungwise.testing.EmbeddedProvider(PLAYED) as provider:
        url = options.base_url if options.model else provider.base_url
        backend = rungwise.OpenAIChat(options.model or "played", base_url=url, prices=prices)
        main(backend, prompts, options.answers, options.money)

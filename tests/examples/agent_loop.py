"""An agent with tools: a budget for each turn, its journal, and a conversation that is stored and
gone on from.

    python tests/examples/agent_loop.py birds "Who nests by the Vomb?"
    python tests/examples/agent_loop.py birds "How many of each?"      # goes on from there
    rungwise explain birds/journal.json -o turn.html                   # what the last turn did,
    step by step

It plays against the embedded provider, without a key; `--model` (and `--base-url`) asks a real one.
"""

import argparse
import json
import sys
from pathlib import Path

import rungwise

NESTS = {"Vomb": {"heron": 3, "bittern": 1}, "Krankesjön": {"grebe": 12}}
POLICY = rungwise.TurnPolicy(
    auto_continues=8,
    budget=rungwise.Budget(attempts=20, seconds=120, output_tokens=20_000),
    tool_seconds=10,
)


def nests(lake: str) -> dict[str, int]:
    """Count the nests of each bird by a lake."""
    if lake not in NESTS:
        raise rungwise.ToolError(f"That lake is not in the list. There are: {', '.join(NESTS)}.")
    return NESTS[lake]


def run_turn(client: rungwise.Client, folder: Path, question: str) -> rungwise.TurnResult:
    """Ask a question where the conversation stands, and store how far it came, whatever ends it:
    Ctrl-C, a failure.
    """
    conversation = folder / "conversation.json"
    messages = json.loads(conversation.read_text("utf-8")) if conversation.exists() else []
    stream = client.stream_turn(
        [*messages, {"role": "user", "content": question}], tools=[nests], policy=POLICY
    )
    try:
        with stream:
            for event in stream:
                if isinstance(event, rungwise.ToolStarted):
                    print(f"  {event.call.name}({event.call.arguments})", file=sys.stderr)
    finally:
        store(folder / "journal.json", stream.result.journal.to_json())
        store(conversation, json.dumps(stream.result.plain_messages, indent=1))
    return stream.result


def store(path: Path, text: str) -> None:
    """Write a file whole, or leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.replace(path)


PLAYED = rungwise.testing.Script(
    [
        rungwise.testing.ScriptedReply(
            tool_calls=[{"name": "nests", "arguments": '{"lake": "Lake Vomb"}'}]
        ),
        rungwise.testing.ScriptedReply(status=429, headers={"retry-after": "0.5"}),
        rungwise.testing.ScriptedReply(
            tool_calls=[{"name": "nests", "arguments": '{"lake": "Vomb"}'}]
        ),
        rungwise.testing.ScriptedReply("By the Vomb nest three herons and a bittern."),
    ]
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the conversation and the journal are kept")
    parser.add_argument("question")
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    options = parser.parse_args()
    with rungwise.testing.EmbeddedProvider(PLAYED) as provider:
        url = options.base_url if options.model else provider.base_url
        with rungwise.Client(
            rungwise.OpenAIChat(options.model or "played", base_url=url)
        ) as client:
            try:
                print(run_turn(client, options.folder, options.question).text)
            except (rungwise.TurnError, KeyboardInterrupt) as error:
                sys.exit(
                    f"{str(error) or 'interrupted'}; what was found so far is kept, and can be "
                    f"gone on from"
                )

"""`rungwise calls`: the durable calls of a database, what they cost, and how each went."""

from __future__ import annotations

import click

from rungwise.adapters.cli.durable.batch import database_option
from rungwise.adapters.cli.output import aligned, bad_input, counted, note, put
from rungwise.adapters.cli.shared_options import duration, flag_option, number_option


@click.command(short_help="List the durable calls of a database, or explain one.")
@click.argument("id", required=False)
@database_option("The database: sqlite:///FILE or postgresql://...", required=True)
@flag_option("--failed", help="Only those that have ended without a success.")
@number_option("--limit", 100, (1, 100_000), "The newest so many.")
@flag_option("--json", "as_json", help="Print JSON: a list of calls, or the journal of one.")
@flag_option("--delete", help="Delete the calls that ended before --older-than.")
@click.option(
    "--older-than",
    "age",
    callback=duration,
    metavar="TIME",
    help="How long ago they ended: 90d, 12h.",
)
def calls(
    id: str | None,
    database: str,
    failed: bool,
    limit: int,
    as_json: bool,
    delete: bool,
    age: float | None,
) -> int:
    """List calls, the newest first: id, status, attempts, cost, seconds and cause; or show the
    attempts of call ID; or delete what ended long ago, with all that is kept of it.

    A call that waits or runs is never deleted, and a cancelled one stays for a day. The id of a
    deleted call is free: a call that takes it runs, and costs.

    \b
    Exit codes:
      0  shown or deleted
      2  bad input: no such database, or no such call

    \b
    Examples:
      rungwise calls --database sqlite:///answers.jsonl.sqlite --failed
      rungwise calls --database sqlite:///answers.jsonl.sqlite prompts/17
      rungwise calls --database sqlite:///answers.jsonl.sqlite --delete --older-than 30d
    """
    from rungwise.adapters.durable.listing import COLUMNS, StoredCalls
    from rungwise.fsm.engine.journal.record import json_of

    if delete != (age is not None) or (delete and (id or failed)):
        bad_input("--delete needs --older-than, as in 30d, and takes neither ID nor --failed")
    listing = StoredCalls(database)
    if age is not None:
        put(f"{counted(listing.delete(age), 'call')} deleted\n")
        return 0
    if id is not None:
        call = listing.one(id)
        if call is None:
            bad_input(f"there is no call {id!r} in this database")
        if call.journal is None:
            bad_input(f"{id} has not ended: it is {call.status}")
        if as_json:
            put(call.journal.to_json() + "\n")
        else:
            from rungwise.adapters.cli.describe import brief_text
            from rungwise.fsm.turn.explained import read_recorded

            put(brief_text(read_recorded(call.journal.to_json())))
        return 0
    rows = listing.newest(limit, only_failed=failed)
    if as_json:
        put(json_of([row.as_mapping() for row in rows], is_indented=True) + "\n")
        return 0
    put(aligned([COLUMNS, *(row.row for row in rows)]))
    if len(rows) == limit:
        note(f"only the newest {limit}: --limit shows more")
    return 0

"""`rungwise stats`: what many recorded calls and turns came to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import click
import orjson

from rungwise.adapters.cli.durable.batch import database_option
from rungwise.adapters.cli.output import (
    bad_input,
    check_writable,
    note,
    one_line,
    progress_bar,
    put,
    write_out,
)
from rungwise.adapters.cli.shared_options import flag_option, output_option
from rungwise.fsm.analysis.stats.counts import Stats
from rungwise.fsm.analysis.stats.shown import FORMS
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.files import LARGEST, check_size, opened

LINES: Final = (".jsonl", ".ndjson")


def where_journals_are(command: Any) -> Any:
    """Give a command files and folders with journals, and a database with durable calls."""
    text = "Count the durable calls of a database: sqlite:///FILE or postgresql://..."
    kind = click.Path(exists=True)
    paths = click.argument("paths", nargs=-1, type=kind, metavar="[JOURNALS]...")
    return paths(database_option(text)(command))


@click.command(short_help="Count how recorded calls went, by day and model: tables, or a chart.")
@where_journals_are
@flag_option("--json", "as_json", help="Print every number as JSON.")
@output_option
def stats(
    paths: tuple[str, ...],
    database: str | None,
    as_json: bool,
    output: str | None,
) -> int:
    """Count outcomes, rungs, causes, backends, waits, times to the first token and cost, by day
    (UTC) and model.

    JOURNALS are files, with one journal or one on each line, or folders, of which each file counts
    that ends in .json, .jsonl or .ndjson. The calls of a turn count as calls. What older journals
    do not have is -. -o FILE.svg or FILE.html draws the tables, with bars.

    \b
    Exit codes:
      0  counted; files that are not journals are skipped, with a note
      2  bad input: no journal at all, or a file that cannot be written

    \b
    Examples:
      rungwise stats journals/
      rungwise stats journals/ calls.jsonl -o stats.html
      rungwise stats --database sqlite:///answers.jsonl.sqlite --json
    """
    form = FORMS.get("" if output is None else os.path.splitext(output)[1] or "none")
    if form is None:
        bad_input(f"a chart ends in .svg or .html, and {output} does not")
    check_writable(output)
    counts = Stats()
    count_journals(paths, database, counts.add)
    if as_json:
        put(json_of(counts.as_mapping(), is_indented=True) + "\n")
    if output is not None or not as_json:
        write_out(output, form(counts))
    return 0


def count_journals(
    paths: tuple[str, ...], database: str | None, count: Callable[[Journal | TurnJournal], None]
) -> None:
    """Pass each journal to what counts it.

    What is no journal is noted on stderr. Without any journal, the command stops.

    Arguments:
        paths: files and folders.
        database: the URL of a database with durable calls, or None.
        count: called with each journal.
    """
    faults = 0
    journals = 0
    first_fault = ""
    entries = chain(_of_files(paths), _of_database(database) if database else ())
    with progress_bar("{task.completed:>9,} journals") as bar:
        for place, journal in entries if bar is None else bar.track(entries):
            if isinstance(journal, str):
                faults += 1
                first_fault = first_fault or one_line(f"{place}: {journal}")
            else:
                count(journal)
                journals += 1
    unread = f"left out, because they are no journals: {faults}; the first is {first_fault}"
    if not journals and not faults:
        bad_input("there are no journals: name files, folders or a --database")
    if not journals:
        bad_input(unread)
    if faults:
        note(unread)


Entry = tuple[str, Journal | TurnJournal | str]
"""A place, and the journal there or what is wrong with it."""


def _of_files(paths: tuple[str, ...]) -> Iterator[Entry]:
    """Yield the journals in files and folders."""
    for path in paths:
        closed: list[OSError] = []  # folders that cannot be read
        files = _files_in(path, closed) if os.path.isdir(path) else [path]
        for file in files:
            try:
                for place, text in _texts(file):
                    yield place, _read(text)
            except OSError as error:
                yield file, str(error.strerror)
        for fault in closed:
            yield str(fault.filename), str(fault.strerror)


def _files_in(path: str, closed: list[OSError]) -> Iterator[str]:
    """Yield the files in a folder that may hold journals, and note what cannot be read."""
    for folder, _, names in os.walk(path, onerror=closed.append):
        for name in names:
            file = os.path.join(folder, name)
            if file.endswith((".json", *LINES)) and os.path.isfile(file):
                yield file


def _texts(file: str) -> Iterator[tuple[str, bytes]]:
    """Yield the texts of a file with their places: the whole file, or each line."""
    with opened(file) as content:
        first = content.readline(LARGEST)
        if not file.endswith(LINES) and not first.rstrip().endswith(b"}"):
            yield file, first + content.read(LARGEST)
            return
        others = iter(lambda: content.readline(LARGEST), b"")
        for number, line in enumerate(chain([first], others), start=1):
            if line.strip():
                yield f"{file}:{number}", line


def _read(text: bytes) -> Journal | TurnJournal | str:
    """Return a journal, or what is wrong with it."""
    try:
        check_size(text)
        document = orjson.loads(text)
        if isinstance(document, dict) and document.get("table") == TURN.name:
            return TurnJournal.from_document(document)
        return Journal.from_document(document)
    except Exception as error:  # a hostile document may break the reading code in any way
        return str(error)


def _of_database(url: str) -> Iterator[Entry]:
    """Yield the journals of durable calls, by their ids."""
    from rungwise.adapters.durable.listing import StoredCalls

    for call in StoredCalls(url).all():
        if call.journal is not None or call.status == "broken":
            yield call.id, call.journal or str(call.cause)

"""Every manner, in the order in which they are applied: `catalogue.toml` says what each is, and the
tables here what it does, under the same names.
"""

from __future__ import annotations

from typing import Final

from rungwise.adapters.provider.manners import content, ending, framing, identity
from rungwise.adapters.provider.manners.manner import (
    FEW,
    ONCE,
    UNCOUNTED,
    UNFINISHED,
    Manner,
    always,
    doubtful,
    untotalled,
)
from rungwise.adapters.provider.manners.places import ARGUMENTS, REASONING, TEXT
from rungwise.fsm.values.files import toml_in

ANSWERS: Final = {
    "calls_twice": content.calls_twice,
    "arguments_empty": content.without_arguments,
    "arguments_null": content.without_arguments,
    "finish_missing": ending.without_finish,
    "usage_missing": ending.without_usage,
}
"""What a manner makes of the reply."""
CHANGES: Final = {
    "text_snapshots": content.snapshots_of(TEXT),
    "reasoning_snapshots": content.snapshots_of(REASONING),
    "text_again": content.again_of(TEXT),
    "text_announced": content.with_announced_text,
    "message_at_end": content.with_message_at_the_end,
    "blocks_missing": content.without_blocks,
    "names_split": content.names_in_fragments,
    "argument_snapshots": content.snapshots_of(ARGUMENTS),
    "arguments_again": content.again_of(ARGUMENTS),
    "arguments_objects": content.arguments_in_objects,
    "arguments_text": content.arguments_in_text,
    "arguments_absent": content.without_empty_args,
    "arguments_null": content.with_null_arguments,
    "input_at_start": content.input_at_the_start,
    "calls_apart": content.with_calls_in_another_choice,
    "ids_repeated": identity.with_repeated_ids,
    "ids_new": identity.with_new_ids,
    "ids_new_at_end": identity.with_other_ids_at_the_end,
    "output_empty_at_end": identity.with_no_output_at_the_end,
    "indexes_other": identity.with_other_index,
    "indexes_missing": identity.without_indexes,
    "indexes_zero": identity.with_one_index,
    "finish_empty": ending.with_empty_finish,
    "finish_everywhere": ending.with_finish_everywhere,
    "terminal_missing": ending.without_terminal,
    "terminal_renamed": ending.with_response_done,
    "usage_in_choice": ending.with_usage_at("choices.0.usage"),
    "usage_at_finish": ending.with_usage_at("usage"),
    "usage_in_x_groq": ending.with_usage_at("x_groq.usage"),
    "usage_total": ending.with_total_alone,
    "usage_in_stages": ending.with_usage_in_stages,
    "usage_null_behind": ending.with_null_usage_behind,
    "events_added": ending.with_other_events,
    "members_empty": ending.with_empty_members,
}
"""What it makes of the events."""
FRAMES: Final = {
    "framed_twice": framing.twice,
    "bare_lines": framing.bare,
    "list_of_events": framing.listed,
    "blank_lines_missing": framing.close,
    "comments_as_data": framing.alive,
    "byte_order_mark": framing.marked,
    "blanks_first": framing.spaced,
    "encoding_unsaid": framing.packed,
}
"""What it makes of the bytes."""
LOSSES: Final = {
    "text_snapshots": doubtful("text", 2, FEW),
    "reasoning_snapshots": doubtful("reasoning", 2, FEW),
    "text_again": doubtful("text", 1, ONCE),
    "text_announced": doubtful("text", 0, ONCE),
    "usage_missing": always(UNCOUNTED),
    "usage_total": untotalled,
    "finish_missing": always(UNFINISHED),
}
"""Why a reply cannot be read from what is said in it."""


def _read() -> dict[str, Manner]:
    """Read the catalogue."""
    manners = {}
    for name, row in toml_in(__package__, "catalogue.toml").items():
        row["answer"] = ANSWERS.get(name)
        row["events"] = CHANGES.get(name)
        row["frames"] = FRAMES.get(name)
        row["loses"] = LOSSES.get(name)
        manners[name] = Manner(name=name, **row)
    return manners


MANNERS: Final = _read()
"""Every manner by its name."""

"""One self-contained HTML page: the path of a recorded call, or the machine to be played by whoever reviews it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from attrs import asdict

from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.diagram import Marks, render
from rungwise.fsm.diagram.page.machine import machine_data
from rungwise.fsm.diagram.page.markup import columns, document, picture, section
from rungwise.fsm.diagram.page.recording import call_data
from rungwise.fsm.diagram.page.timeline import timeline
from rungwise.fsm.diagram.page.usual import usual_facts
from rungwise.fsm.errors import TableError
from rungwise.fsm.journal.path import Trail
from rungwise.fsm.journal.record import Step

__all__ = ["explain_page", "play_page"]


def explain_page(trail: Trail) -> str:
    """Write the page of a recorded call: its path on the diagram, its timeline, and every step to be selected.

    Arguments:
        trail: the path of the call; everything that a stranger wrote into it is escaped.
    """
    setting = trail.journal.setting
    svg = render(trail.table, "svg", marks=Marks.along(trail.rows))
    side = "\n".join(
        [
            section("Steps", _step_list(trail), name="path-box"),
            section("What decided", '<p id="says" role="status"></p><div id="guards"></div><div id="details"></div>'),
        ]
    )
    body = "\n".join(
        [
            f"<header><h1>One {escape(trail.table.name)}, step by step</h1>{_summary(trail)}</header>",
            section("Time", timeline(trail), name="time"),
            columns(side, _LEFT + section("Path", picture(svg), classes="path")),
        ]
    )
    data = {
        "machine": machine_data(trail.table, _limits(trail)),
        "budget": asdict(setting.policy.budget),
        "call": call_data(trail),
    }
    return document(f"{trail.table.name}: {_ending(trail)}", body, data)


def play_page(policy: Policy = DEFAULT_POLICY, backends: int = 1) -> str:
    """Write the page on which a reviewer plays a policy's machine.

    Arguments:
        policy: the table with its limits and its budget.
        backends: how many backends the chain has.

    Raises:
        ConfigurationError: there is no backend.
        TableError: the table cannot be proved.
    """
    table, certificate = policy.table, verify(policy, backends)
    if not certificate.ok:
        failed = "; ".join(each.detail for each in certificate.properties if not each.holds)
        raise TableError(f"the table {table.name!r} cannot be proved: {failed}")
    usual = usual_facts(policy, backends)
    body = "\n".join(
        [
            f"<header><h1>Play the {escape(table.name)}</h1><p>{escape(_at_worst(certificate))}</p></header>",
            columns(_PLAY, _LEFT + section("Machine", picture(render(table, "svg")), classes="path")),
        ]
    )
    data = {
        "machine": machine_data(table, certificate.limits),
        "budget": asdict(policy.budget),
        "usual": {
            "at_first": min((facts.now for facts in usual.values()), key=len, default=()),
            "events": {event: facts.to_mapping() for event, facts in usual.items()},
        },
    }
    return document(f"Play the {table.name}", body, data)


def _limits(trail: Trail) -> dict[str, int]:
    """Return the limit of each counter, the fallbacks bounded by the chain as a call bounds them."""
    setting = trail.journal.setting
    return setting.policy.limits.bounded(trail.table.limits, len(setting.chain))


def _at_worst(certificate: Certificate) -> str:
    attempts, waiting = certificate.worst[:2]
    chain = "one backend" if len(certificate.chain) == 1 else f"a chain of {len(certificate.chain)} backends"
    return (
        f"With {chain}, a call makes at most {attempts.value:,} attempts and waits at most {waiting.value:,g} s "
        "between them; this page follows it step by step. Choose what comes back, and see which guard decides."
    )


def _ending(trail: Trail) -> str:
    return trail.journal.outcome or "not ended"


def _summary(trail: Trail) -> str:
    last, policy = trail.steps[-1], trail.journal.setting.policy
    tokens = sum(step.usage.output_tokens for step in trail.steps)
    told: Mapping[str, Any] = {
        "attempts": f"{last.attempts} of {policy.budget.attempts}",
        "seconds": f"{last.at:.4g}",
        "output tokens": tokens,
        "backend": last.backend,
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>" for name, value in told.items())
    return f'<p class="chip outcome">{escape(_ending(trail))}</p><dl class="summary">{items}</dl>'


def _step_list(trail: Trail) -> str:
    options = "".join(_step(step) for step in trail.steps)
    return f'<ol id="steps" role="listbox" tabindex="0" aria-label="Steps of the call">{options}</ol>'


def _step(step: Step) -> str:
    guard = f' <span class="faint">[{escape(step.guard)}]</span>' if step.guard else ""
    return (
        f'<li role="option" id="step-{step.number}" aria-selected="false"><span class="badge">{step.number}</span>'
        f'<code>{escape(step.event)}{guard}</code><span class="to">{escape(step.target)}</span></li>'
    )


_LEFT = section("What is left", '<ul id="budget" class="amounts"></ul><ul id="counters" class="amounts"></ul>')

_PLAY = "\n".join(
    [
        section(
            "Where the call is",
            '<p class="where"><span id="state"></span> <span id="says" role="status"></span></p><p id="worst"></p>',
        ),
        section(
            "What happens next",
            '<div id="events" class="events" role="radiogroup" aria-label="Event"></div>'
            '<fieldset id="facts-box"><legend>Facts (in italics: no difference here)</legend>'
            '<div id="facts" class="boxes"></div></fieldset>'
            '<div id="guards"></div>'
            '<p><button id="take" class="main">Take this step</button></p>',
            name="choice",
        ),
        section(
            "Path so far",
            '<p id="no-path" class="faint">No step yet.</p><ol id="path" tabindex="0" aria-label="Path so far"></ol>'
            '<p class="buttons"><button id="undo">Undo a step</button> <button id="restart">Restart</button> '
            '<button id="copy">Copy path</button> <span id="copied" role="status"></span></p>'
            '<textarea id="text" readonly hidden rows="6" aria-label="The path as text"></textarea>',
        ),
    ]
)

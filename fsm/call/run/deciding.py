"""Read the answers of a decision: which reach the bar, and which the next backend is asked again.

The answers of all backends so far are one value, `OpenQuestions`. What it becomes with a reply is
the value of the finding of the reply, and the call keeps that when it takes the reply.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import UNCERTAIN, Finding, Observation
from rungwise.fsm.call.run.judging import with_finding
from rungwise.fsm.replies.decisions.answers import Answer
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.schemas.given import Misfit

MISFIT: Final = "answers that do not fit the questions"
"""What a reply was, for the journal, if an endpoint for decisions sent it."""


def decided(
    asked: OpenQuestions, observation: Observation, proposal: Proposal, bar: float
) -> Observation:
    """Return an observation with what it says of the open questions.

    Arguments:
        asked: the questions, and the answers so far.
        observation: what came back.
        proposal: what it answers.
        bar: the least confidence of an answer.
    """
    backend = proposal.for_backend
    name = backend.link.name
    if observation.event == "refused" and asked.answers:
        # what others have answered stands; of that, too, the next backend is asked what is weak
        refusals = dict.fromkeys(asked.open, Answer(is_refused=True, backend=name))
        return _taken(asked.after(refusals, bar), observation)
    if observation.event != "answered":
        return observation
    is_measured = backend.asks_by == "decision"
    try:
        if is_measured:
            answers = asked.read_decision(observation.part, name)
        else:
            answers = asked.read_words(observation.part, name)
    except Misfit as fault:
        if is_measured:  # the same again would not go back to a model
            return _instead(observation, "malformed", MISFIT)
        return with_finding(observation, Finding.wrong([str(fault)], fault.places), "")
    after = asked.after(answers, bar)
    if after.is_refused:
        return _instead(observation, "refused", None)
    return _taken(after, observation)


def _taken(after: OpenQuestions, observation: Observation) -> Observation:
    """Return an observation that brought answers, as `answered` or `answered_uncertainly`."""
    finding = Finding(value=after)
    if not after.open:
        return evolve(observation, finding=finding, part=after.text, new=after.text)
    observation = _instead(observation, UNCERTAIN, after.doubts)
    return evolve(observation, finding=finding, spare=after.text)


def _instead(observation: Observation, event: str, found: str | None) -> Observation:
    """Return an observation as another event, whose text is no part of an answer."""
    evidence = evolve(observation.evidence, event=event)
    return evolve(observation, evidence=evidence, found=found, part="", new="")

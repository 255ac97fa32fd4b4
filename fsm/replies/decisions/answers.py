"""What came of the questions of a decision: an `Answer` for each, in one `Decision`.

Confidence is one measure for all backends: the largest probability. Providers' own figures do not
compare. With four options, a largest probability of 0.6 is a confidence of 0.6 for one of them and
of 0.47 for another, so no threshold would carry over to the next backend of a chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from attrs import frozen

from rungwise.fsm.replies.decisions.questions import Question
from rungwise.fsm.replies.schemas.given import Misfit
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.frozen_map import FrozenMap

ROUNDED: Final = 0.02
"""How far the probabilities of one answer may be from adding up to 1: servers round each."""


@frozen(kw_only=True)
class Answer:
    """Hold what came of one question.

    Arguments:
        value: the option of a `Choice`, True or False for a `YesNo`, a number for a `Score`; None
            if the model refused to answer.
        label: the likeliest option or level, or "yes" or "no"; None if refused, or not known.
        confidence: the largest probability; None if nobody measured any. It says how sure the
            model is, not how often it is right.
        probabilities: of each option or level, or of "yes" and "no"; empty if nobody measured any.
        provider_confidence: the provider's own figure, which each computes otherwise; None if it
            gives none.
        is_refused: whether the model refused to answer this question.
        backend: the name of the backend that answered.
    """

    value: str | bool | float | None = None
    label: str | None = None
    confidence: float | None = None
    probabilities: Mapping[str, float] = FrozenMap()
    provider_confidence: float | None = None
    is_refused: bool = False
    backend: str = ""

    def or_earlier(self, earlier: Answer | None) -> Answer:
        """Return this answer, or one of an earlier backend that is better.

        Of two with a confidence, the more certain one is; else the later one, whose backend the
        caller put behind the other for what that one cannot tell. A refusal replaces no answer.
        """
        if earlier is None or earlier.is_refused:
            return self
        if self.is_refused:
            return earlier
        if self.confidence is None or earlier.confidence is None:
            return self
        return earlier if earlier.confidence > self.confidence else self


@frozen
class Decision(Mapping[str, Answer]):
    """Hold the answers of a decision by the names of the questions. It is a mapping itself.

    Arguments:
        answers: one for each question.
        uncertain: the names of those whose confidence is below that of the policy.
    """

    answers: Mapping[str, Answer]
    uncertain: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Answer:
        return self.answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Return the names of the questions whose answers have no confidence."""
        names = [name for name, each in self.answers.items() if each.confidence is None]
        return tuple([name for name in names if not self.answers[name].is_refused])

    @property
    def refused(self) -> tuple[str, ...]:
        """Return the names of the questions that the model refused to answer."""
        return tuple([name for name, each in self.answers.items() if each.is_refused])


def read_answer(question: Question, came: Any, backend: str) -> Answer:
    """Read what a server with an endpoint for decisions answered, in the neutral form of the wires.

    That is an object with `refused`, or with `probabilities` by label or place, or with the `value`
    alone; `confidence` is the provider's own figure, and `mass` how much of all probability fell
    on the labels.

    Arguments:
        question: what was asked.
        came: the answer.
        backend: the name of the backend.

    Raises:
        Misfit: it is no answer to this question.
    """
    if not isinstance(came, Mapping):
        raise Misfit("it is no object")
    if came.get("refused") is True:
        return Answer(is_refused=True, backend=backend)
    if came.get("kind", question.KIND) != question.KIND:
        raise Misfit("it is of another kind")
    own = came.get("confidence")
    if not is_number(own, 0, 1):
        own = None
    given = came.get("probabilities")
    if not isinstance(given, Mapping) or not given:
        return _unmeasured(question, came.get("value"), own, backend)
    probabilities = _probabilities(question, given)
    label = max(probabilities, key=lambda each: probabilities[each])
    mass = came.get("mass", 1.0)
    if not is_number(mass, 0, 1):
        raise Misfit("its mass is no probability")
    return Answer(
        value=question.expected(probabilities),
        label=label,
        confidence=probabilities[label] * mass,
        probabilities=FrozenMap(probabilities),
        provider_confidence=own,
        backend=backend,
    )


def answer_without_measure(question: Question, value: Any, backend: str) -> Answer:
    """Read what a model wrote that was asked in a conversation: its confidence is unknown.

    Raises:
        Misfit: it is none of the labels.
    """
    label = question.label_of(value)
    if label is None:
        raise Misfit("it is none of the labels")
    return Answer(value=question.value_of(label), label=label, backend=backend)


def _unmeasured(question: Question, value: Any, own: float | None, backend: str) -> Answer:
    """Read an answer without probabilities: a label, or the expected place of a score.

    Arguments:
        question: what was asked.
        value: the label, or the place.
        own: the provider's own figure of its confidence.
        backend: the name of the backend.
    """
    if isinstance(value, str) and value in question.labels:
        return Answer(
            value=question.value_of(value), label=value, provider_confidence=own, backend=backend
        )
    if question.KIND == "score" and is_number(value, 0, len(question.labels) - 1):
        return Answer(value=float(value), provider_confidence=own, backend=backend)
    raise Misfit("it has no probabilities, and names no label")


def _probabilities(question: Question, given: Mapping[str, Any]) -> dict[str, float]:
    """Return the probability of each label, or raise a Misfit."""
    labels = list(question.labels)
    if question.KIND == "score" and not given.keys() <= question.labels.keys():
        # some servers number the levels
        places = {str(place): label for place, label in enumerate(labels)}
        given = {places.get(name, name): share for name, share in given.items()}
    if not given.keys() <= question.labels.keys():
        raise Misfit("it has a label that was not offered")
    probabilities = {}
    for label in labels:
        share = given.get(label, 0.0)
        if not is_number(share, 0, 1 + ROUNDED) or not isfinite(share):
            raise Misfit("it has a probability that is none")
        probabilities[label] = min(float(share), 1.0)
    if abs(sum(probabilities.values()) - 1) > ROUNDED:
        raise Misfit("its probabilities do not add up to 1")
    return probabilities

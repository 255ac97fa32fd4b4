"""The questions of a decision: a choice, a yes or no, a score. Each has a fixed set of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from attrs import field, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import text, where
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import short
from rungwise.fsm.values.patterns import Pattern

MOST_QUESTIONS: Final = 1_000
"""The most questions of one decision; many servers take fewer."""
MOST_LABELS: Final = 255
"""The most options of a choice, and levels of a score."""
YES: Final = "yes"
NO: Final = "no"
_NAME: Final = Pattern(r"[A-Za-z0-9_.-]{1,64}")
"""The name of a question. Every server takes it, also as a member of a JSON schema."""

Labels = Mapping[str, str | None]
"""The labels of a question, each with what it means; None where the label says it all."""


def _labels(value: Any) -> Any:
    """Return labels with what each means; anything else is left to the validator."""
    if isinstance(value, Mapping):
        return FrozenMap(value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    labels = list(value)
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        return labels
    return FrozenMap(dict.fromkeys(labels))


def _check_labels(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{where(instance, attribute)} must be a list of different texts, or map each of them "
            f"to what it means, not {short(value)}"
        )
    if not 2 <= len(value) <= MOST_LABELS:
        raise ConfigurationError(
            f"{where(instance, attribute)} must be 2 to {MOST_LABELS}, not {len(value)}"
        )
    for label, meaning in value.items():
        is_label = isinstance(label, str) and label.isprintable() and label == label.strip()
        if not is_label or not label:
            raise ConfigurationError(
                f"{where(instance, attribute)} must be printable texts without blanks around "
                f"them, not {short(label)}"
            )
        if meaning is not None and not isinstance(meaning, str):
            raise ConfigurationError(
                f"{where(instance, attribute)} must map {label!r} to a text, not {short(meaning)}"
            )


@frozen
class Question(ABC):
    """Ask something with a fixed set of labels; `Choice`, `YesNo` and `Score` are its kinds."""

    KIND: ClassVar[str]
    """The kind, for the wires."""

    instructions: str = field(validator=text)

    @property
    @abstractmethod
    def labels(self) -> Labels:
        """Return the labels in order, each with what it means."""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an answer, for a model that is asked in a conversation."""
        return {"type": "string", "enum": list(self.labels)}

    def value_of(self, label: str) -> str | bool | float:
        """Return the value of an answer that is one label."""
        return label

    def expected(self, probabilities: Mapping[str, float]) -> str | bool | float:
        """Return the value of an answer with these probabilities: the likeliest label."""
        return self.value_of(max(self.labels, key=lambda label: probabilities[label]))

    def label_of(self, value: Any) -> str | None:
        """Return the label that a model wrote; None if it is none."""
        return value if isinstance(value, str) and value in self.labels else None


@frozen
class Choice(Question):
    """Ask which of several options fits; the value is the option.

    Arguments:
        instructions: the question, or what to decide.
        options: 2 to 255 texts, or a mapping of each to what it means.

    Raises:
        ConfigurationError: an argument is not of its form.
    """

    KIND = "choice"

    options: Labels = field(converter=_labels, validator=_check_labels, hash=False)

    @property
    def labels(self) -> Labels:
        """Return the options."""
        return self.options


@frozen
class YesNo(Question):
    """Ask whether something is so; the value is True or False.

    Arguments:
        instructions: the question, or the statement to judge.
        yes, no: what each of them means; None if the question says it.

    Raises:
        ConfigurationError: an argument is not of its form.
    """

    KIND = "yes_no"

    yes: str | None = None
    no: str | None = None

    def __attrs_post_init__(self) -> None:
        for name in (YES, NO):
            meaning = getattr(self, name)
            if meaning is not None and not isinstance(meaning, str):
                raise ConfigurationError(f"YesNo.{name} must be a text, not {short(meaning)}")

    @property
    def labels(self) -> Labels:
        """Return yes and no."""
        return {YES: self.yes, NO: self.no}

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an answer."""
        return {"type": "boolean"}

    def value_of(self, label: str) -> bool:
        """Return True for yes."""
        return label == YES

    def label_of(self, value: Any) -> str | None:
        """Return the label of a truth value."""
        if not isinstance(value, bool):
            return None
        return YES if value else NO


@frozen
class Score(Question):
    """Ask for a place on a scale; the value is a number from 0 to the number of levels less one.

    With probabilities, it is the expected place: 1.5 may be "1 or 2" as well as "0 or 3", which
    the probabilities tell apart.

    Arguments:
        instructions: what to rate.
        levels: 2 to 255 texts from the lowest to the highest, or a mapping of each to what it
            means. Some servers take no more than 10.

    Raises:
        ConfigurationError: an argument is not of its form.
    """

    KIND = "score"

    levels: Labels = field(converter=_labels, validator=_check_labels, hash=False)

    @property
    def labels(self) -> Labels:
        """Return the levels."""
        return self.levels

    def value_of(self, label: str) -> float:
        """Return the place of a level."""
        return float(list(self.levels).index(label))

    def expected(self, probabilities: Mapping[str, float]) -> float:
        """Return the expected place."""
        total = 0.0
        for place, label in enumerate(self.levels):
            total += place * probabilities[label]
        return round(total, 9)


def read_questions(plain: Mapping[str, Any]) -> Mapping[str, Question]:
    """Return the questions that `OpenQuestions.plain_questions` has written."""
    questions: dict[str, Question] = {}
    for name, each in plain.items():
        labels = each["labels"]
        if each["kind"] == YesNo.KIND:
            questions[name] = YesNo(each["instructions"], yes=labels[YES], no=labels[NO])
        elif each["kind"] == Score.KIND:
            questions[name] = Score(each["instructions"], labels)
        else:
            questions[name] = Choice(each["instructions"], labels)
    return questions


def questions_of(questions: object) -> Mapping[str, Question]:
    """Check the questions of a decision, and return them.

    Raises:
        ConfigurationError: they are not of their form.
    """
    if not isinstance(questions, Mapping):
        raise ConfigurationError(
            "questions must map names to questions, as in {'urgent': rungwise.YesNo('Is it "
            f"urgent?')}}, not {type(questions).__name__}"
        )
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise ConfigurationError(f"questions must be 1 to {MOST_QUESTIONS}, not {len(questions)}")
    for name, question in questions.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                "the name of a question must be 1 to 64 letters, digits, dots, dashes and "
                f"underscores, not {short(name)}"
            )
        if not isinstance(question, Question):
            raise ConfigurationError(
                f"questions[{name!r}] must be a rungwise.Choice, YesNo or Score, not "
                f"{type(question).__name__}"
            )
    return FrozenMap(questions)

"""What a decision asks of the next backend, and what has come so far.

It stands where `returns` stands in other calls: as the schema of an answer, and what reads one. A
backend with an endpoint for decisions is given the questions themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import evolve, field, frozen

from rungwise.fsm.replies.decisions.answers import (
    Answer,
    Decision,
    answer_without_measure,
    read_answer,
)
from rungwise.fsm.replies.decisions.questions import Question, questions_of
from rungwise.fsm.replies.schemas.given import Misfit, validator_of
from rungwise.fsm.replies.schemas.returns import Returns
from rungwise.fsm.replies.text.contents import json_in
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy
from rungwise.fsm.values.label import label


@frozen(eq=False, kw_only=True)
class OpenQuestions(Returns):
    """Hold the questions of a decision, those that are still open, and the answers so far."""

    is_decision: ClassVar[bool] = True

    questions: Mapping[str, Question]
    answers: Mapping[str, Answer] = FrozenMap()
    open: tuple[str, ...]  # the names of the questions that the next backend is asked
    # Of those, the ones whose answer was measured and is below the bar.
    uncertain: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, questions: object) -> Self:
        """Begin with questions, or raise a ConfigurationError if they are not of their form."""
        checked = questions_of(questions)
        return cls(questions=checked, open=tuple(checked), **_schema_of(checked))

    @property
    def decision(self) -> Decision | None:
        """Return the answers; None before any has come."""
        if not self.answers:
            return None
        return Decision(self.answers, self.uncertain)

    @property
    def text(self) -> str:
        """Return the answers as JSON."""
        plain = {}
        for name, answer in self.answers.items():
            plain[name] = _plain(answer, is_uncertain=name in self.uncertain)
        return json.dumps(plain, ensure_ascii=False)

    @staticmethod
    def decision_in(text: str) -> Decision | None:
        """Return the answers that `text` has written; None for anything else."""
        kept, is_one = json_in(text)
        if not is_one or not isinstance(kept, Mapping) or not kept:
            return None
        answers = {}
        uncertain = []
        for name, each in kept.items():
            fields = dict(each)
            if fields.pop("uncertain", False):
                uncertain.append(name)
            fields["is_refused"] = fields.pop("refused", False)
            fields["probabilities"] = FrozenMap(fields.get("probabilities", {}))
            answers[name] = Answer(**fields)
        return Decision(FrozenMap(answers), tuple(uncertain))

    def plain_questions(self) -> Mapping[str, Any]:
        """Return the open questions as plain values, for a wire of decisions."""
        plain = {}
        for name in self.open:
            question = self.questions[name]
            plain[name] = {
                "kind": question.KIND,
                "instructions": question.instructions,
                "labels": dict(question.labels),
            }
        return frozen_copy(plain, "questions")  # type: ignore[no-any-return]

    @property
    def in_words(self) -> str:
        """Return the open questions in words, for a model that is asked in a conversation."""
        lines = []
        for name in self.open:
            question = self.questions[name]
            lines.append(f"* {name}: {question.instructions}")
            for each, meaning in question.labels.items():
                if meaning is not None:
                    lines.append(f"  - {each}: {meaning}")
        return "\n".join(lines)

    def read_decision(self, text: str, backend: str) -> Mapping[str, Answer]:
        """Return the answers of a backend with an endpoint for decisions, in the neutral form.

        Raises:
            Misfit: an answer is missing, or does not fit its question.
        """
        came, is_one = json_in(text)
        if not is_one or not isinstance(came, Mapping):
            raise Misfit("the answers are no object", ["no JSON"])
        return self._each(came, backend, read_answer)

    def read_words(self, text: str, backend: str) -> Mapping[str, Answer]:
        """Return what a model answered that was asked in a conversation.

        Raises:
            Misfit: the answer does not fit the schema.
        """
        return self._each(self.read_text(text), backend, answer_without_measure)

    def _each(self, came: Mapping[str, Any], backend: str, read: Any) -> dict[str, Answer]:
        answers = {}
        for name in self.open:
            if name not in came:
                raise Misfit(f"the question {name} has no answer", [name])
            try:
                answers[name] = read(self.questions[name], came[name], backend)
            except Misfit as fault:
                raise Misfit(f"the answer to {name} does not fit: {fault}", [name]) from None
        return answers

    def after(self, came: Mapping[str, Answer], bar: float) -> Self:
        """Return what is known with these answers, and which questions are still open.

        Arguments:
            came: the answers of one backend.
            bar: the confidence that the policy asks for; 0 takes every answer.
        """
        answers = dict(self.answers)
        for name, answer in came.items():
            answers[name] = answer.or_earlier(self.answers.get(name))
        ordered = FrozenMap({name: answers[name] for name in self.questions if name in answers})
        still_open = []
        uncertain = []
        for name, answer in ordered.items():
            if answer.is_refused or bar <= 0:
                continue
            if answer.confidence is None:
                still_open.append(name)
            elif answer.confidence < bar:
                still_open.append(name)
                uncertain.append(name)
        schema = {}
        if still_open:
            schema = _schema_of({name: self.questions[name] for name in still_open})
        return evolve(
            self, answers=ordered, open=tuple(still_open), uncertain=tuple(uncertain), **schema
        )

    @property
    def is_refused(self) -> bool:
        """Tell whether every answer is a refusal."""
        return all(each.is_refused for each in self.answers.values())

    @property
    def doubts(self) -> str:
        """Say which answers do not reach the bar, for a journal; it quotes no answer."""
        said = []
        for name in self.open:
            confidence = self.answers[name].confidence
            known = "unknown" if confidence is None else f"{confidence:.2f}"
            said.append(f"{name} {known}")
        return f"confidence of {', '.join(said)}"


def _schema_of(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Return the fields of `Schema` for the object of the answers."""
    members = {}
    for name, question in questions.items():
        members[name] = {**question.schema, "description": label(question.instructions, 1_000)}
    schema = frozen_copy(
        {
            "type": "object",
            "properties": members,
            "required": list(members),
            "additionalProperties": False,
        },
        "questions",
    )
    return {
        "schema": schema,
        "validator": validator_of(schema, "questions"),
        "is_wrapped": False,
    }


def _plain(answer: Answer, *, is_uncertain: bool) -> dict[str, Any]:
    """Return an answer as plain values, without what nobody knows.

    Arguments:
        answer: the answer.
        is_uncertain: whether it is below the bar.
    """
    if answer.is_refused:
        return {"refused": True, "backend": answer.backend}
    plain: dict[str, Any] = {
        "value": answer.value,
        "label": answer.label,
        "confidence": answer.confidence,
        "backend": answer.backend,
    }
    if answer.probabilities:
        plain["probabilities"] = dict(answer.probabilities)
    if answer.provider_confidence is not None:
        plain["provider_confidence"] = answer.provider_confidence
    if is_uncertain:
        plain["uncertain"] = True
    return plain

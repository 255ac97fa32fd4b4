"""The methods of a client that run decisions."""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar, Unpack

from rungwise.adapters.client_options import CallOptions, Messages, check_sync
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.runtime import Runtime
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.decisions.answers import Decision
from rungwise.fsm.replies.decisions.questions import Question

DecidingClient = TypeVar("DecidingClient", bound="Deciding")

_NOT_OF_DECISIONS: Final = ("tools", "verdict", "turn", "response_format", "tool_choice")
"""The options of a call that a decision does not take."""


def refuse_options(options: Mapping[str, Any]) -> None:
    """Refuse the options of a call that a decision does not take."""
    for name in _NOT_OF_DECISIONS:
        if options.get(name) is not None:
            raise ConfigurationError(f"a decision takes no {name}: its answers are the labels")


def asking_decisions(client: DecidingClient) -> DecidingClient:
    """Return a client that asks each backend at its endpoint for decisions, if it has one.

    It shares connections, clocks and all else with the client.
    """
    deciding = copy.copy(client)
    deciding.runtime = client.runtime.for_decisions()
    return deciding


class Deciding:
    """Run decisions: calls whose answers are choices, yes or no, and scores. `Client` has these
    methods.

    Attributes:
        runtime: what the calls run with: the seam for those who build on a client. It is not part
            of the everyday API.
    """

    runtime: Runtime

    def decide(
        self,
        input: Messages,
        questions: Mapping[str, Question],
        *,
        cancellation: Cancellation | None = None,
        **options: Unpack[CallOptions],
    ) -> Result[Decision]:
        """Ask typed questions about an input, and return the result, whose `value` is the
        `Decision`.

        A backend whose capabilities name an endpoint for decisions is asked there, and its answers
        come with probabilities. Any other is asked in a conversation, for JSON that holds nothing
        but the labels; the confidence of its answers is unknown.

        With `Policy.confidence`, the next backend is asked the questions whose answers are below
        it. If none is left, the most certain answers that came are those of the result, whose
        outcome is `partial`. An answer of unknown confidence counts as below the bar while a
        backend follows that measures, and as good enough at the last.

        Arguments:
            input: a text, messages as `call` takes them, or a `rungwise.core.Request`.
            questions: by name, each a `rungwise.Choice`, `YesNo` or `Score`.
            cancellation: ends the call from another thread.
            options: those of `call`, without `tools`, `tool_choice`, `verdict`, `turn` and
                `response_format`.

        Raises:
            CallError: the outcome is `refused`, `exhausted`, `failed`, `cancelled` or
                `over_budget`.
            ConfigurationError: the input, a question or an option is not of its form.
        """
        check_sync("decide", cancellation, self.runtime.compactor)
        runtime, call = self._new_decision(input, questions, options)
        with either(runtime.connections.in_threads.cancellation, cancellation) as ending:
            return runtime.driver(ending, call.policy.timeouts).run(call).raise_for_outcome()

    def adecide(
        self,
        input: Messages,
        questions: Mapping[str, Question],
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, Result[Decision]]:
        """Ask typed questions asynchronously; takes and raises what `decide` does."""
        runtime, call = self._new_decision(input, questions, options)
        return runtime.run(call)

    def _new_decision(
        self, input: Messages, questions: Mapping[str, Question], options: CallOptions
    ) -> tuple[Runtime, Call]:
        # decisions are for those who ask for them
        from rungwise.fsm.replies.decisions.open_questions import OpenQuestions

        refuse_options(options)
        asked = OpenQuestions.of(questions)
        runtime = self.runtime.for_decisions()
        return runtime, runtime.new_call(input, options, asked, is_streaming=False)

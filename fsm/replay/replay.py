"""Run a journal again, of whichever machine it is."""

from __future__ import annotations

from typing import overload

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replay.calls import replay_call
from rungwise.fsm.replay.turns import replay_turn
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult


@overload
def replay(journal: Journal, policy: Policy | None = None) -> Result: ...
@overload
def replay(journal: TurnJournal, policy: TurnPolicy | None = None) -> TurnResult: ...
def replay(journal: Journal | TurnJournal, policy: Policy | TurnPolicy | None = None) -> Result | TurnResult:
    """Run a recorded call or turn again and return its result, which has texts only if the journal has contents.

    Arguments:
        journal: the journal, complete or not; a run that had not ended is cancelled where the journal ends.
        policy: the policy to replay under; None for the recorded one. A journal does not contain a table of your own,
            so pass a policy with that table; for the calls of a turn, as `TurnPolicy.call`.

    Raises:
        JournalMismatch: a step differs; the message names the first one and what differs in it.
        ConfigurationError: an argument is of another type, or no call can have this policy with the recorded chain.
    """
    if isinstance(journal, TurnJournal):
        if policy is not None and not isinstance(policy, TurnPolicy):
            raise ConfigurationError(f"policy must be a TurnPolicy, not {type(policy).__name__}")
        return replay_turn(journal, policy)
    if not isinstance(journal, Journal):
        raise ConfigurationError(f"journal must be a Journal or a TurnJournal, not {type(journal).__name__}")
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}")
    return replay_call(journal, policy)

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
    """Run a recorded call or turn again and return its result; texts are there only if the journal holds contents.

    Arguments:
        journal: what was recorded, complete or not; what had not ended is cancelled where the journal ends.
        policy: the policy to replay under; the recorded one where None. A table of your own is not recorded and must
            be passed, for the calls of a turn as its `TurnPolicy.call`.

    Raises:
        JournalMismatch: a step differs; the message names the first one and what differs in it.
        ConfigurationError: `journal` or `policy` is none, or no call can have this policy with the recorded chain.
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

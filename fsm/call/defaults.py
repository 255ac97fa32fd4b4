"""What a call is made with where its caller says nothing else."""

from rungwise.fsm.call.link import PlainLink
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.request import TurnContext

DEFAULT_POLICY = Policy()
NO_CHAIN = (PlainLink(),)
NO_TURN = TurnContext()

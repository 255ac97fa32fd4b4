"""What a call is made with where its caller says nothing else."""

from rungwise.fsm.call.conversation.link import PlainLink
from rungwise.fsm.call.conversation.request import TurnContext
from rungwise.fsm.call.policy import Policy

DEFAULT_POLICY = Policy()
NO_CHAIN = (PlainLink(),)
NO_TURN = TurnContext()

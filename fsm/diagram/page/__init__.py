"""One self-contained HTML page: the path of a recorded run, or the machine to be played by whoever reviews it."""

from rungwise.fsm.diagram.page.markup import Page
from rungwise.fsm.diagram.page.play import play_page
from rungwise.fsm.diagram.page.run import Told, explain_page, page_of
from rungwise.fsm.diagram.page.setup import NO_BUDGET, Setup

__all__ = ["NO_BUDGET", "Page", "Setup", "Told", "explain_page", "page_of", "play_page"]

"""Self-contained HTML pages: the path of a recorded run, and a machine for a reviewer to play."""

from rungwise.fsm.diagram.page.machine_page import NO_BUDGET, Setup, play_page
from rungwise.fsm.diagram.page.run_page import Page, RunDetails, explain_page, page_of

__all__ = ["NO_BUDGET", "Page", "RunDetails", "Setup", "explain_page", "page_of", "play_page"]

"""The kinds of calls that a fuzz run draws beside the usual ones.

Theory. A fault shows only where several things come together, and calls that are drawn evenly
hardly ever bring them together. So each further kind of call is narrow, in a way of its own:

* *Squeezed* calls have little room: a counter or two, a budget that others hold, backends that
  nobody can pay. See `squeeze.py`.
* Calls at the *edge* of a budget. A token that nobody counted shows only if the last request may
  spend exactly what is left, and spends it. So money pays for a few requests, each with a cap that
  its reply uses up, as it is cut there or breaks off. And there are many tokens to miscount: in
  prompts of many short messages, and in text that goes back, of which each byte is a token. The
  provider is fair: it bills what it reads and writes, and no more than the cap. It is what Myers
  called boundary values ("The Art of Software Testing", 1979).
* Calls *near* those that reached something new: a row, a guard that did not hold, a pair of
  successive rows (`fsm/testing/coverage.py`). Such a call is crossed with a usual one: it begins as
  before, continues as the other, and has a field or two of it. So a path of which each step is rare
  is found step by step, and its cost is a sum, not a product; this is how afl-fuzz steers towards
  what was never reached. Only the latest calls are kept, for they reached what all others had not.

All kinds have an equal share of each batch. What a certificate depends on is drawn once for a whole
batch, apart from Hypothesis: a certificate costs as much as dozens of calls. To fix some features
for each batch, and others for the next, is known from Groce et al., "Swarm Testing", 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.testing.case import MODES, Case, prices_like
from rungwise.adapters.testing.scripts import WIDEST_CUT, scripted_replies, scripts
from rungwise.adapters.testing.squeeze import Squeeze, squeeze_by
from rungwise.fsm.call.budget.costs import TOKENS_PRICED
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.testing.samples import ASKED, DENSE, MANY_MESSAGES, STORY
from rungwise.fsm.testing.strategies import evenly
from rungwise.fsm.testing.tokenizers import TOKENIZERS, prompt_tokens

STEADY = (
    ScriptedReply(body="<html>"),
    ScriptedReply(status=500),
    ScriptedReply(),
    ScriptedReply(status=429, headers={"retry-after": "3"}),
    ScriptedReply(text="Half", finish="length"),
)
"""What a provider may answer for ever, so that the ladders are climbed to their end."""

# the first one has no more messages than are needed, and ends with the user
PROMPTS = (MANY_MESSAGES[:61], ASKED)
CAPS = (16, 200, 1_000, 4_096)  # output tokens

IDEOGRAPHS = "".join(map(chr, range(0x4E00, 0x4E00 + 700)))
COSTLY = (DENSE[0], IDEOGRAPHS, STORY)
"""Texts that take many tokens, and do not repeat themselves."""
HANDFUL = 5  # ways to leave calls little room, in a batch

CROSSED = tuple(name for name in attrs.fields_dict(Case) if name != "script")


def _for_ever(reply: ScriptedReply) -> Script:
    return Script([reply])


def alike(random: Random, drawn: SearchStrategy[Case], prices: Prices) -> SearchStrategy[Case]:
    """Give all calls the same prices, output cap, and tokens of the prompt."""
    some_prices = random.choice(prices_like(prices))
    cap = random.choice((None, 1, 50, 4096, 50_000))
    tokens = random.choice((None, 1_000))  # enough for each of the prompts

    def given_these(case: Case) -> Case:
        request = attrs.evolve(case.request, max_tokens=cap, input_tokens=tokens)
        return attrs.evolve(case, request=request, prices=some_prices)

    return drawn.map(given_these)


def squeezed_cases(random: Random) -> SearchStrategy[Case]:
    """Generate calls with little room, most of them to a provider that never changes its mind."""
    steady = st.sampled_from(STEADY).map(_for_ever)
    script = evenly(steady, steady, scripts())
    mode = st.sampled_from(MODES)
    squeeze = st.sampled_from([squeeze_by(random) for _ in range(HANDFUL)])
    return st.builds(Case, script, mode=mode, squeeze=squeeze)


def edge_cases(prices: Prices) -> SearchStrategy[Case]:
    """Generate calls whose money pays for a few requests, to fair providers."""
    text = st.sampled_from(COSTLY)
    cut = st.integers(0, WIDEST_CUT)
    used_up = st.builds(ScriptedReply, text=text, finish=st.just("length"))
    used_up |= st.builds(ScriptedReply, text=text, cut_after=cut)
    steady = used_up.map(_for_ever)
    mixed = scripts(items=evenly(used_up, scripted_replies()))
    script = evenly(steady, steady, mixed)
    request = st.builds(Request, st.sampled_from(PROMPTS), max_tokens=st.sampled_from(CAPS))
    # a reserve for dear caches would hide what is not counted
    some_prices = st.sampled_from(prices_like(prices)[::2])
    tokenizer = st.sampled_from(tuple(TOKENIZERS))
    drawn = st.builds(
        Case,
        script,
        mode=st.sampled_from(MODES),
        request=request,
        prices=some_prices,
        is_fair=st.just(True),
        tokenizer=tokenizer,
    )
    return st.builds(_with_money, drawn, st.floats(0.5, 3) | st.floats(1, 12))


def _with_money(case: Case, requests: float) -> Case:
    """Return a case whose money pays for so many requests."""
    prices = case.prices
    cap = case.request.max_tokens or 0
    tokens = prompt_tokens(case.request.messages, case.request) + cap  # the reply goes back
    money = requests * (tokens * prices.input + cap * prices.output) / TOKENS_PRICED
    return attrs.evolve(case, squeeze=Squeeze(money=money, is_certified=False))


def near_cases(kept: Sequence[Case], others: SearchStrategy[Case]) -> SearchStrategy[Case]:
    """Generate calls that are crossed with others.

    Arguments:
        kept: the calls that are crossed; there must be one.
        others: generates those that they are crossed with.
    """
    place = st.integers(0, 8)
    names = st.lists(st.sampled_from(CROSSED), max_size=2)
    return st.builds(Case.crossed, st.sampled_from(kept), others, place, names)

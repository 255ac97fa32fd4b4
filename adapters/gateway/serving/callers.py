"""Who asks a gateway, and what they may."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.gateway.answers import Problem
from rungwise.fsm.call.budget.shared import SharedBudget, check_within
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label, short

SCOPE: Final = "rungwise.caller"
"""Where the scope of an ASGI request holds its caller."""

_NAME: Final = re.compile(r"[\w.@+-]{0,64}", re.ASCII)


def _chains(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ConfigurationError(f"chains must be a list of names, not {short(value)}")
    return frozenset(map(str, value))


@frozen(eq=False)
class Caller:
    """Who asks a gateway, and what they may.

    Arguments:
        name: what journals, counts and metrics call it: letters, digits and `_.@+-`, at most 64; ""
            for nobody in particular.
        chains: the names of the chains that it may ask; None for every chain.
        within: the budget that its calls share.

    Raises:
        ConfigurationError: a value is of another form.
    """

    name: str = field(default="")
    chains: frozenset[str] | None = field(default=None, converter=_chains, kw_only=True)
    within: SharedBudget | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "the name of a caller must be at most 64 letters, digits and _.@+-, not "
                f"{short(self.name)}"
            )
        check_within(self.within)

    @property
    def needs_prices(self) -> bool:
        """Tell whether a budget of money holds for its calls."""
        if self.within is None:
            return False
        return any(budget.money is not None for budget in self.within.budgets)

    def allowed(self, chains: Mapping[str, Any]) -> Iterator[str]:
        """Yield the names of the chains that it may ask, of those that there are."""
        for name in chains:
            if self.chains is None or name in self.chains:
                yield name

    def check(
        self,
        client: object,
        model: str,
        chains: Mapping[str, Any],
    ) -> None:
        """Refuse the client for a model, unless the caller may ask it under any of its names.

        Arguments:
            client: which answers for the model.
            model: as the request names it.
            chains: the clients by name.

        Raises:
            Problem: it may not.
        """
        allowed = sorted(self.allowed(chains))
        if not any(chains[name] is client for name in allowed):
            names = ", ".join(allowed) or "none"
            raise Problem.saying(
                403,
                f"this key may not ask {label(model)!r}; it may ask: {names}",
                code="chain_not_allowed",
            )


ANYONE: Final = Caller()
"""Who asks where nobody is told apart."""

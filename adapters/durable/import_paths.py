"""Functions and classes by their import paths, as a database holds them.

What a database says is not trusted: to import a module is to run it, and the functions of a turn
are called with what a model says. So a path counts only within the modules that the program names,
and only for what was defined there: `app.tools:os.system` leads out of `app.tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from attrs import field, frozen
from pydantic import TypeAdapter

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.decisions.questions import read_questions
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.values.label import short

PATH: Final = "import path"
"""The one member of what stands for a function or class, by which another process finds it."""
QUESTIONS: Final = "questions of a decision"
"""The one member of what stands for the questions of a decision."""


def _checked(modules: Sequence[str]) -> tuple[str, ...]:
    """Return the names of modules, or raise a ConfigurationError."""
    if isinstance(modules, str):
        raise ConfigurationError(f"modules must be a list of names, such as [{modules!r}]")
    for module in modules:
        if not isinstance(module, str):
            raise ConfigurationError(f"modules must hold names of modules, not {short(module)}")
    return tuple(modules)


def asks_questions(plain: Any) -> bool:
    """Tell whether what a stored call returns is a decision."""
    return isinstance(plain, Mapping) and QUESTIONS in plain


@frozen
class Modules:
    """Find the functions and classes that stored calls and turns may name.

    Arguments:
        names: the modules and packages in which they are.
    """

    names: tuple[str, ...] = field(converter=_checked)

    def plain_returns(self, returns: Any) -> Any:
        """Return a schema as it is, a class that can be found by its path, and the schema of any
        other type.
        """
        if returns is None or isinstance(returns, Mapping):
            return returns
        if isinstance(returns, OpenQuestions):
            return {QUESTIONS: returns.plain_questions()}
        returns_of(returns)  # which says what is wrong with it
        with suppress(ConfigurationError):
            return {PATH: self.path_of(returns, "returns")}
        return TypeAdapter(returns).json_schema()

    def path_of(self, value: Any, what: str) -> str:
        """Return the import path of a function or class, or raise a ConfigurationError if another
        process would not find it.
        """
        if getattr(value, "__module__", None) == "__main__":
            raise ConfigurationError(
                f"{what} is in the program that runs, where no other process finds it: put it into "
                "a module, and name that in Durable(..., modules=[...])"
            )
        path = _path(value)
        if path is None or self.found(path, what) is not value:
            raise ConfigurationError(
                f"{what} must stand at the top of a module that can be imported: another process "
                f"may have to find it"
            )
        return path

    def found(self, path: str, what: str) -> Any:
        """Return what stands at an import path, or raise a ConfigurationError: nothing does, or it
        is in none of the modules.
        """
        module, _, name = str(path).partition(":")
        if not self._has(module):
            raise ConfigurationError(
                f"{what} is in {short(module)}: name this module, or a package around it, in "
                f"Durable(..., modules=[...]); a database may name functions of no other one"
            )
        try:
            value: Any = import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"{what} {path!r} cannot be imported: {error}") from None
        own = _path(value)
        if own is None or not self._has(own.partition(":")[0]):
            raise ConfigurationError(f"{what} {path!r} is not defined there")
        return value

    def at_path(self, plain: Any, what: str) -> Any:
        """Return the function or class that a mapping with its path stands for, and anything else
        unchanged.
        """
        if asks_questions(plain):
            return OpenQuestions.of(read_questions(plain[QUESTIONS]))
        if isinstance(plain, Mapping) and PATH in plain:
            return self.found(plain[PATH], what)
        return plain

    def _has(self, module: str) -> bool:
        return any(module == each or module.startswith(f"{each}.") for each in self.names)


def _path(value: Any) -> str | None:
    """Return where something says that it is defined; None for nowhere that can be imported."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "")
    if module in (None, "__main__") or not name or "<" in name:
        return None
    return f"{module}:{name}"

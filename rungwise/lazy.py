"""Public names: imported when they are first used, and shown by their public name.

They are listed once, where type checkers read them: below `if TYPE_CHECKING:` in the public
modules. Two things follow from the lists.

* A public module imports a name when somebody asks for it (`lazy_names`).
* A class or function has its public module as its `__module__` from the moment it exists
  (`show_public_names`), so that tracebacks, reprs and pickles say `rungwise.Failed`, not where it
  happens to be defined. A process that unpickles it imports `rungwise` and asks for `Failed`, which
  is then imported as for everybody else.

Theory. The name must be right however the class was come by: a client raises `Failed` although
nobody has looked up `rungwise.Failed`. So the moment to set it is the import of the module that
defines it, and `rungwise` itself is always imported before that. It therefore puts a finder before
those that Python has. For the modules of the lists, and no others, the finder lets the next ones
find the module, and sets the names after the module has run. A decorator on each class, or a line
in each module, would do the same in a hundred places, and the core would have to import the face.

Two things depend on `__module__` beside the name, and both are looked after:

* `typing.get_type_hints` reads the annotations of a class, which are texts, among the names of its
  module. Each is made a `ForwardRef` that says where it was written; that takes 7 microseconds.
* `inspect.getsource` of a class looks for it in the file of its module. Python gives no way to say
  another file, so of a public class it raises an OSError, as it does for httpx's and trio's. Of
  functions and methods it works, for their code knows its file. Python 3.13 notes the first line of
  a class, and would show that line of the wrong file; without the note it raises the same error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os.path import dirname, join
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, ForwardRef

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

PUBLIC: Final = ("rungwise", "rungwise.core", "rungwise.testing", "rungwise.ui", "rungwise.otel")
"""The modules with lists of public names."""

_ADVICE: Final = {
    "make a rungwise.Client of a chain, and use its call, or acall in an event loop": "completion "
    "acompletion chat generate ask",
    "make a rungwise.Client of a chain; acall and astream are for event loops": "AsyncClient "
    "Router Chain Fallback FallbackModel AsyncOpenAI AsyncAnthropic",
    "it is rungwise.OpenAIChat with a base_url": "AzureOpenAI AsyncAzureOpenAI Azure ChatOpenAI",
    "it is rungwise.OpenAI with a base_url": "Cerebras Cohere DeepSeek Fireworks Groq LMStudio "
    "Mistral Nvidia OpenRouter Perplexity SGLang Together VLLM XAI",
    "it is rungwise.Anthropic": "AnthropicBedrock AnthropicVertex ChatAnthropic Claude",
    "it is rungwise.Gemini with a base_url of Vertex AI": "Vertex VertexAI",
    "it is rungwise.Gemini": "ChatGoogleGenerativeAI Google GoogleGenAI GenerativeModel",
    "give tools to Client.turn": "Agent Runner tool function_tool",
    "say it in a policy, as in rungwise.Policy(limits=rungwise.Limits(retries=2))": "retry Retry "
    "Retrying AsyncRetrying stop_after_attempt wait_exponential wait_random_exponential",
    "say it in a policy, as in rungwise.Policy(timeouts=rungwise.Timeouts(total=30))": "Timeout",
    "catch a rungwise.CallError, whose result.failures say why": "APIError APIStatusError "
    "APIConnectionError APITimeoutError AuthenticationError BadRequestError InternalServerError "
    "NotFoundError RateLimitError RetryError",
    "ask for a type with returns, as in client.call(prompt, returns=Bird)": "from_openai "
    "from_provider patch",
    "raise a rungwise.ToolError in a tool, or give the call a verdict": "ModelRetry",
}
_INSTEAD: Final = {name: advice for advice, names in _ADVICE.items() for name in names.split()}
"""What takes the place of names that other libraries have."""

_LISTED: Final = re.compile(r"^ +from (rungwise\S*) import \(?\s*(\w+) as \2", re.MULTILINE)
"""A line of a list: the module that defines a name, and the name."""


def lazy_names(
    module: str, *, others: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a module that lists its names below `if
    TYPE_CHECKING:`.

    Arguments:
        module: the name of the module.
        others: modules with public names of their own, to which the error for an unknown name
            points.
    """
    homes = homes_of(module)
    public = sorted(name for name, home in homes.items() if home != module)

    def get(name: str) -> object:
        if name not in homes:
            for other in others if not name.startswith("_") else ():
                if name in import_module(other).__all__:
                    raise AttributeError(f"{module}.{name} is now {other}.{name}")
            instead = _INSTEAD.get(name)
            advice = f": {instead}" if instead and module == "rungwise" else ""
            raise AttributeError(f"module {module!r} has no attribute {name!r}{advice}")
        home = homes[name]
        if home == module:
            return import_module(f"{module}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: public, public


def homes_of(module: str) -> dict[str, str]:
    """Map each name that a public module lists to the module that defines it.

    The module is not imported, for the names of all are needed before any is used.
    """
    face = sys.modules["rungwise"]
    file = "__init__.py" if module == "rungwise" else f"{module.partition('.')[2]}.py"
    loader: Any = face.__loader__
    source = loader.get_data(join(dirname(str(face.__file__)), file)).decode()
    return {name: home for home, name in _LISTED.findall(source)}


def show_public_names() -> None:
    """Give each class and function of the lists its public name as soon as it is defined."""
    names: dict[str, dict[str, str]] = {}
    instead = {f"rungwise.{name}": advice for name, advice in _INSTEAD.items()}
    face = homes_of("rungwise")
    for module in PUBLIC:
        for name, home in homes_of(module).items():
            names.setdefault(home, {})[name] = module
            if name not in face:
                instead.setdefault(f"rungwise.{name}", f"it is {module}.{name}")
    sys.meta_path.insert(0, _Finder(names, instead))


class _Finder:
    """Find the modules that define public names, by the finders behind this one.

    Python asks it for `rungwise.NAME` as well where `from rungwise import NAME` finds no such name,
    and throws away what `__getattr__` has said of it.
    """

    def __init__(self, names: Mapping[str, Mapping[str, str]], instead: Mapping[str, str]) -> None:
        self.names = names  # the public module of each name, by the module that defines it
        self.instead = instead  # what takes the place of names that `rungwise` does not have

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that defines public names; None for any other.

        Raises:
            ImportError: it is a name that stands elsewhere, or is called otherwise.
        """
        if fullname in self.instead:
            name = fullname.removeprefix("rungwise.")
            raise ImportError(
                f"cannot import name {name!r} from 'rungwise': {self.instead[fullname]}"
            )
        if fullname not in self.names:
            return None
        place = sys.meta_path.index(self)
        for finder in sys.meta_path[place + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader, self.names[fullname])  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Run a module with its own loader, which it has again from then on, and set its names."""

    def __init__(self, loader: Any, names: Mapping[str, str]) -> None:
        self.loader = loader
        self.names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the module's own loader make it."""
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and set its names."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        for name, public in self.names.items():
            _rename(getattr(module, name), public)


def _rename(value: Any, public: str) -> None:
    """Set the `__module__` of a class or a function."""
    if isinstance(value, FunctionType):
        value.__module__ = public
    if not isinstance(value, type):
        return
    annotations = vars(value).get("__annotations__", {})
    for name, written in annotations.items():
        if isinstance(written, str):
            annotations[name] = ForwardRef(written, module=value.__module__, is_class=True)
    value.__module__ = public
    if "__firstlineno__" in vars(value):
        del value.__firstlineno__  # type: ignore[attr-defined]

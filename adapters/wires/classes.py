"""The class of each protocol's backends, by its name on the command line."""

from importlib import import_module

from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.registry import APIS
from rungwise.fsm.errors import ConfigurationError


def backend_class(api: str) -> type[HttpBackend]:
    """Return the class of a protocol's backends.

    Raises:
        ConfigurationError: a package is missing, or the registry names another class.
    """
    module, _, name = APIS[api].partition(":")
    try:
        kind = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        package = (error.name or "rungwise").split(".")[0]
        if package == "rungwise":
            raise
        raise ConfigurationError(
            f"{api} needs the package {package}: pip install 'rungwise[{api}]'"
        ) from None
    is_backend = isinstance(kind, type) and issubclass(kind, HttpBackend)
    if kind is None or not is_backend or getattr(kind, "API", None) != api:
        raise ConfigurationError(
            f"the registry's {api!r} must name a subclass of HttpBackend with API = {api!r}, "
            f"which {APIS[api]} is not"
        )
    backend: type[HttpBackend] = kind
    return backend

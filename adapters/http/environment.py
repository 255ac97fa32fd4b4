"""What the environment says of proxies and certificates, and clear errors where nothing can be made of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.request import getproxies

import httpx

from rungwise.fsm.errors import ConfigurationError

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("ssl_cert_file", "ssl_cert_dir")
"""The variables of the environment that httpx heeds, in lower case; upper case is as good."""

LARGEST_PORT = 65_535


@contextmanager
def environment_named() -> Iterator[None]:
    """Name the variables of the environment where no client can be made of what they say.

    Raises:
        ConfigurationError: their values are not shown, because the URL of a proxy may hold a password.
    """
    try:
        for name, url in getproxies().items():
            if f"{name}_proxy" in PROXIES[:3]:  # the last one is a list of hosts
                proxy = httpx.URL(url if "://" in url else f"http://{url}")
                if not proxy.raw_host.decode("ascii").encode("idna") or (proxy.port or 0) > LARGEST_PORT:
                    raise ValueError("no place to connect to")
        yield
    except (httpx.InvalidURL, ValueError, TypeError):
        raise ConfigurationError(f"{_set(PROXIES)} of the environment: not the URL of a proxy, or no host") from None
    except ImportError:
        raise ConfigurationError(
            f"{_set(PROXIES)} of the environment: a SOCKS proxy needs the package socksio (pip install 'httpx[socks]')"
        ) from None
    except OSError as error:  # also what `ssl` raises of a file that holds no certificates
        raise ConfigurationError(
            f"{_set(CERTIFICATES)} of the environment: no certificates can be read there ({type(error).__name__})"
        ) from None


def _set(names: Iterable[str]) -> str:
    return ", ".join(sorted(name for name in os.environ if name.lower() in names))

"""How many tests run at once, how much Hypothesis tries, and which tests are left to `.ci/run
full`.
"""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.facts import fact as fact
from support.held_up import run_again_where_held_up
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from support.sampling import THOROUGH, leave_the_dear_to_a_soak, mark_the_rest_as_full

TESTS = Path(__file__).parent
PAGES = f"{TESTS / 'browser'}{os.sep}"
BESIDE_A_CLOCK = [
    TESTS / room for room in ("adapters", "adoption", "browser", "end_to_end", "failover")
]

# No example fails for its time: a machine that is busy is slow. An ordinary run tries the same
# examples each time, so that what fails there is what has changed; the thorough one, and `rungwise
# fuzz`, look for what nobody has met yet.
settings.register_profile("thorough", max_examples=32, deadline=None)
settings.register_profile("ordinary", max_examples=6, deadline=None, derandomize=True)
settings.load_profile("thorough" if THOROUGH else "ordinary")


# no test asks the machine's own
os.environ |= {"AWS_REGION": "eu-north-1", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start a worker more than there are processors: many tests wait for a deadline to pass, and
    each worker first spends a dozen seconds on collecting them all. In a thorough run, which also
    waits for pip, that is little, and there are two more.
    """
    more = 2 if THOROUGH else 1
    return (os.cpu_count() or 1) + more


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `.ci/run full` all but every n-th case of what is marked `sampled(n)`, and most
    cases of any other test that has many; begin with the slowest.

    One that takes minutes and begins among the last would keep every other processor waiting. The
    tests of pages come next: what a process begins with is not taken over by another, which would
    have to start a browser of its own.
    """
    mark_the_rest_as_full(items)
    leave_the_dear_to_a_soak(items)
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Return which tests come first: those with the lowest number."""
    if item.get_closest_marker("slowest") is not None:
        return 0
    if str(item.path).startswith(PAGES):
        return 1
    return 2


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let no test that meets a real clock fail for a machine that held it up."""
    if not any(item.path.is_relative_to(room) for room in BESIDE_A_CLOCK):
        return None
    run_again_where_held_up(item, nextitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: most objects stay to the end. Spare every later
    collection of garbage the walk over them, too.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    """Start a Redis server. On a busy machine it may answer late; one that was killed refuses at
    once.
    """
    with pytest.MonkeyPatch.context() as patch, RedisServer() as server:
        patch.setattr("rungwise.adapters.stores.redis_store.TIMEOUT", 20.0)
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a Postgres server."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> Iterator[str]:
    """Return the URL of an empty Redis server. What a test leaves held there is renewed no more."""
    from rungwise.adapters.stores.heart import HEARTS

    redis_server.flush()
    yield redis_server.url
    for heart in list(HEARTS):
        heart.begin_anew()

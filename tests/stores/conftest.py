"""Every store, as a fixture: cases here run on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from corral.checkpoints.location import Location, open_store
from corral.checkpoints.store import Store
from tests.stores.servers import SERVERS, Served, remote_stores

_numbers = count()


@pytest.fixture(scope="session", params=["local", *remote_stores()])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One store server, running."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def location(served: Served) -> Location:
    """A place in that store that no other case uses."""
    return served.location.below(f"case-{next(_numbers)}")


@pytest.fixture
def store(served: Served, location: Location) -> Store:
    return open_store(location, served.credentials)


@pytest.fixture
def conditional(served: Served) -> None:
    """For cases that need create-if-absent."""
    if not served.conditional:
        pytest.skip("this server ignores If-None-Match")


@pytest.fixture
def ranged(served: Served) -> None:
    """For cases that read a piece of an object that was uploaded in parts."""
    if not served.ranged:
        pytest.skip("this server gives no ranges of objects uploaded in parts")

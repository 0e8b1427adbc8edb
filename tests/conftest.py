"""Fixtures shared by all tests: the servers, each started once a worker."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

from tests.backends import Backend, EmbeddedBackend, RealBackend
from tests.support import durations, forked

TESTS = Path(__file__).parent
pytest_plugins = ("tests.support.components",)

# how long an example takes depends on what else the machine does; a failing one can be repeated
hypothesis.settings.register_profile("corral", deadline=None, print_blob=True)
hypothesis.settings.load_profile("corral")

for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    # pods do not get the machine's variables, and what is computed here and there is compared
    del os.environ[_name]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups first: whoever gets a long one must not be the last to finish."""
    groups = {item.path: _group(item.path) for item in items}
    seconds = durations.of_groups(durations.read(), set(groups.values()))
    items.sort(key=lambda item: (-seconds[groups[item.path]], groups[item.path]))


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "write how long the files that run take to tests/durations.json"
    parser.addoption("--record-durations", action="store_true", help=words)
    words = "processes to run cases on (default: this one)"
    parser.addoption("--workers", type=int, default=1, help=words)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations"):
        config.pluginmanager.register(durations.Recorder())
    if config.getoption("--workers") > 1:
        config.pluginmanager.register(forked.Forked(config, _group))


def pytest_collection_finish() -> None:
    """What was collected stays until the end: looking for garbage in it again takes seconds."""
    gc.freeze()


_OF_FOLDERS: Final[list[tuple[pytest.FixtureDef[Any], Any]]] = []
"""Fixtures of the session that folders have for themselves, as they were set up."""


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> None:
    if fixturedef.scope == "session" and fixturedef.baseid not in ("", "tests"):
        _OF_FOLDERS.append((fixturedef, request))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Those fixtures end with the last case of their folder that this worker runs.

    They are clusters, most of them: all of a run together would take the machine's memory.
    """
    if not nextitem or nextitem.path.parent == item.path.parent:
        return
    over = [one for one in _OF_FOLDERS if not nextitem.nodeid.startswith(f"{one[0].baseid}/")]
    for one in reversed(over):
        _OF_FOLDERS.remove(one)
        one[0].finish(one[1])


@cache
def _group(path: Path) -> str:
    """What stays on one worker: a file, or a folder whose cases have a cluster to themselves.

    A cluster takes time and memory.
    """
    own = path.parent / "conftest.py"
    shared = os.environ.get("CORRAL_BACKEND") != "real" and own.is_file()
    found = path.parent if shared and "scope=own_scope" in own.read_text() else path
    return found.relative_to(TESTS).as_posix()


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Commands that run in this process change its umask, as those of a process of their own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Our server."""
    backend = EmbeddedBackend(tmp_path_factory.mktemp("embedded"))
    backend.start()
    yield backend
    backend.stop()


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """The real control plane."""
    backend = RealBackend(tmp_path_factory.mktemp("real"))
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    """The server that behaviour cases run on: CORRAL_BACKEND = embedded or real."""
    chosen: Backend = request.getfixturevalue(os.environ.get("CORRAL_BACKEND", "embedded"))
    return chosen


@pytest.fixture(scope="session")
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parent.parent

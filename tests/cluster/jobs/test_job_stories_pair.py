"""Every story on both servers at the same time, compared field by field."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.jobs.conftest import tell_all
from tests.cluster.jobs.telling import STORIES

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Where two values differ, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = [*ours, *(key for key in theirs if key not in ours)]
        return [
            line
            for key in keys
            for line in differences(ours.get(key), theirs.get(key), f"{where}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line
            for at, (mine, other) in enumerate(zip(ours, theirs, strict=True))
            for line in differences(mine, other, f"{where}[{at}]")
        ]
    return [] if ours == theirs else [f"{where}: ours {ours!r} theirs {theirs!r}"]


def test_both_tell_the_same(embedded: Backend, real: Backend) -> None:
    names = sorted(STORIES, key=lambda name: name != "every-minute")
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(lambda backend: tell_all(backend, names), (embedded, real))
    found = [line for name in names for line in differences(ours[name], theirs[name], name)]
    assert not found, "\n".join(found)
    assert all(isinstance(told, dict) for told in ours.values())

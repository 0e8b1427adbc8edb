"""Fixtures of the attacks: those of the behaviour cases, on the same backends."""

from __future__ import annotations

import os

import pytest

from tests.cluster.conftest import cluster, group, namespace, objects, unique

__all__ = ["cluster", "group", "namespace", "objects", "unique"]

OURS = frozenset(
    (
        "test_attack_node_health.py",
        "test_attack_overload.py",
        "test_calls_of_one_webhook_are_bounded",
        "test_warnings_are_bounded",
    )
)
"""Files and cases about limits and controllers of our own, which the real control plane lacks."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the real control plane, run only the cases that ask one and are not about our own.

    The others ran in `make test`.
    """
    if os.environ.get("CORRAL_BACKEND") != "real":
        return
    here = [item for item in items if "tests/security/" in item.nodeid]
    left = [item for item in here if not _asks_real(item)]
    items[:] = [item for item in items if item not in set(left)]
    config.hook.pytest_deselected(items=left)


def _asks_real(item: pytest.Item) -> bool:
    names = {item.path.name, getattr(item, "originalname", item.name)}
    return "backend" in getattr(item, "fixturenames", ()) and OURS.isdisjoint(names)

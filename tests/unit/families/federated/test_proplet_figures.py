"""Figures about proplets and reconciles, by the names of the contract."""

from __future__ import annotations

from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from corral.families.federated.groups.metrics import PropletMetrics
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.reconciles import counted
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.runtime import Manager, NotYetConsistent, Result, RuntimeMetrics


def test_a_proplet_of_two_groups_counts_once() -> None:
    registry = CollectorRegistry()
    metrics = PropletMetrics(registry)
    alive, dead = Proplet("a", "n", "Pod"), Proplet("b", "n", "Pod", why="gone")
    metrics.seen("ns/g", [alive, dead], {"a": 2})
    metrics.seen("ns/h", [alive], {"a": 2})
    text = generate_latest(registry).decode()
    for line in (
        'propeller_proplet_total{alive="true"} 1.0',
        'propeller_proplet_total{alive="false"} 1.0',
        "propeller_proplet_active 1.0",
        'propeller_proplet_tasks{proplet_id="a"} 2.0',
        'propeller_proplet_tasks{proplet_id="b"} 0.0',
    ):
        assert line in text, line
    metrics.gone("ns/g")
    metrics.gone("ns/unknown")
    text = generate_latest(registry).decode()
    assert 'alive="false"} 0.0' in text and 'proplet_id="b"' not in text


async def test_looks_are_counted_by_how_they_end() -> None:
    registry = CollectorRegistry()
    manager = Manager(cast(KubeClient, object()), metrics=RuntimeMetrics(registry))

    async def look(key: str) -> Result | None:
        if key == "late":
            raise NotYetConsistent(PODS, "1", "2")
        if key == "bad":
            raise ValueError(key)
        return Result(1.0) if key == "again" else None

    # two controllers of one process share the figures
    first, second = counted(manager, "one", look), counted(manager, "two", look)
    assert await first("good") is None
    assert await first("again") == Result(1.0)
    with pytest.raises(NotYetConsistent):
        await second("late")
    with pytest.raises(ValueError, match="bad"):
        await second("bad")
    text = generate_latest(registry).decode()
    for controller, result in (
        ("one", "success"),
        ("one", "requeue"),
        ("two", "requeue"),
        ("two", "error"),
    ):
        line = f'propeller_reconcile_total{{controller="{controller}",result="{result}"}} 1.0'
        assert line in text, line
    assert 'propeller_reconcile_duration_seconds_count{controller="one"} 2.0' in text


async def test_without_metrics_nothing_is_counted() -> None:
    manager = Manager(cast(KubeClient, object()))

    async def look(key: str) -> Result | None:
        return None

    assert counted(manager, "one", look) is look

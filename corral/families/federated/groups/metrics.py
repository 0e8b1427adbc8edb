"""Figures about proplets for Prometheus, by the names of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge

from corral.families.federated.groups.proplets import Proplet

__all__ = ["PropletMetrics"]


class PropletMetrics:
    """In the registry that is passed in; once a process. One in several groups counts once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Gauge(
            "propeller_proplet_total",
            "Proplets of all groups, by whether they are alive",
            ["alive"],
            registry=registry,
        )
        self._active = Gauge(
            "propeller_proplet_active", "Proplets that have tasks to do", registry=registry
        )
        self._tasks = Gauge(
            "propeller_proplet_tasks",
            "Tasks that a proplet has to do",
            ["proplet_id"],
            registry=registry,
        )
        self._groups: dict[str, dict[str, tuple[bool, int]]] = {}

    def seen(self, group: str, proplets: Iterable[Proplet], loads: Mapping[str, int]) -> None:
        """The proplets of a group, as they are now."""
        before = set(self._all())
        self._groups[group] = {p.id: (p.alive, loads.get(p.id, 0)) for p in proplets}
        self._publish(before)

    def gone(self, group: str) -> None:
        """The group is no more."""
        before = set(self._all())
        if self._groups.pop(group, None) is not None:
            self._publish(before)

    def _all(self) -> dict[str, tuple[bool, int]]:
        return {id: state for group in self._groups.values() for id, state in group.items()}

    def _publish(self, before: set[str]) -> None:
        now = self._all()
        for alive in (True, False):
            count = sum(1 for state in now.values() if state[0] is alive)
            self._total.labels(str(alive).lower()).set(count)
        self._active.set(sum(1 for _, tasks in now.values() if tasks))
        for id, (_, tasks) in now.items():
            self._tasks.labels(id).set(tasks)
        for id in before - set(now):
            self._tasks.remove(id)

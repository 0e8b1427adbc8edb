"""The table of one kind: its columns, and the function that fills a row."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from corral.cluster.apiserver.tables import (
    access,
    autoscalers,
    cluster,
    devices,
    network,
    pods,
    storage,
    workloads,
)
from corral.cluster.apiserver.tables.cells import Row, created_at
from corral.cluster.apiserver.tables.columns import columns_of
from corral.kube.types import Obj

__all__ = ["Table", "table_for"]

_ROWS: dict[tuple[str, str], Row] = {
    ("", "Pod"): pods.row,
    **workloads.ROWS,
    **autoscalers.ROWS,
    **network.ROWS,
    **storage.ROWS,
    **cluster.ROWS,
    **access.ROWS,
    **devices.ROWS,
}


class Table:
    """How a kind is printed. Shared by all requests and never changed."""

    columns: list[Obj]
    """Column definitions, wide ones included."""

    def __init__(self, group: str, version: str, kind: str) -> None:
        self.columns = columns_of(group, kind)
        self._row: Row = _ROWS.get((group, kind), _plain)
        self._is_pod = (group, kind) == ("", "Pod")
        self._is_storage_class = (group, kind) == ("storage.k8s.io", "StorageClass")
        if (group, version, kind) == ("autoscaling", "v1", "HorizontalPodAutoscaler"):
            self._row = autoscalers.first_version

    def row(self, obj: Obj, now: datetime) -> list[Any]:
        """The cells of one object; leaves it alone."""
        return self._row(obj, now)

    def rows(self, objs: list[Obj], now: datetime) -> list[list[Any]]:
        """The cells of the items of a list.

        Differs from ``row`` where a cell depends on the neighbours: only in a list is the default
        storage class marked, because among several the newest one counts.
        """
        if self._is_storage_class:
            return storage.class_rows(objs, now)
        fill = self._row
        return [fill(obj, now) for obj in objs]

    def conditions(self, obj: Obj) -> list[Obj]:
        """What a client may want to know of the row itself: that its pod is finished."""
        return pods.conditions(obj) if self._is_pod else []


def _plain(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), created_at(obj)]


@cache
def table_for(group: str, version: str, kind: str) -> Table:
    """The table of a built-in kind, the same object every time."""
    return Table(group, version, kind)

"""Entries as the bytes a client asked for: whole objects, metadata only, or rows of a Table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from corral.cluster.apiserver.http.negotiate import Output
from corral.cluster.apiserver.registry.core import Registry
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.registry.read import Page
from corral.cluster.apiserver.store import Entry
from corral.kube.types import Obj


class Table(Protocol):
    """How a kind is printed."""

    columns: list[Obj]

    def row(self, obj: Obj, now: datetime) -> list[Any]: ...


class Renderer:
    """Renders the entries of one kind for one request."""

    def __init__(
        self, registry: Registry, kind: Kind, out: Output, table: Table | None, include: str
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._out = out
        self._table = table
        self._include = include or "Metadata"
        self._columns_sent = False
        self.plain = out.shape == "object"
        """Whole objects, the same for every client."""
        info = kind.info
        head = orjson.dumps({"kind": info.kind, "apiVersion": info.api_version})
        self._head = head[:-1] + b","

    def one(self, entry: Entry) -> bytes:
        """One object (or its one-row Table)."""
        if self._out.shape == "object":
            return self._registry.encode_out(self._kind, entry)
        return self.obj(self._kind.from_storage(entry.decode()))

    def obj(self, obj: Obj) -> bytes:
        shape = self._out.shape
        if shape == "table":
            table = self._frame([self._row(obj)], {"resourceVersion": _version(obj)})
            return orjson.dumps(table)
        if shape == "metadata":
            return orjson.dumps(self._metadata(obj))
        return orjson.dumps(obj)

    def page(self, page: Page) -> bytes:
        meta: Obj = {"resourceVersion": str(page.revision)}
        if page.token:
            meta["continue"] = page.token
        if page.remaining:
            meta["remainingItemCount"] = page.remaining
        kind, registry = self._kind, self._registry
        if self._out.shape == "table":
            rows = [self._row(kind.from_storage(e.decode())) for e in page.entries]
            return orjson.dumps(self._frame(rows, meta))
        if self._out.shape == "metadata":
            items = [self._metadata(kind.from_storage(e.decode())) for e in page.entries]
            return orjson.dumps(
                {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": f"meta.k8s.io/{self._out.version}",
                    "metadata": meta,
                    "items": items,
                }
            )
        values = [registry.encode_out(kind, e) for e in page.entries]
        return self._list(values, meta)

    def _list(self, values: list[bytes], meta: Obj) -> bytes:
        """Join the stored bytes; items of built-in kinds carry no kind and apiVersion in lists."""
        info = self._kind.info
        head = orjson.dumps(
            {"kind": info.list_kind, "apiVersion": info.api_version, "metadata": meta}
        )
        if not info.custom:
            cut = len(self._head)
            own = self._head
            values = [b"{" + v[cut:] if v.startswith(own) else v for v in values]
        return b'%b,"items":[%b]}' % (head[:-1], b",".join(values))

    def bookmark(self, obj: Obj) -> Obj:
        if self._out.shape == "table":
            row = {"cells": [None] * len(self._columns()), "object": self._metadata(obj)}
            return self._frame([row], {"resourceVersion": _version(obj)})
        return self._metadata(obj) if self._out.shape == "metadata" else obj

    def _columns(self) -> list[Obj]:
        assert self._table is not None
        return self._table.columns

    def _frame(self, rows: list[Obj], meta: Obj) -> Obj:
        table: Obj = {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._out.version}",
            "metadata": meta,
            "columnDefinitions": None if self._columns_sent else self._columns(),
            "rows": rows,
        }
        self._columns_sent = True
        return table

    def _row(self, obj: Obj) -> Obj:
        assert self._table is not None
        row: Obj = {"cells": self._table.row(obj, datetime.now(UTC))}
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = self._metadata(obj)
        return row

    def _metadata(self, obj: Obj) -> Obj:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{self._out.version}",
            "metadata": obj.get("metadata") or {},
        }


def _version(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion", ""))

"""Entries as the bytes a client asked for: whole objects, metadata only, or rows of a Table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from corral.cluster.apiserver.crud.core import Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.read import Page
from corral.cluster.apiserver.http.negotiate import Output
from corral.cluster.apiserver.store import Entry
from corral.kube.types import Obj


class Table(Protocol):
    """How a kind is printed."""

    columns: list[Obj]

    def row(self, obj: Obj, now: datetime) -> list[Any]: ...

    def rows(self, objects: list[Obj], now: datetime) -> list[list[Any]]: ...

    def conditions(self, obj: Obj) -> list[Obj]: ...


PIECE = 200
"""Objects of a list that are encoded and sent at once."""
PIECE_BYTES = 64 * 1024
ROWS = 40
ROWS_BYTES = 32 * 1024
"""The same for the rows of a Table, whose cells are computed."""


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
        self._meta_version = f"meta.k8s.io/{out.version}"
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
            assert self._table is not None
            row = self._row(obj, self._table.row(obj, datetime.now(UTC)))
            table = self._frame([row], {"resourceVersion": _version(obj)})
            return orjson.dumps(table)
        if shape == "metadata":
            return orjson.dumps(self._metadata(obj))
        return orjson.dumps(obj)

    def page(self, page: Page) -> Iterator[bytes]:
        """A list, in pieces of some hundred objects: a large one is never whole in memory."""
        meta: Obj = {"resourceVersion": str(page.revision)}
        if page.token:
            meta["continue"] = page.token
        if page.remaining:
            meta["remainingItemCount"] = page.remaining
        if self._out.shape == "table":
            assert self._table is not None
            yield from self._rows(self._table, page.entries, meta)
        elif self._out.shape == "metadata":
            head = {"kind": "PartialObjectMetadataList", "apiVersion": self._meta_version}
            yield from self._list({**head, "metadata": meta}, page.entries, self.one)
        else:
            info = self._kind.info
            head = {"kind": info.list_kind, "apiVersion": info.api_version}
            encode = self.one if info.custom else self._item
            yield from self._list({**head, "metadata": meta}, page.entries, encode)

    def _rows(self, table: Table, entries: list[Entry], meta: Obj) -> Iterator[bytes]:
        now = datetime.now(UTC)
        before = orjson.dumps(self._frame([], meta)).removesuffix(b"]}")
        whole = self._kind.info.plural == "storageclasses"  # the newest default one is marked
        for piece in [entries] if whole else in_pieces(entries, ROWS, ROWS_BYTES):
            objects = [self._kind.from_storage(e.decode()) for e in piece]
            cells = table.rows(objects, now)
            rows = [self._row(o, c) for o, c in zip(objects, cells, strict=True)]
            yield before + orjson.dumps(rows)[1:-1]
            before = b","
        yield (b"" if entries else before) + b"]}"

    def _item(self, entry: Entry) -> bytes:
        """Items of built-in kinds carry no kind and apiVersion in lists."""
        value = self._registry.encode_out(self._kind, entry)
        return b"{" + value[len(self._head) :] if value.startswith(self._head) else value

    def _list(
        self, head: Obj, entries: list[Entry], encode: Callable[[Entry], bytes]
    ) -> Iterator[bytes]:
        before = orjson.dumps(head)[:-1] + b',"items":['
        for piece in in_pieces(entries):
            yield before + b",".join([encode(e) for e in piece])
            before = b","
        yield (b"" if entries else before) + b"]}"

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
            "apiVersion": self._meta_version,
            "metadata": meta,
            "columnDefinitions": None if self._columns_sent else self._columns(),
            "rows": rows,
        }
        self._columns_sent = True
        return table

    def _row(self, obj: Obj, cells: list[Any]) -> Obj:
        assert self._table is not None
        row: Obj = {"cells": cells}
        conditions = self._table.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = self._metadata(obj)
        return row

    def _metadata(self, obj: Obj) -> Obj:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": self._meta_version,
            "metadata": obj.get("metadata") or {},
        }


def in_pieces(
    entries: list[Entry], most: int = PIECE, most_bytes: int = PIECE_BYTES
) -> Iterator[list[Entry]]:
    """Parts of a list that are neither long nor large."""
    start = size = 0
    for at, entry in enumerate(entries):
        if at - start >= most or (size and size + len(entry.value) > most_bytes):
            yield entries[start:at]
            start, size = at, 0
        size += len(entry.value)
    if entries:
        yield entries[start:]


def _version(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion", ""))

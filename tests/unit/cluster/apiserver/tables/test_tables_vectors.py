"""Rows and columns as a real API server printed them, kept with the objects they were made of."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.resources import builtin
from corral.cluster.apiserver.tables import Table, table_for

VECTORS: list[dict[str, Any]] = orjson.loads(
    (Path(__file__).parent / "tables_vectors.json").read_bytes()
)


def table_of(vector: dict[str, Any]) -> Table:
    group, _, version = vector["apiVersion"].rpartition("/")
    return table_for(group, version, vector["kind"])


def kind_of(vector: dict[str, Any]) -> str:
    return f"{vector['apiVersion']}/{vector['kind']}"


ROWS = [
    pytest.param(vector, row, id=f"{kind_of(vector)}/{row['object']['metadata']['name']}")
    for vector in VECTORS
    for row in vector["rows"]
]


@pytest.mark.parametrize("vector", VECTORS, ids=kind_of)
def test_columns(vector: dict[str, Any]) -> None:
    columns = table_of(vector).columns
    keys = ("name", "type", "format", "priority")
    assert [[column[key] for key in keys] for column in columns] == vector["columns"]
    assert all(set(column) == {*keys, "description"} for column in columns)


@pytest.mark.parametrize(("vector", "row"), ROWS)
def test_cells(vector: dict[str, Any], row: dict[str, Any]) -> None:
    cells = table_of(vector).row(row["object"], datetime.fromisoformat(vector["now"]))
    assert cells == row["cells"]
    # True == 1 in Python, but not in JSON.
    assert [type(cell) for cell in cells] == [type(cell) for cell in row["cells"]]


@pytest.mark.parametrize(("vector", "row"), ROWS)
def test_row_conditions(vector: dict[str, Any], row: dict[str, Any]) -> None:
    assert table_of(vector).conditions(row["object"]) == row.get("conditions", [])


@pytest.mark.parametrize("vector", VECTORS, ids=kind_of)
def test_printing_leaves_objects_alone(vector: dict[str, Any]) -> None:
    objs = [row["object"] for row in vector["rows"]]
    before = orjson.dumps(objs)
    table_of(vector).rows(objs, datetime.fromisoformat(vector["now"]))
    assert orjson.dumps(objs) == before


def test_vectors_hold_every_kind_that_can_be_read() -> None:
    served = {
        (info.group, info.version, info.kind)
        for info in builtin()
        if "get" in info.verbs and info.group != "metrics.k8s.io"
    }
    held = {
        (v["apiVersion"].rpartition("/")[0], v["apiVersion"].rpartition("/")[2], v["kind"])
        for v in VECTORS
        if v["rows"]
    }
    assert served <= held

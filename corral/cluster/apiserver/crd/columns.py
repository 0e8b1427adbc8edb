"""Table columns and cells of custom resources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from corral.cluster.apiserver.crd.jsonpath import compile_path
from corral.cluster.apiserver.crd.problems import go_number
from corral.kube.types import Obj

__all__ = ["age", "column_definitions", "compile_row"]

_NAME: Obj = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": (
        "Name must be unique within a namespace. Is required when creating resources, although "
        "some resources may allow a client to request the generation of an appropriate name "
        "automatically. Name is primarily intended for creation idempotence and configuration "
        "definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "priority": 0,
}
_AGE: Obj = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_CREATED = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the "
    "system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/"
    "devel/sig-architecture/api-conventions.md#metadata"
)

Now = Callable[[], datetime]
Cell = Callable[[Any, Now], Any]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _columns(version: Obj) -> list[Obj]:
    return version.get("additionalPrinterColumns") or [{**_AGE, "description": _CREATED}]


def column_definitions(version: Obj) -> list[Obj]:
    """The Table's column definitions: Name, then the version's own or Age."""
    out = [dict(_NAME)]
    for column in _columns(version):
        path = column["jsonPath"]
        described = f"Custom resource definition column (in JSONPath format): {path}"
        out.append(
            {
                "name": column["name"],
                "type": column["type"],
                "format": column.get("format", ""),
                "description": column.get("description") or described,
                "priority": column.get("priority", 0),
            }
        )
    return out


def compile_row(version: Obj) -> Callable[[Obj, Now], list[Any]]:
    """The function from an object to the cells of its row."""
    cells = [(compile_path(c["jsonPath"]), _CELLS[c["type"]]) for c in _columns(version)]

    def row(obj: Obj, now: Now = _utc_now) -> list[Any]:
        out: list[Any] = [obj["metadata"].get("name", "")]
        for find, cell in cells:
            found = find(obj)
            out.append(cell(found[0], now) if found else None)
        return out

    return row


def _text(value: Any, now: Now) -> str:
    """Objects and lists print as JSON, everything else as Go prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return go_number(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(value: Any, now: Now) -> int | None:
    return int(value) if type(value) in (int, float) else None


def _number(value: Any, now: Now) -> float | int | None:
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) in (int, float) else None


def _boolean(value: Any, now: Now) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: Now) -> str | None:
    if not isinstance(value, str):
        return None
    return age(value, now())


_CELLS: dict[str, Cell] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def age(timestamp: str, now: datetime) -> str:
    """How long ago, in the short form of kubectl (``5d3h``)."""
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<invalid>" if timestamp else "<unknown>"
    if then.tzinfo is None:
        return "<invalid>"
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """A duration with one or two units, coarser as it grows."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    if days < 365 * 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"

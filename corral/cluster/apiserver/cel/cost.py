"""What evaluating an expression may cost, by the sizes that a schema allows.

The engine hands out the syntax tree of what it parsed. Its nodes are counted as upstream counts
them; loops by the largest list or map that may be there. What is not known counts as little, so
nothing is refused here that upstream accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from corral.cluster.apiserver.cel.engine import parsed
from corral.kube.types import Obj

__all__ = [
    "COST_LIMIT",
    "MOST",
    "TOTAL_COST_LIMIT",
    "cost_message",
    "estimated_cost",
    "largest",
    "most_values",
]

COST_LIMIT = 10_000_000
"""Of one expression."""
TOTAL_COST_LIMIT = 100_000_000
"""Of all expressions of a definition."""
MOST = 2**63
_REQUEST = 3 * 2**20
_LIST, _MAP, _MESSAGE = 10, 30, 40
_SHORTEST = {"date-time": 21, "date": 12, "duration": 3}
"""Strings of a format, with their quotes."""
_KEY: Obj = {"type": "string", "maxLength": 0}
"""Of a map; upstream takes it to have no size."""
_INDEX: Obj = {"type": "integer"}
_SIZELESS = frozenset({"boolean", "integer", "number", "object"})
_NODES = {4: "ident", 5: "select", 6: "call", 7: "list", 8: "struct", 9: "loop"}

Fields = dict[int, list[Any]]
Env = Mapping[str, Obj | None]


def estimated_cost(expression: str, schema: Obj) -> int:
    """The most that the expression may cost for a value of this schema; 0 if it does not parse."""
    raw = parsed(expression)
    if raw is None:
        return 0
    whole = _read(_read(raw)[2][0])
    tree = _read(whole[2][0])
    return min(_cost(tree, {"self": schema, "oldSelf": schema})[0], MOST)


def cost_message(what: str, cost: int, limit: int) -> str:
    """Upstream's words."""
    factor = cost / limit
    shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    if factor > 100:
        shown = "more than 100x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def largest(schema: Obj | None) -> int:
    """How many items or members a value of a schema may have."""
    if schema is None:
        return 1
    if schema.get("type") == "array":
        most = schema.get("maxItems")
        return (_REQUEST - 2) // (_smallest(schema.get("items")) + 1) if most is None else int(most)
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties")
        if not isinstance(extra, dict):
            return len(schema.get("properties") or ())
        most = schema.get("maxProperties")
        return (_REQUEST - 2) // (_smallest(extra) + 6) if most is None else int(most)
    return 1


def most_values(schema: Obj) -> int:
    """How many values of a schema one request can hold."""
    return (_REQUEST - 2) // (_smallest(schema) + 1)


def _smallest(schema: Any) -> int:
    """The bytes of the shortest JSON value of a schema."""
    if not isinstance(schema, dict):
        return 1
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties") or {}
        needed = [n for n in schema.get("required") or () if n in properties]
        return 2 + sum(len(n) + 3 + _smallest(properties[n]) + 1 for n in needed)
    if kind == "string":
        return _SHORTEST.get(str(schema.get("format")), 2)
    return {"array": 2, "boolean": 4}.get(str(kind), 1)


# -- the tree --------------------------------------------------------------------------------------


def _cost(node: Fields, env: Env) -> tuple[int, Obj | None]:
    """The cost of a node, and the schema of its value where that is known."""
    for number, name in _NODES.items():
        if number in node:
            inner = node[number][0]
            if name == "ident":
                found = _text(_read(inner), 1)
                # a type, or the first part of a function's name, is no variable
                return (1, env[found]) if found in env else (0, None)
            cost: tuple[int, Obj | None] = _COSTS[name](_read(inner), env)
            return cost
    return 0, None  # a constant


def _select(node: Fields, env: Env) -> tuple[int, Obj | None]:
    cost, schema = _cost(_read(node[1][0]), env)
    if 3 in node:  # has(): the look itself is free
        return cost, None
    return cost + 1, _member(schema, _text(node, 2))


def _member(schema: Obj | None, name: str) -> Obj | None:
    if schema is None:
        return None
    found = (schema.get("properties") or {}).get(name)
    extra = schema.get("additionalProperties")
    return found or (extra if isinstance(extra, dict) else None)


def _call(node: Fields, env: Env) -> tuple[int, Obj | None]:
    parts = [_read(raw) for number in (1, 3) for raw in node.get(number, ())]
    found = [_cost(part, env) for part in parts]
    total = sum(cost for cost, _ in found)
    match _text(node, 2):
        case "_[_]" | "_[?_]":
            return total + 1, _element(found[0][1])
        case "@in" if found and (found[-1][1] or {}).get("type") == "array":
            return total + largest(found[-1][1]), None
        case "_&&_" | "_||_":
            return total, None
        case "_==_" | "_!=_" if any(map(_has_no_size, parts, (schema for _, schema in found))):
            return total, None
        case "_?_:_" if len(found) == 3:
            cost = found[0][0] + max(found[1][0], found[2][0])
            return cost, found[1][1] or found[2][1]
        case _:
            return total + 1, None


def _has_no_size(node: Fields, schema: Obj | None) -> bool:
    """Whether comparing with it is free: with '', [] and {}, numbers and objects of fields."""
    if 3 in node:
        return _read(node[3][0]).get(6) == [b""]
    if 7 in node or 8 in node:
        return not _read(node[7 if 7 in node else 8][0])
    if schema is None or isinstance(schema.get("additionalProperties"), dict):
        return False
    return schema.get("type") in _SIZELESS or schema.get("maxLength") == 0


def _element(schema: Obj | None) -> Obj | None:
    if schema is None:
        return None
    items = schema.get("items")
    extra = schema.get("additionalProperties")
    return items if isinstance(items, dict) else extra if isinstance(extra, dict) else None


def _list(node: Fields, env: Env) -> tuple[int, Obj | None]:
    items = [_cost(_read(raw), env) for raw in node.get(1, ())]
    schema = {"type": "array", "maxItems": len(items)}
    return _LIST + sum(cost for cost, _ in items), schema


def _struct(node: Fields, env: Env) -> tuple[int, Obj | None]:
    total = _MESSAGE if 1 in node else _MAP
    for raw in node.get(2, ()):
        entry = _read(raw)
        values = (one for number in (3, 4) for one in entry.get(number, ()))
        total += sum(_cost(_read(one), env)[0] for one in values)
    return total, None


def _loop(node: Fields, env: Env) -> tuple[int, Obj | None]:
    def part(number: int, scope: Env) -> tuple[int, Obj | None]:
        return _cost(_read(node[number][0]), scope) if number in node else (0, None)

    ranged, schema = part(2, env)
    begun, first = part(4, env)
    size, accumulator = largest(schema), _text(node, 3)
    element = _element(schema)
    mapped = (schema or {}).get("type") == "object"
    key = _KEY if mapped else element
    inner = {**env, _text(node, 1): key, accumulator: first}
    if 8 in node:
        inner |= {_text(node, 1): _KEY if mapped else _INDEX, _text(node, 8): element}
    step = part(5, inner)[0] + part(6, inner)[0]
    built = first
    if (first or {}).get("type") == "array":  # what map and filter make is as long at most
        built = {"type": "array", "maxItems": size, "items": element}
    last, result = part(7, {**env, accumulator: built})
    return ranged + begun + size * step + last, result


_COSTS: Any = {"select": _select, "call": _call, "list": _list, "struct": _struct, "loop": _loop}


# -- protobuf --------------------------------------------------------------------------------------


def _text(node: Fields, number: int) -> str:
    return node[number][0].decode() if number in node else ""


def _read(raw: bytes) -> Fields:
    """The fields of a message."""
    out: Fields = {}
    for number, value in _fields(raw):
        out.setdefault(number, []).append(value)
    return out


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        match tag & 7:
            case 0:
                value, at = _varint(raw, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(raw, at)
                yield tag >> 3, raw[at : at + size]
                at += size
            case kind:
                at += 8 if kind == 1 else 4


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at

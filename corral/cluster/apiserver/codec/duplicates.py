"""Keys that stand twice in a JSON object, which no ordinary parser shows."""

from __future__ import annotations

import json
from typing import Any

import orjson

from corral.kube.types import Obj


def may_have_duplicates(raw: bytes, parsed: Obj) -> bool:
    """Whether ``raw`` has more keys than came out of it; now and then a false alarm."""
    return raw.count(b'":') != orjson.dumps(parsed).count(b'":')


def duplicate_fields(raw: bytes, parsed: Obj) -> list[str]:
    """``duplicate field "spec.x"`` for every key that an object of ``raw`` has more than once."""
    if not may_have_duplicates(raw, parsed):
        return []
    found: list[str] = []
    _walk(json.loads(raw, object_pairs_hook=_Pairs), "", found)
    return list(dict.fromkeys(found))


class _Pairs(list[tuple[str, Any]]):
    """The members of one object, as they stand."""


def _walk(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, member in value:
            where = f"{path}.{key}" if path else key
            if key in seen:
                found.append(f'duplicate field "{where}"')
            seen.add(key)
            _walk(member, where, found)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            _walk(member, f"{path}[{index}]", found)

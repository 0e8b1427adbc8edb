"""The words a strategic merge patch steers with, and the errors for misusing them.

Only the malformed directives are the client's fault to kube-apiserver (400); the other mistakes
answer 500 with no reason, and so they do here.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.patch.goformat import go_format, go_string, go_type
from corral.kube.errors import ApiError, BadRequest
from corral.kube.types import Obj

__all__ = [
    "DELETE_PREFIX",
    "DIRECTIVE",
    "ORDER_PREFIX",
    "RETAIN_KEYS",
    "bad_directive",
    "drop_directives",
    "drop_nulls",
    "field_of",
    "identity",
    "keep_only",
    "no_merge_key",
    "unexpected",
]

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList"
ORDER_PREFIX = "$setElementOrder"

_BAD_FORMAT = {
    DELETE_PREFIX: "invalid patch format of primitive list",
    ORDER_PREFIX: "invalid patch format of setElementOrder list",
}


def field_of(key: str, prefix: str) -> str:
    """The list a ``$…/FIELD`` directive is about."""
    head, slash, field = key.partition("/")
    if not slash or head != prefix:
        raise BadRequest(_BAD_FORMAT[prefix])
    return field


def bad_directive(directive: Any, patch: Obj) -> ApiError:
    return ApiError(f"unknown patch type: {go_string(directive)} in map: {go_format(patch)}")


def no_merge_key(item: Obj, key: str) -> ApiError:
    return ApiError(f"map: {go_format(item)} does not contain declared merge key: {key}")


def unexpected(expected: type, value: Any) -> ApiError:
    return ApiError(f"expected a {go_type(expected())}, but received a {go_type(value)}")


def identity(value: Any) -> Any:
    """A hashable stand-in that is equal for equal JSON scalars of one type only."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        # kube-apiserver drops the connection here: its runtime cannot compare such values.
        raise ApiError(f"{go_type(value)} cannot identify an item of a list")
    return type(value), value


def keep_only(original: Obj, patch: Obj) -> None:
    """Obey ``$retainKeys`` and take it out of the patch."""
    if RETAIN_KEYS not in patch:
        return
    listed = patch.pop(RETAIN_KEYS)
    if not isinstance(listed, list):
        raise BadRequest("invalid patch format of retainKeys")
    kept = {identity(key) for key in listed}
    for key, value in patch.items():
        if value is None or key.startswith((DELETE_PREFIX, ORDER_PREFIX)):
            continue
        if key not in kept:
            raise BadRequest("invalid patch format of retainKeys")
    for key in [key for key in original if key not in kept]:
        del original[key]


def drop_nulls(value: Any) -> None:
    """Drop null members of objects at any depth, in place."""
    if isinstance(value, dict):
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        for child in value.values():
            drop_nulls(child)
    elif isinstance(value, list):
        for child in value:
            drop_nulls(child)


def drop_directives(value: Any) -> bool:
    """Drop objects with ``$patch`` below ``value``, in place; False if it is one itself."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return False
        for key in [key for key, child in value.items() if not drop_directives(child)]:
            del value[key]
    elif isinstance(value, list):
        value[:] = [child for child in value if drop_directives(child)]
    return True

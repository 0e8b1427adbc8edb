"""Strategic merge patch: a merge patch that knows which lists are keyed.

A patch may steer the merge with directives: ``$patch: replace`` or ``delete`` in an object or in an
item of a keyed list, ``$retainKeys``, ``$deleteFromPrimitiveList/FIELD`` and
``$setElementOrder/FIELD``. Objects new to the document lose their ``$patch`` objects and nulls;
items new to a keyed list are taken as they are.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.patch.body import parse, refuse
from corral.cluster.apiserver.patch.directives import (
    DELETE_PREFIX,
    DIRECTIVE,
    ORDER_PREFIX,
    bad_directive,
    drop_directives,
    drop_nulls,
    field_of,
    identity,
    keep_only,
    no_merge_key,
    unexpected,
)
from corral.cluster.apiserver.patch.goformat import go_format, json_type
from corral.cluster.apiserver.patch.listorder import arrange, check_order
from corral.cluster.apiserver.patch.patchmeta import PatchField, PatchType, patch_type
from corral.kube.errors import ApiError, BadRequest
from corral.kube.types import Obj

__all__ = ["apply_strategic_patch"]

_ABSENT: Any = object()


def apply_strategic_patch(doc: Obj, body: bytes | Obj, definition: str) -> Obj:
    """Merge a patch into ``doc`` by the merge keys of an OpenAPI definition.

    ``doc`` is changed, and so is a ``body`` given as an object.

    Raises:
        BadRequest: the body or a directive is malformed.
        Invalid: the patch has lists in a merged list.
        ApiError: 500, as kube-apiserver answers to every other patch it cannot merge.
    """
    patch = parse(body) if isinstance(body, bytes) else body
    if patch is None:
        return doc
    if not isinstance(patch, dict):
        raise BadRequest(
            f"json: cannot unmarshal {json_type(patch)} into Go value "
            "of type map[string]interface {}"
        )
    return _merge_objects(doc, patch, patch_type(definition))


def _merge_objects(original: Obj, patch: Obj, known: PatchType) -> Obj:
    if DIRECTIVE in patch:
        return _whole(patch)
    keep_only(original, patch)
    _merge_ordered(original, patch, known)
    for key, value in patch.items():
        deleting = key.startswith(DELETE_PREFIX)
        if deleting:
            key = field_of(key, DELETE_PREFIX) or key
        if value is None:
            original.pop(key, None)
            continue
        current = original.get(key, _ABSENT)
        if type(current) is not type(value):
            if not deleting:
                _take(original, key, value)
        elif isinstance(value, dict):
            field = known.field(key)
            replaced = field.strategy == "replace"
            original[key] = value if replaced else _merge_objects(current, value, field.value)
        elif isinstance(value, list):
            field, item = known.list_field(key)
            original[key] = _merge_field(current, value, field, item, deleting=deleting)
        else:
            original[key] = value
    return original


def _whole(patch: Obj) -> Obj:
    """An object with ``$patch`` is not merged at all."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        del patch[DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    raise bad_directive(directive, patch)


def _take(original: Obj, key: str, value: Any) -> None:
    """Take a value that has nothing to be merged with."""
    drop_nulls(value)
    if drop_directives(value):
        original[key] = value
    else:
        original.pop(key, None)


def _merge_ordered(original: Obj, patch: Obj, known: PatchType) -> None:
    """Merge the lists that have a ``$setElementOrder``, and take both out of the patch."""
    for key in [key for key in patch if key.startswith(ORDER_PREFIX)]:
        order = patch.pop(key)
        if not isinstance(order, list):
            raise unexpected(list, order)
        name = field_of(key, ORDER_PREFIX)
        live, wanted = original.get(name, _ABSENT), patch.get(name, _ABSENT)
        for side in (live, wanted):
            if side is not _ABSENT and not isinstance(side, list):
                raise unexpected(list, side)
        field, item = known.list_field(name)
        check_order([] if wanted is _ABSENT else wanted, order, field.merge_key)
        if live is _ABSENT and wanted is _ABSENT:
            continue
        if wanted is _ABSENT:
            merged, wanted = live, []
        elif live is _ABSENT:
            merged, live = list(wanted), []
            drop_directives(merged)
        else:
            merged = _merge_field(live, wanted, field, item, deleting=False)
        original[name] = arrange(merged, order, live, field.merge_key)
        _item_type(live, wanted)
        patch.pop(name, None)


def _merge_field(
    live: list[Any], patch: list[Any], field: PatchField, item: PatchType, *, deleting: bool
) -> list[Any]:
    if field.strategy != "merge" and not deleting:
        return patch
    if not live and not patch:
        return live
    if _item_type(live, patch) is dict:
        if not field.merge_key:
            raise ApiError(f"cannot merge lists without merge key for {item.kind}")
        return _merge_items(live, patch, field.merge_key, item)
    if deleting:
        gone = {identity(value) for value in patch}
        return [value for value in live if identity(value) not in gone]
    union = {identity(value): value for value in live + patch}
    return arrange(list(union.values()), patch, live, field.merge_key)


def _item_type(*lists: list[Any]) -> type:
    """The one type of all items."""
    types = [type(item) for items in lists for item in items]
    if not types:
        raise ApiError("no elements in any of the given slices")
    if types[0] is list:
        refuse()
    if types[0] is type(None) or any(found is not types[0] for found in types):
        shown = go_format([list(items) for items in lists])
        raise ApiError(f"list element types are not identical: {shown}")
    return types[0]


def _merge_items(live: list[Any], patch: list[Any], key: str, item: PatchType) -> list[Any]:
    """Merge a keyed list; ``live`` loses the deleted items and is filled up with the new ones."""
    size = len(live)
    patch, replace = _without_directives(live, patch, key)
    if replace:
        return arrange(patch, [], patch, key)
    merged = list(live)
    positions: dict[Any, int] = {}
    for at, entry in enumerate(merged):
        if key in entry:
            positions.setdefault(identity(entry[key]), at)
    for entry in patch:
        if key not in entry:
            raise no_merge_key(entry, key)
        name = identity(entry[key])
        at = positions.setdefault(name, len(merged))
        if at == len(merged):
            merged.append(entry)
        else:
            merged[at] = _merge_objects(merged[at], entry, item)
    arranged = arrange(merged, patch, live, key)
    # The reference appends into the room that deleted items left in the live list, and a
    # $setElementOrder then sees those new items as live ones. Clients can tell, so keep it.
    live[:] = merged[:size]
    return arranged


def _without_directives(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], bool]:
    """Obey the items with ``$patch``; returns the others and whether they replace the list."""
    plain: list[Any] = []
    gone: set[Any] = set()
    replace = False
    for entry in patch:
        if DIRECTIVE not in entry:
            plain.append(entry)
            continue
        match entry[DIRECTIVE]:
            case "delete":
                if key not in entry:
                    raise no_merge_key(entry, key)
                gone.add(identity(entry[key]))
            case "replace":
                replace = True
            case "merge":
                raise ApiError("merging lists cannot yet be specified in the patch")
            case directive:
                raise bad_directive(directive, entry)
    if gone:
        live[:] = [i for i in live if key not in i or identity(i[key]) not in gone]
    return plain, replace

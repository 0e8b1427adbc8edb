"""The order of a merged list.

Items the patch speaks of stand in the order of the patch (or of ``$setElementOrder``), the others
in the order of the live list; then the others are woven in before the first item of the patch that
follows them in the live list. Neither group is ever reordered for the other's sake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver.patch.directives import (
    DIRECTIVE,
    identity,
    no_merge_key,
    unexpected,
)
from corral.cluster.apiserver.patch.goformat import go_format
from corral.kube.errors import ApiError

__all__ = ["arrange", "check_order"]

Identify = Callable[[Any], Any]

_LONG = 512


def arrange(merged: list[Any], wanted: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Sort ``merged`` by the order of ``wanted`` first and of ``live`` second.

    Raises:
        ApiError: 500, an item is not what the merge key needs.
    """
    identify = _identifier(merge_key)
    if merge_key:
        for at, item in enumerate(wanted):
            if not isinstance(item, dict):
                raise ApiError(f"value for key {at} is not a map")
    in_wanted = _positions(wanted, identify)
    in_live = _positions(live, identify)
    ours: list[Any] = []
    theirs: list[Any] = []
    for item in merged:
        (ours if identify(item) in in_wanted else theirs).append(item)
    if not theirs:
        return _sorted(ours, in_wanted, identify)
    if not ours:
        return _sorted(theirs, in_live, identify)
    ours = _sorted(ours, in_wanted, identify)
    theirs = _sorted(theirs, in_live, identify)
    return _weave(theirs, ours, in_live, identify)


def _identifier(merge_key: str) -> Identify:
    if not merge_key:
        return identity

    def by_key(item: Any) -> Any:
        if not isinstance(item, dict):
            raise unexpected(dict, item)
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        return identity(item[merge_key])

    return by_key


def _positions(order: list[Any], identify: Identify) -> dict[Any, int]:
    """Where each item first stands."""
    positions: dict[Any, int] = {}
    for at, item in enumerate(order):
        positions.setdefault(identify(item), at)
    return positions


def _sorted(items: list[Any], positions: dict[Any, int], identify: Identify) -> list[Any]:
    keyed = [(positions.get(identify(item), -1), item) for item in items]
    if all(at >= 0 for at, _ in keyed):
        keyed.sort(key=lambda pair: pair[0])
        return [item for _, item in keyed]
    # An item without a position is "less" than all before it and "more" than all after it. What
    # that leads to is decided by the sort: insertion, as the reference does it for short lists.
    # In a long list it means nothing any more, and insertion would take too long.
    if len(keyed) > _LONG:
        keyed.sort(key=lambda pair: pair[0])
        return [item for _, item in keyed]
    done: list[tuple[int, Any]] = []
    for pair in keyed:
        at = len(done)
        while at > 0 and (pair[0] < 0 or done[at - 1][0] < 0 or pair[0] < done[at - 1][0]):
            at -= 1
        done.insert(at, pair)
    return [item for _, item in done]


def _weave(
    theirs: list[Any], ours: list[Any], in_live: dict[Any, int], identify: Identify
) -> list[Any]:
    woven: list[Any] = []
    waiting = 0
    for item in ours:
        at = in_live.get(identify(item))
        while at is not None and waiting < len(theirs):
            before = in_live.get(identify(theirs[waiting]))
            if before is None or before >= at:
                break
            woven.append(theirs[waiting])
            waiting += 1
        woven.append(item)
    return woven + theirs[waiting:]


def check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Refuse a patch list whose items are not all in ``order``, in the same order.

    Raises:
        ApiError: 500.
    """
    if not order or not patch:
        return
    identify = _identifier(merge_key)
    items = _not_deleted(patch) if merge_key else patch
    at = entry = 0
    while at < len(items) and entry < len(order):
        if isinstance(items[at], dict) and DIRECTIVE in items[at]:
            at += 1
            continue
        if identify(items[at]) == identify(order[entry]):
            at += 1
        entry += 1
    if at < len(items):
        raise ApiError(
            f"The order in patch list:\n{go_format(patch)}\n doesn't match $setElementOrder list:"
            f"\n{go_format(order)}\n"
        )


def _not_deleted(patch: list[Any]) -> list[Any]:
    for item in patch:
        if not isinstance(item, dict):
            raise unexpected(dict, item)
    return [item for item in patch if item.get(DIRECTIVE) != "delete"]

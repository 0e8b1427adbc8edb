"""Failure and success policies of jobs, and the index sets they use."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, int_of
from corral.cluster.apiserver.builtin.validation.fields.names import qualified_name
from corral.cluster.apiserver.errors import show
from corral.kube.types import Obj

__all__ = ["IndexesError", "check_pod_failure_policy", "check_success_policy", "count_indexes",
           "overlap"]  # fmt: skip

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_COUNT = check.counts("succeededCount")
_STATUSES = ("False", "True", "Unknown")


class IndexesError(ValueError):
    """A list of index intervals that cannot be read; the text says why."""


def _listed(values: Sequence[str]) -> str:
    return "valid values: [" + " ".join(show(v) for v in values) + "]"


def _index(text: str, completions: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise IndexesError(f"cannot convert string to integer for index: {show(text)}") from None
    if value >= completions:
        raise IndexesError(f"too large index: {show(text)}")
    return value


def _interval(text: str, completions: int) -> tuple[int, int]:
    ends = text.split("-")
    if len(ends) > 2:
        raise IndexesError(
            f"the fragment {show(text)} violates the requirement that an index interval can have "
            "at most two parts separated by '-'"
        )
    first = _index(ends[0], completions)
    if len(ends) == 1:
        return first, first
    last = _index(ends[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a list such as ``1,3-5`` names.

    Raises:
        IndexesError: the list is malformed.
    """
    if not text:
        return 0
    total, previous = 0, -1
    for part in text.split(","):
        first, last = _interval(part, completions)
        if previous >= first:
            raise IndexesError(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def overlap(one: str, two: str, completions: int) -> int | None:
    """The first index in both lists; intervals that cannot be read are skipped."""
    taken = _intervals(one, completions)
    ordered = sorted(taken)
    starts = [start for start, _ in ordered]
    reach = list(itertools.accumulate((end for _, end in ordered), max))
    for first, last in _intervals(two, completions):
        before = bisect.bisect_right(starts, last)  # these start early enough
        if before and first <= reach[before - 1]:
            return next(max(s, first) for s, e in taken if s <= last and first <= e)
    return None


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for part in filter(None, text.split(",")):
        try:
            out.append(_interval(part, completions))
        except IndexesError:
            continue
    return out


def _check_exit_codes(errs: Errors, codes: Obj, names: set[str], path: str) -> None:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        errs.required(f"{path}.operator", _listed(_OPERATORS))
    elif operator not in _OPERATORS:
        errs.not_supported(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in names:
        why = "must be one of the container or initContainer names in the pod template"
        errs.invalid(f"{path}.containerName", name, why)
    where = f"{path}.values"
    if not values:
        errs.invalid(where, codes.get("values"), "at least one value is required")
    elif len(values) > 255:
        errs.too_many(where, len(values), 255)
    seen: set[int] = set()
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            errs.invalid(f"{where}[{i}]", 0, "must not be 0 for the In operator")
        if value in seen:
            errs.duplicate(f"{where}[{i}]", value)
        seen.add(value)
    if any(a > b for a, b in itertools.pairwise(values)):
        errs.invalid(where, values, "must be ordered")


def _check_conditions(errs: Errors, patterns: list[Obj], path: str) -> None:
    if len(patterns) > 20:
        errs.too_many(path, len(patterns), 20)
    for i, pattern in enumerate(patterns):
        kind, status = pattern.get("type") or "", pattern.get("status") or ""
        errs.format(f"{path}[{i}].type", kind, qualified_name)
        if not status:
            errs.required(f"{path}[{i}].status", _listed(_STATUSES))
        elif status not in _STATUSES:
            errs.not_supported(f"{path}[{i}].status", status, _STATUSES)


def _check_failure_rule(errs: Errors, spec: Obj, rule: Obj, names: set[str], path: str) -> None:
    action = rule.get("action") or ""
    if not action:
        errs.required(f"{path}.action", _listed(_ACTIONS))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errs.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        errs.not_supported(f"{path}.action", action, _ACTIONS)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        _check_exit_codes(errs, codes, names, f"{path}.onExitCodes")
    if conditions:
        _check_conditions(errs, conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        errs.omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not conditions:
        errs.omitted(path, "specifying one of OnExitCodes and OnPodConditions is required")


def check_pod_failure_policy(errs: Errors, spec: Obj, path: str) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > 20:
        errs.too_many(f"{path}.rules", len(rules), 20)
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {
        c.get("name") or ""
        for kind in ("containers", "initContainers")
        for c in pod.get(kind) or ()
    }
    for i, rule in enumerate(rules):
        _check_failure_rule(errs, spec, rule, names, f"{path}.rules[{i}]")


def _check_success_rule(errs: Errors, rule: Obj, completions: int, path: str) -> None:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        errs.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        where = f"{path}.succeededIndexes"
        if len(indexes) > 64 * 1024:
            errs.too_long(where, 64 * 1024)
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as bad:
            errs.invalid(where, indexes, f"error parsing succeededIndexes: {bad}")
    if count is None:
        return
    where = f"{path}.succeededCount"
    _COUNT(errs, rule, path)
    if count > completions:
        why = f"must be less than or equal to {completions} (the number of specified completions)"
        errs.invalid(where, count, why)
    if indexes is not None and count > total:
        why = (
            f"must be less than or equal to {total} (the number of indexes in the specified "
            "succeededIndexes field)"
        )
        errs.invalid(where, count, why)


def check_success_policy(errs: Errors, spec: Obj, path: str) -> None:
    rules = spec["successPolicy"].get("rules") or []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        errs.required(f"{path}.rules", why)
    if len(rules) > 20:
        errs.too_many(f"{path}.rules", len(rules), 20)
    for i, rule in enumerate(rules):
        completions = int_of(spec.get("completions"))
        _check_success_rule(errs, rule, completions, f"{path}.rules[{i}]")

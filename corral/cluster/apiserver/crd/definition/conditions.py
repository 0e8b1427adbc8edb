"""The status of a CRD: names accepted or in conflict, established or not.

``crd_conditions`` is a pure function of the CRD and of the others; calling it again on its own
result changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from corral.cluster.apiserver.crd.definition.schemachecks import structural_problems, unsupported
from corral.kube.types import Obj

__all__ = ["crd_conditions", "is_established"]

_REASONS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}
_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_established(crd: Obj) -> bool:
    found = _find(crd.get("status") or {}, "Established")
    return found is not None and found["status"] == "True"


def crd_conditions(obj: Obj, others: Iterable[Obj], *, now: Callable[[], str] = _timestamp) -> Obj:
    """The status the CRD should have, given all other CRDs (those of other groups do not count).

    Names already accepted stay accepted; new ones are refused where another CRD of the group has
    them. Once established, a CRD stays so.
    """
    spec, status = obj["spec"], obj.get("status") or {}
    names, conflict = _accepted_names(spec, status.get("acceptedNames") or {}, others)
    accepted = conflict is None
    reason, message = conflict or ("NoConflicts", "no conflicts found")
    conditions: list[Obj] = [dict(c) for c in status.get("conditions") or ()]
    _set(conditions, "NamesAccepted", accepted, reason, message, now)
    if not is_established(obj):
        if accepted:
            said = "the initial names have been accepted"
            _set(conditions, "Established", True, "InitialNamesAccepted", said, now)
        else:
            _set(conditions, "Established", False, "NotAccepted", "not all names are accepted", now)
    _set_structural(conditions, spec, now)
    return {
        **status,
        "conditions": conditions,
        "acceptedNames": names,
        "storedVersions": _stored_versions(spec, status),
    }


def _accepted_names(
    spec: Obj, before: Obj, others: Iterable[Obj]
) -> tuple[Obj, tuple[str, str] | None]:
    resources, kinds = _taken(spec["group"], others)
    wanted = spec["names"]
    out = {"plural": "", "kind": "", **before}
    conflict: tuple[str, str] | None = None
    for field in _ORDER:
        value = wanted.get(field)
        used = kinds if field in ("kind", "listKind") else resources
        clashes = _clashes(value, before.get(field), used) if field != "categories" else []
        if clashes:
            message = clashes[0] if len(clashes) == 1 else f"[{', '.join(clashes)}]"
            conflict = (_REASONS[field], message)
        elif value:
            out[field] = value
        else:
            out.pop(field, None)
    return {field: out[field] for field in _ORDER if field in out}, conflict


def _clashes(
    value: str | list[str] | None, before: str | list[str] | None, used: set[str]
) -> list[str]:
    wanted = [value] if isinstance(value, str) else value or []
    ours = [before] if isinstance(before, str) else before or []
    return [f'"{name}" is already in use' for name in wanted if name in used and name not in ours]


def _taken(group: str, others: Iterable[Obj]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != group:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update((names.get("plural", ""), names.get("singular", "")))
        resources.update(names.get("shortNames") or ())
        kinds.update((names.get("kind", ""), names.get("listKind", "")))
    return resources - {""}, kinds - {""}


def _stored_versions(spec: Obj, status: Obj) -> list[str]:
    stored = list(status.get("storedVersions") or ())
    for version in spec["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    return stored


def _set_structural(conditions: list[Obj], spec: Obj, now: Callable[[], str]) -> None:
    """NonStructuralSchema is there while a schema is not structural, and gone otherwise."""
    problems: list[str] = []
    for i, version in enumerate(spec["versions"]):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            continue
        path = f"spec.versions[{i}].schema.openAPIV3Schema"
        if unsupported(schema):
            problems.append(f"{path}: Invalid value: the schema cannot be made structural")
        else:
            problems += map(str, structural_problems(schema, path))
    if problems:
        message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        _set(conditions, "NonStructuralSchema", True, "Violations", message, now)
    else:
        conditions[:] = [c for c in conditions if c["type"] != "NonStructuralSchema"]


def _find(status: Obj, kind: str) -> Obj | None:
    for condition in status.get("conditions") or ():
        if condition["type"] == kind:
            found: Obj = condition
            return found
    return None


def _set(
    conditions: list[Obj], kind: str, holds: bool, reason: str, message: str, now: Callable[[], str]
) -> None:
    wanted = {"status": "True" if holds else "False", "reason": reason, "message": message}
    for condition in conditions:
        if condition["type"] == kind:
            if condition["status"] != wanted["status"]:
                condition["lastTransitionTime"] = now()
            condition.update(wanted)
            return
    at = wanted["status"]
    conditions.append(
        {
            "type": kind,
            "status": at,
            "lastTransitionTime": now(),
            "reason": reason,
            "message": message,
        }
    )

"""Events of both groups: the old one asks little, the new one a lot."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    name_is_path_segment,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.kube.types import Obj

__all__ = ["KINDS"]


def _check_namespace(errs: Errors, obj: Obj, involved: Obj, allowed: tuple[str, ...]) -> None:
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    target = involved.get("namespace") or ""
    wrong = namespace not in allowed if not target else False
    if obj.get("eventTime") is None and target:
        wrong = namespace != target
    if wrong:
        errs.invalid("involvedObject.namespace", target, "does not match event.namespace")


def _check_limited(errs: Errors, obj: Obj, name: str, limit: int, *, needed: bool = True) -> None:
    value = obj.get(name) or ""
    if not value and needed:
        errs.required(name)
    if len(value) > limit:
        errs.invalid(name, "", f"can have at most {limit} characters")


def _check_legacy(errs: Errors, obj: Obj, *, core: bool) -> None:
    involved = obj.get("involvedObject" if core else "regarding") or {}
    if obj.get("eventTime") is None:
        _check_namespace(errs, obj, involved, ("", "default"))
        return
    _check_namespace(errs, obj, involved, ("default", "kube-system"))
    field = "reportingComponent" if core else "reportingController"
    reporter = obj.get(field) or ""
    if not reporter:
        errs.required(field)
    errs.format(field, reporter, qualified_name)
    _check_limited(errs, obj, "reportingInstance", 128)
    _check_limited(errs, obj, "action", 128)
    _check_limited(errs, obj, "reason", 128)
    message = obj.get("message" if core else "note") or ""
    if len(message) > 1024:
        errs.invalid("message", "", "can have at most 1024 characters")


def validate_core_event(errs: Errors, obj: Obj) -> None:
    _check_legacy(errs, obj, core=True)


def validate_core_event_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_legacy(errs, new, core=True)


def _check_series(errs: Errors, series: Obj | None) -> None:
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        errs.invalid("series.count", "", "should be at least 2")
    if series.get("lastObservedTime") is None:
        errs.required("series.lastObservedTime")


def validate_event(errs: Errors, obj: Obj) -> None:
    _check_legacy(errs, obj, core=False)
    _check_series(errs, obj.get("series"))
    if obj.get("eventTime") is None:
        errs.required("eventTime")
    kind = obj.get("type") or ""
    if kind not in ("Normal", "Warning"):
        errs.invalid("type", "", f"has invalid value: {kind}")
    for name, shown in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ):
        if obj.get(name):
            errs.invalid(shown, "", "needs to be unset")
    source = obj.get("deprecatedSource") or {}
    if source.get("component") or source.get("host"):
        errs.invalid("source", "", "needs to be unset")


def validate_event_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_legacy(errs, new, core=False)
    if new.get("series") != old.get("series"):
        _check_series(errs, new.get("series"))
    for name, shown in (
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ):
        errs.immutable(shown, new.get(name), old.get(name))


KINDS: Kinds = {
    ("", "Event"): Rules(
        validate_core_event, validate_core_event_update, name=name_is_path_segment,
        meta_last=True, kube_finalizers=False),
    ("events.k8s.io", "Event"): Rules(validate_event, validate_event_update),
}  # fmt: skip

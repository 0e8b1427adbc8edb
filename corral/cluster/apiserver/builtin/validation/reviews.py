"""Requests that are answered and never stored: access reviews, tokens, bindings, evictions."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import (
    Errors,
    FieldError,
    invalid_value,
    invalid_with,
    not_supported,
    required,
)
from corral.cluster.apiserver.builtin.validation.names import dns_subdomain
from corral.cluster.apiserver.builtin.validation.projected import check_token_expiration
from corral.kube.types import Obj

__all__ = [
    "validate_access_review",
    "validate_binding",
    "validate_eviction",
    "validate_token_request",
    "validate_token_review",
]

_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def _printed_urls(attributes: Obj | None) -> Obj | None:
    if attributes is None:
        return None
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}


def _check_selectors(errs: Errors, attributes: Obj) -> None:
    for kind in ("fieldSelector", "labelSelector"):
        selector = attributes.get(kind)
        if selector is None:
            continue
        path = f"spec.resourceAttributes.{kind}"
        raw, listed = selector.get("rawSelector") or "", selector.get("requirements")
        if raw and listed:
            why = "may not specified at the same time as requirements"
            errs.append(invalid_value(f"{path}.rawSelector", raw, why))
        if not raw and not listed:
            why = f"when {path} is specified, requirements or rawSelector is required"
            errs.append(required(f"{path}.requirements", why))


def _check_meta(errs: Errors, obj: Obj, *, local: bool) -> None:
    ignored = {"managedFields", "creationTimestamp", *(("namespace",) if local else ())}
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if v and k not in ignored}
    if meta:
        why = "must be empty except for namespace" if local else "must be empty"
        shown = {k: v for k, v in obj["metadata"].items() if v}
        errs.append(invalid_value("metadata", shown, why))


def validate_access_review(kind: str, obj: Obj) -> list[FieldError]:
    """A SubjectAccessReview, its Local and its Self form, or a SelfSubjectRulesReview."""
    errs: Errors = []
    if kind == "SelfSubjectRulesReview":
        return errs
    spec = obj.get("spec") or {}
    resource, urls = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (urls is None):
        errs.append(invalid_value("spec", _printed_urls(urls), _ONE))
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        errs.append(invalid_value("spec.user", spec.get("user") or "", why))
    if resource is not None:
        _check_selectors(errs, resource)
    local = kind == "LocalSubjectAccessReview"
    _check_meta(errs, obj, local=local)
    if local:
        namespace = (obj.get("metadata") or {}).get("namespace") or ""
        where = "spec.resourceAttributes.namespace"
        if resource is not None and (resource.get("namespace") or "") != namespace:
            shown = resource.get("namespace") or ""
            errs.append(invalid_value(where, shown, "must match metadata.namespace"))
        if urls is not None:
            why = "disallowed on this kind of request"
            errs.append(invalid_value("spec.nonResourceAttributes", _printed_urls(urls), why))
    return errs


def validate_token_request(obj: Obj) -> list[FieldError]:
    """The body of a request for a service account token."""
    errs: Errors = []
    seconds = (obj.get("spec") or {}).get("expirationSeconds") or 0
    check_token_expiration(errs, seconds, "spec.expirationSeconds")
    return errs


def validate_token_review(obj: Obj) -> list[FieldError]:
    """A TokenReview must bring a token; the API refuses others before it validates fields."""
    if (obj.get("spec") or {}).get("token"):
        return []
    return [required("spec.token")]


def validate_binding(obj: Obj) -> list[FieldError]:
    """The binding of a pod to a node."""
    errs: Errors = []
    target = obj.get("target") or {}
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in ("", "Node"):
        errs.append(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not name:
        errs.append(required("target.name"))
    elif kind in ("", "Node"):
        invalid_with(errs, "target.name", name, dns_subdomain(name))
    return errs


def validate_eviction(obj: Obj) -> list[FieldError]:
    """An eviction: only its delete options can be wrong."""
    errs: Errors = []
    options = obj.get("deleteOptions") or {}
    name = "ignoreStoreReadErrorWithClusterBreakingPotential"
    if options.get(name):
        why = "can not be set for pod eviction, try after removing the option"
        errs.append(invalid_value(f"deleteOptions.{name}", True, why))
    orphan, policy = options.get("orphanDependents"), options.get("propagationPolicy")
    if orphan is not None and policy is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        errs.append(invalid_value("propagationPolicy", policy, why))
    allowed = ("Foreground", "Background", "Orphan", "nil")
    if policy is not None and policy not in allowed[:3]:
        errs.append(not_supported("propagationPolicy", policy, allowed))
    return errs

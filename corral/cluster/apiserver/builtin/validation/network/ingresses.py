"""Ingresses and their classes."""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.addresses import is_ip
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_domain_prefixed_path
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    again,
    changes,
    fixed,
    whole,
)
from corral.cluster.apiserver.builtin.validation.network.services import check_load_balancer
from corral.kube.types import Obj

__all__ = ["KINDS"]

_CLASS = "kubernetes.io/ingress.class"
_GROUP = "networking.k8s.io"


def _host_problems(host: str) -> Sequence[str]:
    return names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)


def _check_host(errs: Errors, host: str, path: str) -> None:
    if is_ip(host):
        errs.invalid(path, host, "must be a DNS name, not an IP address")
    errs.format(path, host, _host_problems)


def _check_port(errs: Errors, backend: Obj, path: str) -> None:
    port = (backend.get("service") or {}).get("port") or {}
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        errs.invalid(path, "", "cannot set both port name & port number")
    elif name:
        errs.format(f"{path}.service.port.name", name, names.port_name)
    elif number:
        errs.format(f"{path}.service.port.number", number, names.port_number)
    else:
        errs.required(path, "port name or number is required")


_REFERENCE = check.struct(
    check.pointer("apiGroup", check.SUBDOMAIN), check.needed("kind name", check.PATH_SEGMENT)
)
_SERVICE = check.struct(check.inside("service", check.needed("name", check.LABEL)), _check_port)


def _check_backend(errs: Errors, backend: Obj, path: str) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errs.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        _REFERENCE(errs, resource, f"{path}.resource")
    elif service is not None:
        _SERVICE(errs, backend, path)
    else:
        errs.invalid(path, "", "resource or service backend is required")


def _check_absolute(errs: Errors, target: str, path: str) -> None:
    if not target.startswith("/"):
        errs.invalid(path, target, "must be an absolute path")


def _check_plain(errs: Errors, target: str, path: str) -> None:
    _check_absolute(errs, target, path)
    for part in ("//", "/./", "/../", "%2f", "%2F"):
        if part in target:
            errs.invalid(path, target, f"must not contain '{part}'")
    for end in ("/..", "/."):
        if target.endswith(end):
            errs.invalid(path, target, f"cannot end with '{end}'")


_PATHS = {
    "Exact": check.always("path", _check_plain),
    "Prefix": check.always("path", _check_plain),
    "ImplementationSpecific": check.optional("path", _check_absolute),
}
_PATH = check.when(
    lambda item: item.get("pathType") is None,
    check.given("pathType", why="pathType must be specified"),
    otherwise=check.struct(
        check.union(
            "pathType",
            _PATHS,
            check.always("pathType", check.choice("Exact", "ImplementationSpecific", "Prefix")),
        ),
        check.inside("backend", _check_backend),
    ),
)


def _check_some_rule(errs: Errors, spec: Obj, path: str) -> None:
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        why = "either `defaultBackend` or `rules` must be specified"
        errs.invalid(path, spec.get("rules"), why)


_HTTP = check.needed("paths", check.each(_PATH))
_RULE = check.struct(check.optional("host", _check_host), check.pointer("http", _HTTP))
_TLS = check.struct(
    check.items("hosts", check.format_of(_host_problems)),
    check.optional("secretName", check.SUBDOMAIN),
)
_SPEC = check.inside(
    "spec",
    _check_some_rule,
    check.pointer("defaultBackend", _check_backend),
    check.items("rules", _RULE),
    check.items("tls", _TLS),
    check.pointer("ingressClassName", check.SUBDOMAIN),
)


def _check_annotation(errs: Errors, obj: Obj, path: str) -> None:
    annotated = ((obj.get("metadata") or {}).get("annotations") or {}).get(_CLASS)
    name = (obj.get("spec") or {}).get("ingressClassName")
    if annotated is not None and name is not None and annotated != name:
        why = "must match `ingressClassName` when both are specified"
        errs.invalid(f"annotations.{_CLASS}", annotated, why)


def _check_status(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = ((o.get("status") or {}).get("loadBalancer") or {} for o in (new, old))
    check_load_balancer(errs, after, before, ip_mode=False)


_IN_NAMESPACE = check.given("namespace", check.LABEL, "`parameters.scope` is set to 'Namespace'")
_SCOPES = {
    "Namespace": _IN_NAMESPACE,
    "Cluster": check.unset("namespace", "`parameters.scope` is set to 'Cluster'"),
}
_PARAMETERS = check.struct(
    check.pointer("apiGroup", check.SUBDOMAIN),
    check.optional("kind name", check.PATH_SEGMENT),
    check.given("scope", check.choice("Cluster", "Namespace")),
    check.union("scope", _SCOPES),
    check.needed("kind name"),
)
_INGRESS_CLASS = whole(
    check.inside(
        "spec",
        check.optional("controller", check.shorter(250)),
        check.always("controller", check_domain_prefixed_path),
        check.pointer("parameters", _PARAMETERS),
    )
)

KINDS: Kinds = {
    (_GROUP, "Ingress"): Rules(
        whole(_SPEC, _check_annotation), again(whole(_SPEC)), _check_status),
    (_GROUP, "IngressClass"): Rules(
        _INGRESS_CLASS, changes(fixed("spec", "controller"), again(_INGRESS_CLASS)),
        namespaced=False),
}  # fmt: skip

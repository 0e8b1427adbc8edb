"""API services."""

from __future__ import annotations

import base64

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again, whole
from corral.kube.types import Obj

__all__ = ["KINDS", "check_port"]


def _check_name(errs: Errors, obj: Obj, path: str) -> None:
    name, spec = (obj.get("metadata") or {}).get("name", ""), obj.get("spec") or {}
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name and name != wanted and not names.path_segment(name):
        why = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        errs.invalid("metadata.name", name, why)


def check_port(errs: Errors, port: int, path: str) -> None:
    """The port of a service that the API server calls."""
    if found := names.port_number(port):
        errs.invalid(path, port, f"port is not valid: {', '.join(found)}")


def _check_no_bundle(errs: Errors, bundle: str, path: str) -> None:
    size = f"{len(base64.b64decode(bundle))} bytes"
    errs.invalid(path, size, "local APIServices may not have a caBundle")


_LOCAL = check.struct(
    check.optional("caBundle", _check_no_bundle),
    check.optional(
        "insecureSkipTLSVerify",
        check.refused("local APIServices may not have insecureSkipTLSVerify"),
    ),
)
_ALONE = "only v1 may have an empty group and it better be legacy kube"
_API_SERVICE = whole(
    _check_name,
    check.inside(
        "spec",
        check.when(lambda spec: spec.get("version", "") != "v1", check.needed("group", why=_ALONE)),
        check.optional("group", check.SUBDOMAIN),
        check.always("version", check.format_of(names.dns1035_label)),
        check.always(
            "groupPriorityMinimum",
            check.within(1, 20000, "must be positive and less than 20000"),
            0,
        ),
        check.always(
            "versionPriority", check.within(1, 1000, "must be positive and less than 1000"), 0
        ),
        check.when(
            lambda spec: spec.get("service") is not None,
            check.inside(
                "service", check.needed("namespace name"), check.always("port", check_port, 0)
            ),
            check.when(
                lambda spec: spec.get("caBundle"),
                check.optional(
                    "insecureSkipTLSVerify", check.refused("may not be true if caBundle is present")
                ),
            ),
            otherwise=_LOCAL,
        ),
    ),
)
_STATUS = whole(
    check.inside(
        "status",
        check.items("conditions", check.always("status", check.choice("True", "False", "Unknown"))),
    )
)

KINDS: Kinds = {
    ("apiregistration.k8s.io", "APIService"): Rules(
        _API_SERVICE, again(_API_SERVICE), again(_STATUS), name=names.name_is_path_segment,
        namespaced=False, kube_finalizers=False),
}  # fmt: skip

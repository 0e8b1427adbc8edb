"""Requests for certificates and bundles of trust anchors."""

from __future__ import annotations

import base64
import binascii
import re

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.differences import difference
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Change,
    Kinds,
    Rules,
    again,
    changes,
    fixed,
    whole,
)
from corral.cluster.apiserver.builtin.validation.fields.signers import check_signer_name
from corral.kube.types import Obj

__all__ = ["KINDS"]

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection",
    "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_PEM_REQUEST = re.compile(
    rb"-----BEGIN (NEW )?CERTIFICATE REQUEST-----\s.*?-----END (NEW )?CERTIFICATE REQUEST-----",
    re.DOTALL,
).search

# -- certificate signing requests ------------------------------------------------------------------


def _request_problem(encoded: str) -> str:
    try:
        text = base64.b64decode(encoded or "")
    except binascii.Error:
        text = b""
    if not _PEM_REQUEST(text):
        return "PEM block type must be CERTIFICATE REQUEST"
    # Parsing needs a library that is slow to load: only requests for certificates pay for it.
    from cryptography import x509

    try:
        if not x509.load_pem_x509_csr(text).is_signature_valid:
            return "x509: signature check failed"
    except ValueError as bad:
        return str(bad)
    return ""


def _check_request(errs: Errors, spec: Obj, path: str) -> None:
    if why := _request_problem(spec.get("request") or ""):
        errs.invalid(f"{path}.request", spec.get("request"), why)


def _check_signer(errs: Errors, signer: str, path: str) -> None:
    if signer == "kubernetes.io/legacy-unknown":
        errs.invalid(path, signer, "the legacy signerName is not allowed via this API version")
    else:
        check_signer_name(errs, signer, path)


_ONLY_TRUE = check.needed("status", check.choice("True"))
_CONDITION = check.struct(
    check.needed("type"),
    check.union(
        "type",
        {"Approved": _ONLY_TRUE, "Denied": _ONLY_TRUE, "Failed": _ONLY_TRUE},
        check.needed("status", check.choice("False", "True", "Unknown")),
    ),
)


def _check_not_both(errs: Errors, conditions: list[Obj], path: str) -> None:
    if {"Approved", "Denied"} <= {c.get("type") for c in conditions}:
        shown = '{item[type="Approved"], item[type="Denied"]}'
        why = 'must specify at most one of: `item[type="Approved"]`, `item[type="Denied"]`'
        errs.invalid(path, shown, why)


_SIGNING_REQUEST = whole(
    check.inside(
        "spec",
        _check_request,
        check.needed("usages", check.struct(check.each(check.choice(*_USAGES)), check.no_repeats)),
        check.always("signerName", _check_signer),
        check.pointer(
            "expirationSeconds",
            check.at_least(600, "may not specify a duration less than 600 seconds (10 minutes)"),
        ),
    ),
    check.inside(
        "status",
        check.items("conditions", _CONDITION, unique="type"),
        check.optional("conditions", _check_not_both),
    ),
)


def _of_type(obj: Obj, kind: str) -> list[Obj]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return [c for c in conditions if c.get("type") == kind]


def _check_decisions(errs: Errors, new: Obj, old: Obj) -> None:
    path = "status.conditions"
    for kind in ("Approved", "Denied", "Failed"):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            errs.forbidden(path, f'updates may not remove a condition of type "{kind}"')
    for kind in ("Approved", "Denied"):
        after, before = _of_type(new, kind), _of_type(old, kind)
        if len(after) > len(before):
            errs.forbidden(path, f'updates may not add a condition of type "{kind}"')
        elif len(after) == len(before) and after != before:
            why = f'updates may not modify a condition of type "{kind}"\n'
            errs.forbidden(path, why + difference("", before, after))


def _certificate(obj: Obj) -> str:
    return (obj.get("status") or {}).get("certificate") or ""


def _no_certificate(errs: Errors, new: Obj, old: Obj) -> None:
    if _certificate(new) != _certificate(old):
        errs.forbidden("status.certificate", "updates may not set certificate content")


def _same_certificate(errs: Errors, new: Obj, old: Obj) -> None:
    if _certificate(old) and _certificate(new) != _certificate(old):
        why = "updates may not modify existing certificate content"
        errs.forbidden("status.certificate", why)


_REQUEST_CHANGE: Change = changes(again(_SIGNING_REQUEST), _check_decisions)

# -- certificates of pods, and trust ---------------------------------------------------------------

_SUBJECTS = [
    check.struct(
        check.always(f"{who}Name", check.SUBDOMAIN),
        check.always(f"{who}UID", check.holds(bool, "must not be empty")),
    )
    for who in ("pod", "serviceAccount", "node")
]
_POD_REQUEST = whole(
    check.inside("spec", check.always("signerName", check_signer_name), *_SUBJECTS)
)


def _bundle_name(name: str, signer: str) -> list[str]:
    """A signer's bundles are named after it."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return list(names.dns_subdomain(name))
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return list(names.dns_subdomain(name.removeprefix(prefix)))


def _check_trust_bundle(errs: Errors, obj: Obj) -> None:
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    signer = spec.get("signerName") or ""
    errs.invalid_each("metadata.name", name, _bundle_name(name, signer))
    if signer:
        check_signer_name(errs, signer, "spec.signerName")
    if _CERTIFICATE not in (spec.get("trustBundle") or ""):
        why = "at least one trust anchor must be provided"
        errs.invalid("spec.trustBundle", "<value omitted>", why)


_GROUP = "certificates.k8s.io"

KINDS: Kinds = {
    (_GROUP, "CertificateSigningRequest"): Rules(
        _SIGNING_REQUEST, changes(_REQUEST_CHANGE, _no_certificate),
        changes(_REQUEST_CHANGE, _same_certificate), name=names.name_any, namespaced=False),
    (_GROUP, "ClusterTrustBundle"): Rules(
        _check_trust_bundle,
        changes(again(_check_trust_bundle), fixed("spec", "signerName", zero="")),
        name=names.name_any, namespaced=False),
    (_GROUP, "PodCertificateRequest"): Rules(_POD_REQUEST, fixed("", "spec", zero={})),
}  # fmt: skip

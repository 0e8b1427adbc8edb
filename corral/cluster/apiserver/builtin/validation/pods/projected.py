"""Projected volumes: several sources laid out in one directory."""

from __future__ import annotations

from collections.abc import Callable

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import dns_subdomain
from corral.cluster.apiserver.builtin.validation.fields.paths import check_unreserved_path
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.fields.signers import check_signer_name
from corral.kube.types import Obj

__all__ = ["check_projected", "check_token_expiration"]

ItemCheck = Callable[[Errors, Obj, str], None]
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_LONGEST = 91 * 24 * 60 * 60
_LONGEST_OWN = 24 * 60 * 60
"""Seconds a pod certificate may last: of any signer, and of Kubernetes' own."""
_CLASH = "conflicting duplicate paths"


def check_token_expiration(errs: Errors, seconds: int, path: str) -> None:
    """A token lives at least ten minutes and at most 2^32 seconds."""
    if seconds < 600:
        errs.invalid(path, seconds, "may not specify a duration less than 10 minutes")
    if seconds > 1 << 32:
        errs.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")


def _claim(errs: Errors, taken: set[str], target: str, path: str, shown: str) -> None:
    if not target:
        return
    if target in taken:
        errs.invalid(path, shown, _CLASH)
    taken.add(target)


def _token(errs: Errors, source: Obj, path: str, outer: str) -> None:
    seconds = source.get("expirationSeconds")
    if seconds is None:
        errs.required(f"{path}.expirationSeconds")
    else:
        check_token_expiration(errs, seconds, f"{path}.expirationSeconds")
    target = source.get("path") or ""
    if not target:
        errs.required(f"{outer}.path")
    else:
        check_unreserved_path(errs, target, f"{outer}.path")


def _bundle_name(errs: Errors, name: str, path: str) -> None:
    if not name:
        errs.required(path, "must be a valid object name")
    base = name.rpartition(":")[2]
    for message in dns_subdomain(base):
        errs.invalid(path, name, f"not a valid clustertrustbundlename: {message}")


def _trust_bundle(errs: Errors, source: Obj, path: str) -> None:
    name, signer = source.get("name"), source.get("signerName")
    selector = source.get("labelSelector")
    if name is not None and signer is not None:
        errs.invalid(path, source, "only one of name and signerName may be used")
    elif name is not None:
        _bundle_name(errs, name, f"{path}.name")
        if selector is not None:
            why = "labelSelector must be unset if name is specified"
            errs.invalid(f"{path}.labelSelector", selector, why)
    elif signer is not None:
        if not signer:
            errs.required(f"{path}.signerName", "must be a valid signer name")
        check_signer_name(errs, signer, f"{path}.signerName")
        check_selector(errs, selector, f"{path}.labelSelector")
    else:
        errs.required(path, "either name or signerName must be specified")
    target = source.get("path") or ""
    if not target:
        errs.required(f"{path}.path")
    check_unreserved_path(errs, target, f"{path}.path")


def _is_own_signer(signer: str) -> bool:
    return f".{signer.partition('/')[0]}".endswith(".kubernetes.io")


def _pod_certificate(errs: Errors, source: Obj, path: str, outer: str, taken: set[str]) -> None:
    check_signer_name(errs, source.get("signerName") or "", f"{path}.signerName")
    key_type = source.get("keyType") or ""
    if key_type not in _KEY_TYPES:
        errs.not_supported(f"{path}.keyType", key_type, _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None and seconds < 3600:
        why = "if provided, maxExpirationSeconds must be >= 3600"
        errs.invalid(f"{path}.maxExpirationSeconds", seconds, why)
    longest = _LONGEST_OWN if _is_own_signer(source.get("signerName") or "") else _LONGEST
    if seconds is not None and seconds > longest:
        why = f"if provided, maxExpirationSeconds must be <= {longest}"
        errs.invalid(f"{path}.maxExpirationSeconds", seconds, why)
    found = False
    for name in ("credentialBundlePath", "keyPath", "certificateChainPath"):
        if target := source.get(name):
            found = True
            check_unreserved_path(errs, target, f"{path}.{name}")
            _claim(errs, taken, target, outer, target)
    if not found:
        why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errs.required(path, why)


def _check_source(
    errs: Errors,
    source: Obj,
    path: str,
    outer: str,
    taken: set[str],
    checks: tuple[ItemCheck, ItemCheck],
) -> None:
    key_check, file_check = checks
    for kind in ("secret", "configMap"):
        keyed = source.get(kind)
        if keyed is None:
            continue
        name = keyed.get("name") or ""
        if not name:
            errs.required(f"{path}.{kind}.name")
        for j, item in enumerate(keyed.get("items") or ()):
            key_check(errs, item, f"{path}.{kind}.items[{j}]")
            _claim(errs, taken, item.get("path") or "", outer, name)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        file_check(errs, item, f"{path}.downwardAPI")
        _claim(errs, taken, item.get("path") or "", outer, item.get("path") or "")
    if (token := source.get("serviceAccountToken")) is not None:
        _token(errs, token, f"{path}.serviceAccountToken", outer)
    if (bundle := source.get("clusterTrustBundle")) is not None:
        _trust_bundle(errs, bundle, f"{path}.clusterTrustBundle")
        _claim(errs, taken, bundle.get("path") or "", outer, bundle.get("path") or "")
    if (certificate := source.get("podCertificate")) is not None:
        _pod_certificate(errs, certificate, f"{path}.podCertificate", outer, taken)
    if sum(v is not None for v in source.values()) > 1:
        errs.forbidden(path, "may not specify more than 1 volume type per source")


def check_projected(
    errs: Errors, volume: Obj, path: str, key_check: ItemCheck, file_check: ItemCheck
) -> None:
    taken: set[str] = set()
    for i, source in enumerate(volume.get("sources") or ()):
        _check_source(errs, source, f"{path}.sources[{i}]", path, taken, (key_check, file_check))

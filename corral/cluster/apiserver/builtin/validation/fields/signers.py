"""Names of certificate signers: ``domain/path``."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import dns_label, dns_subdomain

__all__ = ["check_signer_name"]


def check_signer_name(errs: Errors, name: str, path: str) -> None:
    if not name:
        errs.required(path)
        return
    segments = name.split("/")
    if len(segments) != 2:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errs.invalid(path, name, why)
        return
    domain, tail = segments
    if len(domain) > 253:
        errs.too_long(path, 253)
    labels = domain.split(".")
    for label in labels:
        if found := dns_label(label):
            for message in found:
                errs.invalid(path, domain, f'validating label "{label}": {message}')
            break
    if len(labels) < 2:
        why = "should be a domain with at least two segments separated by dots"
        errs.invalid(path, domain, why)
    for label in tail.split("."):
        if found := dns_subdomain(label):
            for message in found:
                errs.invalid(path, tail, f'validating label "{label}": {message}')
            break
    if len(name) > 571:
        errs.too_long(path, 571)

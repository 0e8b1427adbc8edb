"""Names that start with a domain."""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    regex_error,
)

__all__ = ["check_domain_prefixed_path", "check_fqdn", "check_fully_qualified"]

_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_path = re.compile(_PATH).fullmatch


def check_domain_prefixed_path(errs: Errors, value: str, path: str) -> None:
    """``domain/path``."""
    if not value:
        errs.required(path)
        return
    host, _, rest = value.partition("/")
    if not host or not rest:
        errs.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    errs.format(path, host, dns_subdomain)
    if not _path(rest):
        errs.invalid(path, rest, regex_error("Invalid path", _PATH))


def check_fully_qualified(errs: Errors, value: str, path: str) -> None:
    """A name of at least three domain segments."""
    if not value:
        errs.required(path)
    elif found := dns_subdomain(value):
        errs.invalid(path, value, ",".join(found))
    elif value.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        errs.invalid(path, value, why)


def check_fqdn(errs: Errors, value: str, path: str) -> None:
    """A host name of at least two segments; one dot may end it."""
    if not value:
        errs.required(path)
        return
    value = value.removesuffix(".")
    if found := dns_subdomain(value):
        errs.invalid(path, value, ",".join(found))
    elif "." not in value:
        errs.invalid(path, value, "should be a domain with at least two segments separated by dots")
    else:
        for label in value.split("."):
            if found := dns_label(label):
                errs.invalid(path, label, ",".join(found))
                return

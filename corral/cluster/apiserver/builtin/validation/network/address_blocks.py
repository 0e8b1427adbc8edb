"""Addresses of services, and the blocks they come from."""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_strict_cidr,
    check_strict_ip,
    parse_cidr,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import IMMUTABLE, Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, fixed, whole
from corral.kube.types import Obj

__all__ = ["KINDS"]

_GROUP = "networking.k8s.io"


def _address_name(name: str, is_prefix: bool = False) -> Sequence[str]:
    """The name of an IPAddress is the address, in canonical form."""
    errs = Errors()
    check_strict_ip(errs, name, "")
    lead = "Invalid value: "
    return [e.body[len(lead) :].partition(": ")[2] for e in errs]


_PARENT = check.struct(
    check.optional("group", check.SUBDOMAIN),
    check.optional("resource name namespace", check.PATH_SEGMENT),
    check.needed("resource name"),
)


def _check_blocks(errs: Errors, obj: Obj) -> None:
    cidrs, path = (obj.get("spec") or {}).get("cidrs") or [], "spec.cidrs"
    if not cidrs:
        errs.required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        errs.invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for i, cidr in enumerate(cidrs):
        check_strict_cidr(errs, cidr, f"{path}[{i}]")
    blocks = [parse_cidr(c) for c in cidrs]
    if len(blocks) == 2 and blocks[0] and blocks[1] and blocks[0].version == blocks[1].version:
        why = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errs.invalid(path, cidrs, why)


def _check_new_blocks(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = ((o.get("spec") or {}).get("cidrs") or [] for o in (new, old))
    if len(after) != len(before) and (len(before), len(after)) != (1, 2):
        errs.invalid("spec.cidrs", after, IMMUTABLE)
        return
    for i, cidr in enumerate(before):
        if after[i] != cidr:
            errs.invalid(f"spec.cidrs[{i}]", after[i], IMMUTABLE)
    if len(after) > len(before):
        _check_blocks(errs, new)


KINDS: Kinds = {
    (_GROUP, "IPAddress"): Rules(
        whole(check.inside("spec", check.given("parentRef", _PARENT))),
        fixed("spec", "parentRef", beta=True), name=_address_name, namespaced=False),
    (_GROUP, "ServiceCIDR"): Rules(_check_blocks, _check_new_blocks, namespaced=False),
}  # fmt: skip

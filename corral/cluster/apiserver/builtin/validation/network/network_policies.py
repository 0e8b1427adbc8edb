"""Network policies."""

from __future__ import annotations

from collections.abc import Set

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.addresses import check_cidr, parse_cidr
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.kube.types import Obj

__all__ = ["KINDS"]


def _check_policy_port(errs: Errors, port: Obj, path: str) -> None:
    number, end, where = port.get("port"), port.get("endPort"), f"{path}.endPort"
    if isinstance(number, int):
        errs.format(f"{path}.port", number, names.port_number)
        if end is not None:
            if end < number:
                errs.invalid(where, end, "must be greater than or equal to `port`")
            errs.format(where, end, names.port_number)
        return
    if end is not None:
        said = "not specified" if number is None else "non-numeric"
        errs.invalid(where, end, f"may not be specified when `port` is {said}")
    if number is not None:
        errs.format(f"{path}.port", number, names.port_name)


_PORT = check.struct(
    check.pointer("protocol", check.choice("TCP", "UDP", "SCTP")), _check_policy_port
)


def _check_block(errs: Errors, block: Obj, path: str, known: Set[str]) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        return
    check_cidr(errs, cidr, f"{path}.cidr", known)
    network = parse_cidr(cidr)
    if network is None:
        return
    for i, text in enumerate(block.get("except") or ()):
        where = f"{path}.except[{i}]"
        check_cidr(errs, text, where, known)
        hole = parse_cidr(text)
        if hole is None:
            continue
        inside = hole.version == network.version and hole.network_address in network
        if not inside or network.prefixlen >= hole.prefixlen:
            errs.invalid(where, text, "must be a strict subset of `cidr`")


def _check_peer(errs: Errors, peer: Obj, path: str, known: Set[str], late: Errors) -> None:
    count = 0
    for kind in ("podSelector", "namespaceSelector"):
        if peer.get(kind) is not None:
            count += 1
            check_selector(errs, peer[kind], f"{path}.{kind}")
    block = peer.get("ipBlock")
    if block is not None:
        count += 1
        _check_block(errs, block, f"{path}.ipBlock", known)
        if not block.get("cidr"):
            late.required(f"{path}.ipBlock.cidr")
    if count == 0:
        errs.required(path, "must specify a peer")
    elif count > 1 and block is not None:
        errs.forbidden(path, "may not specify both ipBlock and another peer")


def _check_policy(errs: Errors, spec: Obj, known: Set[str]) -> None:
    late = Errors()
    check_selector(errs, spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            check.items("ports", _PORT)(errs, rule, path)
            for j, peer in enumerate(rule.get(peers) or ()):
                _check_peer(errs, peer, f"{path}.{peers}[{j}]", known, late)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        errs.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    else:
        for i, kind in enumerate(types):
            if kind not in ("Ingress", "Egress"):
                errs.not_supported(f"spec.policyTypes[{i}]", kind, ("Ingress", "Egress"))
    errs.extend(late)


def validate_network_policy(errs: Errors, obj: Obj) -> None:
    _check_policy(errs, obj.get("spec") or {}, frozenset())


def _blocks(spec: Obj) -> set[str]:
    out: set[str] = set()
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                if block := peer.get("ipBlock"):
                    out.update((block.get("cidr") or "", *(block.get("except") or ())))
    return out


def validate_network_policy_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_policy(errs, new.get("spec") or {}, _blocks(old.get("spec") or {}))


KINDS: Kinds = {
    ("networking.k8s.io", "NetworkPolicy"): Rules(
        validate_network_policy, validate_network_policy_update),
}  # fmt: skip

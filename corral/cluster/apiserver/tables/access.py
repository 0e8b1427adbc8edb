"""Rows of accounts, role bindings and certificate requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import NONE, Row, born, human_duration
from corral.kube.types import Obj

__all__ = ["ROWS"]


def _account(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), born(obj, now)]


def _binding(obj: Obj, now: datetime) -> list[Any]:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or []
    accounts = [s for s in subjects if s.get("kind") == "ServiceAccount"]
    return [
        obj["metadata"].get("name", ""),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        born(obj, now),
        ", ".join(s.get("name", "") for s in subjects if s.get("kind") == "User"),
        ", ".join(s.get("name", "") for s in subjects if s.get("kind") == "Group"),
        ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in accounts),
    ]


def _signing_request(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    lifetime = spec.get("expirationSeconds")
    return [
        obj["metadata"].get("name", ""),
        born(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if lifetime is None else human_duration(lifetime),
        _signing_state(obj.get("status") or {}),
    ]


def _signing_state(status: Obj) -> str:
    found = {condition["type"] for condition in status.get("conditions") or ()}
    words = [next((word for word in ("Denied", "Approved") if word in found), "Pending")]
    if "Failed" in found:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


ROWS: dict[tuple[str, str], Row] = {
    ("", "ServiceAccount"): _account,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("certificates.k8s.io", "CertificateSigningRequest"): _signing_request,
}

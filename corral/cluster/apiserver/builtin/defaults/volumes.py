"""Defaults of volumes: in pods, in persistent volumes and in claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.kube.types import Obj

from .images import pull_policy
from .quantity import round_up_to_milli

__all__ = ["default_claim", "default_claim_spec", "default_volume", "default_volume_source"]

_FILE_MODE = 0o644


def default_volume(volume: Obj) -> None:
    """Default one entry of a pod's volumes; one without a source is an emptyDir."""
    source = None
    for key in volume:
        if key != "name":
            source = key
            default = _SOURCES.get(key)
            if default is not None and isinstance(volume[key], dict):
                default(volume[key])
    if source is None:
        volume["emptyDir"] = {}


def default_volume_source(spec: Obj) -> None:
    """Default the source inside a persistent volume's spec."""
    for key, default in _PERSISTENT_SOURCES.items():
        source = spec.get(key)
        if source is not None:
            default(source)


def default_claim_spec(spec: Obj) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources")
    if resources:
        round_up_to_milli(resources.get("limits"))
        round_up_to_milli(resources.get("requests"))


def default_claim(claim: Obj) -> None:
    """Default a claim, on its own or as a template of a StatefulSet."""
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    round_up_to_milli(status.get("capacity"))
    round_up_to_milli(status.get("allocatedResources"))


def _filled(**values: Any) -> Callable[[Obj], None]:
    """Set what is empty; for fields whose empty value means absent."""

    def default(source: Obj) -> None:
        for key, value in values.items():
            if not source.get(key):
                source[key] = value

    return default


def _present(**values: Any) -> Callable[[Obj], None]:
    """Set what is absent; for fields whose empty value means something."""

    def default(source: Obj) -> None:
        for key, value in values.items():
            source.setdefault(key, value)

    return default


def _downward_items(source: Obj) -> None:
    for item in source.get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"


def _downward(source: Obj) -> None:
    source.setdefault("defaultMode", _FILE_MODE)
    _downward_items(source)


def _projected(source: Obj) -> None:
    source.setdefault("defaultMode", _FILE_MODE)
    for projection in source.get("sources") or ():
        if "downwardAPI" in projection:
            _downward_items(projection["downwardAPI"])
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _ephemeral(source: Obj) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))


def _image(source: Obj) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = pull_policy(source.get("reference") or "")


_PERSISTENT_SOURCES: dict[str, Callable[[Obj], None]] = {
    "hostPath": _present(type=""),
    "iscsi": _filled(iscsiInterface="default"),
    "rbd": _filled(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _present(
        cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"
    ),
    "scaleIO": _filled(storageMode="ThinProvisioned", fsType="xfs"),
}  # fmt: skip
_SOURCES: dict[str, Callable[[Obj], None]] = {
    **_PERSISTENT_SOURCES,
    "secret": _present(defaultMode=_FILE_MODE),
    "configMap": _present(defaultMode=_FILE_MODE),
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "image": _image,
}

"""Warnings about volumes: removed plugins, fractional sizes, files that hide one another."""

from __future__ import annotations

from typing import NamedTuple

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["claim_spec_warnings", "overlapping_path_warnings", "plugin_warnings"]

_REMOVED_PLUGINS = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_PRINTED_AS = {"storageos": "storageOS"}


class _Place(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def plugin_warnings(prefix: str, source: Obj) -> list[str]:
    """Volume sources that no longer work."""
    return [
        f"{prefix}{_PRINTED_AS.get(key, key)}: {_REMOVED_PLUGINS[key]}"
        for key in source
        if key in _REMOVED_PLUGINS
    ]


def claim_spec_warnings(path: str, spec: Obj) -> list[str]:
    """Sizes with a fraction of a byte."""
    warnings = []
    for kind in ("requests", "limits"):
        value = ((spec.get("resources") or {}).get(kind) or {}).get("storage")
        if value is not None and Quantity.parse(value).nano % 10**9:
            warnings.append(
                f'{path}.resources.{kind}[storage]: fractional byte value "{value}" is invalid, '
                "must be an integer"
            )
    return warnings


def overlapping_path_warnings(volumes: list[Obj]) -> list[str]:
    """Files of one volume that stand in each other's way."""
    warnings: list[str] = []
    for volume in volumes:
        name = volume.get("name") or ""
        for description, places in _single_sources(volume):
            warnings += [
                f'volume "{name}" ({description}): overlapping paths: {clash}'
                for clash in _clashes(places)
            ]
        if "projected" in volume:
            warnings += _projected(name, volume["projected"].get("sources") or [])
    return warnings


def _single_sources(volume: Obj) -> list[tuple[str, list[_Place]]]:
    found = []
    for key, label, name in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ):
        source = volume.get(key)
        if source and source.get("items"):
            described = f'{label} "{source.get(name) or ""}"' if name else label
            found.append((described, _places(source["items"], "")))
    return found


def _projected(name: str, sources: list[Obj]) -> list[str]:
    warnings: list[str] = []
    places: list[_Place] = []
    for source in sources:
        if not source:
            warnings.append(f'volume "{name}" (Projected) has no sources provided')
        places += _projection(source)
    return warnings + [
        f'volume "{name}" (Projected): overlapping paths: {clash}' for clash in _clashes(places)
    ]


def _projection(source: Obj) -> list[_Place]:
    for key, label in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if source.get(key, {}).get("items"):
            return _places(source[key]["items"], f'{label} "{source[key].get("name") or ""}"')
    if source.get("downwardAPI", {}).get("items"):
        return _places(source["downwardAPI"]["items"], "DownwardAPI")
    if "serviceAccountToken" in source:
        return [_Place(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")]
    if "clusterTrustBundle" in source:
        bundle = source["clusterTrustBundle"]
        name = bundle.get("name") or bundle.get("signerName") or ""
        return [_Place(bundle.get("path") or "", f'ClusterTrustBundle "{name}"')]
    certificate = source.get("podCertificate") or {}
    return [
        _Place(certificate[key], f"PodCertificate {what}")
        for key, what in (
            ("certificateChainPath", "chain"),
            ("keyPath", "key"),
            ("credentialBundlePath", "credential bundle"),
        )
        if certificate.get(key)
    ]


def _places(items: list[Obj], source: str) -> list[_Place]:
    return [_Place(item.get("path") or "", source) for item in items]


def _clashes(places: list[_Place]) -> list[str]:
    if len(places) < 2:
        return []
    clashes = []
    seen: list[_Place] = []
    for place in places:
        path, source = place.path.rstrip("/"), place.source
        here = _Place(path, source)
        clashes += [
            f"{here} with {other}"
            for other in seen
            if path
            and other.path
            and (f"{other.path}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other.path}/"))
        ]
        seen.append(here)
    return clashes

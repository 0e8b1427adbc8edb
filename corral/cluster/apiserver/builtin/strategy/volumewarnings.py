"""Warnings about volumes: removed plugins, fractional sizes, files that hide one another."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["MOST_CLASHES", "claim_spec_warnings", "overlapping_path_warnings", "plugin_warnings"]

MOST_CLASHES = 256
"""Warnings of one sort that a pod gets: an answer carries fewer."""
_LONGEST = 4097
"""Characters of a warning: of a longer one, an answer carries only the beginning."""
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
    """Files of one volume that stand in each other's way: at most ``MOST_CLASHES`` of them."""
    warnings: list[str] = []
    room = MOST_CLASHES
    for volume in volumes:
        name, sources = volume.get("name") or "", _single_sources(volume)
        if "projected" in volume:
            parts = volume["projected"].get("sources") or []
            empty = f'volume "{name}" (Projected) has no sources provided'
            warnings += [empty for source in parts if not source]
            sources.append(("Projected", [p for source in parts for p in _projection(source)]))
        for description, places in sources:
            clashes = _clashes(places, most=room)
            room -= len(clashes)
            warnings += [
                f'volume "{name}" ({description}): overlapping paths: {clash}'[:_LONGEST]
                for clash in clashes
            ]
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


class _Path:
    """A path that clashes, and who wants it, by the order in which they came."""

    def __init__(self, above: _Path | None) -> None:
        self.above = above
        """The next path that clashes on the way up."""
        self.here: list[int] = []
        """Places of this path."""
        self.below: list[int] = []
        """Places of this path and of all below it."""

    def add(self, place: int) -> None:
        self.here.append(place)
        self.below.append(place)
        for path in self._way_up():
            path.below.append(place)

    def since(self, place: int) -> Iterator[int]:
        """The places from this one on that are in the way of this path."""
        lists = (self.below, *(path.here for path in self._way_up()))
        return heapq.merge(*(found[bisect_left(found, place) :] for found in lists))

    def _way_up(self) -> Iterator[_Path]:
        path = self.above
        while path is not None:
            yield path
            path = path.above


def _clashes(places: list[_Place], *, most: int) -> list[str]:
    """Which places are, or lie below, the place of another: the first ``most`` of these pairs.

    A pair that comes again is left out: it would be the same warning.
    """
    wanted = [_Place(place.path.rstrip("/"), place.source) for place in places]
    paths = _related(place.path for place in wanted)
    clashes: list[str] = []
    seen: list[_Place] = []
    looked: dict[_Place, int] = {}  # how many had come when a place was looked at last
    for place in wanted:
        path = paths.get(place.path)
        if path is None:
            continue
        for other in path.since(looked.get(place, 0)):
            if len(clashes) >= most:
                return clashes
            clashes.append(f"{place} with {seen[other]}")
        first = place not in looked
        looked[place] = len(seen)
        if first:
            path.add(len(seen))
            seen.append(place)
    return clashes


def _related(wanted: Iterable[str]) -> dict[str, _Path]:
    """The paths that come twice, or that have another one above or below them."""
    counts = Counter(filter(None, wanted))
    above: dict[str, str] = {}
    parents: list[str] = []
    ordered = sorted(counts, key=lambda path: f"{path}/")  # what is below a path follows it
    for path in ordered:
        while parents and not path.startswith(f"{parents[-1]}/"):
            parents.pop()
        if parents:
            above[path] = parents[-1]
        parents.append(path)
    holders = set(above.values())
    related: dict[str, _Path] = {}
    for path in ordered:
        if counts[path] > 1 or path in above or path in holders:
            related[path] = _Path(related.get(above.get(path, "")))
    return related

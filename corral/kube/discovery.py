"""Which kinds a server has: aggregated discovery, with the old form as a fallback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from corral.kube.connection.transport import Transport
from corral.kube.resources import Resource, split_api_version

__all__ = ["ApiResource", "Discovery", "UnknownKind", "fetch_discovery"]

_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)
ACCEPT = f"{_AGGREGATED},application/json"


class UnknownKind(LookupError):
    """The server has no such kind or resource."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource and what discovery says about it."""

    resource: Resource
    singular: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


class Discovery:
    """Everything a server serves, in its order of preference."""

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        self.resources = tuple(resources)
        self._by_kind: dict[tuple[str, str], ApiResource] = {}
        self._by_name: dict[str, ApiResource] = {}
        for entry in self.resources:
            resource = entry.resource
            self._by_kind.setdefault((resource.api_version, resource.kind), entry)
            for name in _names(entry):
                self._by_name.setdefault(name, entry)

    def __iter__(self) -> Iterator[ApiResource]:
        return iter(self.resources)

    def for_kind(self, api_version: str, kind: str) -> Resource:
        """The resource of an object with this ``apiVersion`` and ``kind``.

        Raises:
            UnknownKind: there is none.
        """
        entry = self._by_kind.get((api_version, kind))
        if entry is None:
            raise UnknownKind(f'no matches for kind "{kind}" in version "{api_version}"')
        return entry.resource

    def find(self, name: str) -> ApiResource:
        """What a person means by ``deploy``, ``deployments.apps`` or ``deployments.v1.apps``.

        Raises:
            UnknownKind: the server has nothing of that name.
        """
        entry = self._by_name.get(name.lower())
        if entry is None:
            raise UnknownKind(f'the server doesn\'t have a resource type "{name}"')
        return entry

    def category(self, name: str) -> list[ApiResource]:
        """The members of a category such as ``all``, one version of each."""
        found: dict[tuple[str, str], ApiResource] = {}
        for entry in self.resources:
            if name in entry.categories:
                found.setdefault((entry.resource.group, entry.resource.plural), entry)
        return list(found.values())


def _names(entry: ApiResource) -> Iterator[str]:
    resource = entry.resource
    words = (resource.plural, entry.singular, resource.kind.lower(), *entry.short_names)
    for word in filter(None, words):
        yield word
        if resource.group:
            yield f"{word}.{resource.group}"
            yield f"{word}.{resource.version}.{resource.group}"
        else:
            yield f"{word}.{resource.version}"


async def fetch_discovery(transport: Transport) -> Discovery:
    """Ask the server for all it has."""
    entries: list[ApiResource] = []
    for root in ("/api", "/apis"):
        answer = orjson.loads(await transport.request("GET", root, accept=ACCEPT))
        if answer.get("kind") == "APIGroupDiscoveryList":
            entries += _aggregated(answer)
        else:
            entries += await _legacy(transport, root, answer)
    return Discovery(entries)


def _aggregated(answer: dict[str, Any]) -> Iterator[ApiResource]:
    for group in answer.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            for entry in version.get("resources") or ():
                yield _aggregated_entry(name, version["version"], entry)


def _aggregated_entry(group: str, version: str, entry: dict[str, Any]) -> ApiResource:
    kind = (entry.get("responseKind") or {}).get("kind", "")
    namespaced = entry.get("scope") == "Namespaced"
    return ApiResource(
        resource=Resource(group, version, entry["resource"], namespaced, kind),
        singular=entry.get("singularResource") or "",
        verbs=tuple(entry.get("verbs") or ()),
        short_names=tuple(entry.get("shortNames") or ()),
        categories=tuple(entry.get("categories") or ()),
        subresources=tuple(s["subresource"] for s in entry.get("subresources") or ()),
    )


async def _legacy(transport: Transport, root: str, answer: dict[str, Any]) -> list[ApiResource]:
    if root == "/api":
        versions = list(answer.get("versions") or ())
    else:
        versions = [
            version["groupVersion"]
            for group in answer.get("groups") or ()
            for version in _preferred_first(group)
        ]
    entries: list[ApiResource] = []
    for version in versions:
        found = orjson.loads(await transport.request("GET", f"{root}/{version}"))
        entries += _legacy_entries(version, found.get("resources") or ())
    return entries


def _preferred_first(group: dict[str, Any]) -> list[dict[str, Any]]:
    preferred = (group.get("preferredVersion") or {}).get("groupVersion")
    versions = group.get("versions") or ()
    return sorted(versions, key=lambda version: version["groupVersion"] != preferred)


def _legacy_entries(api_version: str, entries: Iterable[dict[str, Any]]) -> Iterator[ApiResource]:
    group, version = split_api_version(api_version)
    listed = list(entries)
    for entry in listed:
        plural = entry["name"]
        if "/" in plural:
            continue
        prefix = f"{plural}/"
        yield ApiResource(
            resource=Resource(group, version, plural, bool(entry.get("namespaced")), entry["kind"]),
            singular=entry.get("singularName") or "",
            verbs=tuple(entry.get("verbs") or ()),
            short_names=tuple(entry.get("shortNames") or ()),
            categories=tuple(entry.get("categories") or ()),
            subresources=tuple(
                e["name"].removeprefix(prefix) for e in listed if e["name"].startswith(prefix)
            ),
        )

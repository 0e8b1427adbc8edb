"""Discovery: which groups, versions and resources there are, in the old and the new form."""

from __future__ import annotations

import base64
import hashlib

import orjson

from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.kube.types import Obj


class Discovery:
    """Discovery documents of a catalog, rebuilt when it changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._generation = -1
        self._cache: dict[tuple[str, str], bytes] = {}

    def _cached(self, form: str, name: str) -> bytes | None:
        if self._generation != self._catalog.generation:
            self._cache.clear()
            self._generation = self._catalog.generation
        return self._cache.get((form, name))

    def aggregated(self, *, core: bool, version: str) -> bytes:
        """``APIGroupDiscoveryList`` of /api or /apis."""
        form = f"aggregated-{version}"
        found = self._cached(form, str(core))
        if found is None:
            items = [
                self._group(group, versions)
                for group, versions in self._catalog.groups().items()
                if (group == "") == core
            ]
            found = self._cache[form, str(core)] = orjson.dumps(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": f"apidiscovery.k8s.io/{version}",
                    "metadata": {},
                    "items": items,
                }
            )
        return found

    def _group(self, group: str, versions: list[str]) -> Obj:
        meta: Obj = {"name": group} if group else {}
        return {
            "metadata": meta,
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated(r) for r in self._catalog.resources(group, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }

    def api_versions(self, address: str) -> bytes:
        return orjson.dumps(
            {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
                ],
            }
        )

    def group_list(self) -> bytes:
        found = self._cached("groups", "")
        if found is None:
            groups = [
                _api_group(group, versions)
                for group, versions in self._catalog.groups().items()
                if group
            ]
            found = self._cache["groups", ""] = orjson.dumps(
                {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            )
        return found

    def group(self, group: str) -> bytes | None:
        versions = self._catalog.groups().get(group)
        if not versions or not group:
            return None
        return orjson.dumps({"kind": "APIGroup", "apiVersion": "v1", **_api_group(group, versions)})

    def resource_list(self, group: str, version: str) -> bytes | None:
        if version not in self._catalog.groups().get(group, ()):
            return None
        name = f"{group}/{version}" if group else version
        found = self._cached("resources", name)
        if found is None:
            resources: list[Obj] = []
            for info in self._catalog.resources(group, version):
                resources += _legacy(info)
            found = self._cache["resources", name] = orjson.dumps(
                {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": name,
                    "resources": sorted(resources, key=lambda r: str(r["name"])),
                }
            )
        return found


def _aggregated(info: ResourceInfo) -> Obj:
    out: Obj = {
        "resource": info.plural,
        "responseKind": {"group": info.group, "version": info.version, "kind": info.kind},
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": list(info.verbs),
    }
    if info.short_names:
        out["shortNames"] = list(info.short_names)
    if info.categories:
        out["categories"] = list(info.categories)
    if info.subresources:
        out["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for _, sub in sorted(info.subresources.items())
        ]
    return out


def _legacy(info: ResourceInfo) -> list[Obj]:
    main: Obj = {
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": list(info.verbs),
    }
    if info.short_names:
        main["shortNames"] = list(info.short_names)
    if info.categories:
        main["categories"] = list(info.categories)
    if "watch" in info.verbs:
        digest = hashlib.sha256(f"{info.group}/{info.version}/{info.kind}".encode()).digest()
        main["storageVersionHash"] = base64.b64encode(digest[:8]).decode()
    out = [main]
    for sub in info.subresources.values():
        entry: Obj = {
            "name": f"{info.plural}/{sub.name}",
            "singularName": "",
            "namespaced": info.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if (sub.group, sub.version) != (info.group, info.version):
            entry["group"], entry["version"] = sub.group, sub.version
        out.append(entry)
    return out


def _api_group(group: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}

"""OpenAPI: version 3, one document per group and version, and version 2 in one piece.

The documents say what clients read from them: the schemas with their merge keys and kinds (explain,
diff, client-side validation), and per path the operations with their kind and the fieldValidation
parameter (kubectl looks for it before it asks the server to validate).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from corral.cluster.apiserver import schema
from corral.cluster.apiserver.http.openapi import v2 as openapi_v2
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.kube.types import Obj

CustomSchema = Callable[[ResourceInfo], Obj | None]
"""The published schema of a custom resource."""

_VERSION = schema.KUBERNETES_VERSION.rpartition(".")[0]
_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_ACTIONS = {
    "get": ("get", "read"),
    "put": ("put", "replace"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
    "post": ("post", "create"),
}
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"


class OpenApi:
    """The documents of a catalog, built when first asked for and after it changed."""

    def __init__(self, catalog: Catalog, custom: CustomSchema) -> None:
        self._catalog = catalog
        self._custom = custom
        self._generation = -1
        self._cache: dict[str, bytes] = {}

    def _fresh(self) -> dict[str, bytes]:
        if self._generation != self._catalog.generation:
            self._cache.clear()
            self._generation = self._catalog.generation
        return self._cache

    def index(self) -> bytes:
        """``/openapi/v3``: the documents with a hash, so that clients can cache them."""
        cache = self._fresh()
        if "index" not in cache:
            paths = {}
            for group, versions in self._catalog.groups().items():
                for version in versions:
                    path = f"apis/{group}/{version}" if group else f"api/{version}"
                    digest = hashlib.sha256(self._fingerprint(group, version)).hexdigest().upper()
                    paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
            cache["index"] = orjson.dumps({"paths": paths})
        return cache["index"]

    def _fingerprint(self, group: str, version: str) -> bytes:
        parts = [schema.KUBERNETES_VERSION, group, version]
        for info in self._catalog.resources(group, version):
            parts.append(repr(info))
            if info.custom:
                parts.append(repr(self._custom(info)))
        return "\n".join(parts).encode()

    def document(self, path: str) -> bytes | None:
        """One group and version, by its path below ``/openapi/v3/``."""
        cache = self._fresh()
        if path not in cache:
            prefix, _, rest = path.partition("/")
            group, _, version = rest.rpartition("/")
            if (prefix == "api") != (group == "") or prefix not in ("api", "apis"):
                return None
            if version not in self._catalog.groups().get(group, ()):
                return None
            cache[path] = orjson.dumps(self._build(group, version))
        return cache[path]

    def v2(self, *, protobuf: bool) -> bytes:
        """``/openapi/v2``: all definitions and paths in one document."""
        cache = self._fresh()
        name = "v2.pb" if protobuf else "v2.json"
        if name not in cache:
            schemas: Obj = {}
            paths: Obj = {}
            for group, versions in self._catalog.groups().items():
                for version in versions:
                    part = self._build(group, version)
                    schemas |= part["components"].get("schemas") or {}
                    paths |= part["paths"]
            document = openapi_v2.document(_VERSION, paths, schemas)
            cache["v2.pb"] = openapi_v2.encode(document)
            cache["v2.json"] = orjson.dumps(document)
        return cache[name]

    def _build(self, group: str, version: str) -> Obj:
        schemas: Obj = {}
        paths: Obj = {}
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for info in self._catalog.resources(group, version):
            name = self._add_schema(info, schemas)
            if name is None:
                continue
            for path, methods in _paths(root, info):
                paths[path] = {
                    method: _operation(info, method, name, path=path) for method in methods
                }
                if parameters := _path_parameters(path):
                    paths[path]["parameters"] = parameters
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": _VERSION},
            "paths": paths,
            "components": {"schemas": schemas} if schemas else {},
        }

    def _add_schema(self, info: ResourceInfo, schemas: Obj) -> str | None:
        if info.custom:
            published = self._custom(info)
            if published is None:
                return None
            reverse = ".".join(reversed(info.group.split(".")))
            name = f"{reverse}.{info.version}.{info.kind}"
            schemas[name] = _to_v3(published)
            self._add_builtin(_OBJECT_META, schemas)
            self._add_builtin(_LIST_META, schemas)
            self._add_builtin(_STATUS, schemas)
            schemas[f"{name}List"] = _custom_list(info, name)
            return name
        found = schema.definition_name(info.group, info.version, info.kind)
        if found is None:
            return None
        self._add_builtin(found, schemas)
        if f"{found}List" in schema.definitions():
            self._add_builtin(f"{found}List", schemas)
        self._add_builtin(_STATUS, schemas)
        return found

    def _add_builtin(self, name: str, schemas: Obj) -> None:
        if name in schemas:
            return
        converted = _builtin_v3(name)
        schemas[name] = converted
        for ref in _refs(converted):
            self._add_builtin(ref, schemas)


def _builtin_v3(name: str) -> Obj:
    if name == schema.INT_OR_STRING:
        return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
    if name == schema.QUANTITY:
        return {
            "description": schema.definitions()[name].get("description", ""),
            "oneOf": [{"type": "string"}, {"type": "number"}],
        }
    converted: Obj = _to_v3(schema.definitions()[name])
    return converted


def _to_v3(node: Any) -> Any:
    """References beside other keys go into ``allOf``, as OpenAPI 3.0 wants it."""
    if isinstance(node, list):
        return [_to_v3(value) for value in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if isinstance(ref, str):
        target = {"$ref": ref.replace("#/definitions/", "#/components/schemas/")}
        rest = {k: v for k, v in node.items() if k != "$ref"}
        return {**rest, "allOf": [target]} if rest else target
    return {key: _to_v3(value) for key, value in node.items()}


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        ref = node.get("$ref")
        if isinstance(ref, str):
            yield ref.rpartition("/")[2]
        for value in node.values():
            yield from _refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from _refs(value)


def _custom_list(info: ResourceInfo, name: str) -> Obj:
    return {
        "description": f"{info.list_kind} is a list of {info.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"#/components/schemas/{_LIST_META}"},
        },
        "x-kubernetes-group-version-kind": [
            {"group": info.group, "version": info.version, "kind": info.list_kind}
        ],
    }


def _paths(root: str, info: ResourceInfo) -> Iterator[tuple[str, list[str]]]:
    verbs = set(info.verbs)
    base = f"{root}/namespaces/{{namespace}}/{info.plural}" if info.namespaced else ""
    base = base or f"{root}/{info.plural}"
    collection = [
        m for m, v in (("get", "list"), ("post", "create"), ("delete", "deletecollection"))
        if v in verbs
    ]  # fmt: skip
    single = [
        m for m, v in (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
        if v in verbs
    ]  # fmt: skip
    if collection:
        yield base, collection
    if single:
        yield f"{base}/{{name}}", single
    if info.namespaced and "list" in verbs:
        yield f"{root}/{info.plural}", ["get"]
    methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
    for sub in info.subresources.values():
        if (sub.group, sub.version, sub.kind) == (info.group, info.version, info.kind):
            yield f"{base}/{{name}}/{sub.name}", [methods[v] for v in sub.verbs if v in methods]


def _operation(info: ResourceInfo, method: str, name: str, *, path: str) -> Obj:
    action, word = _ACTIONS[method]
    ref = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    returned = name
    if method == "get" and path.endswith(f"/{info.plural}"):
        action, word, returned = "list", "list", f"{name}List"
    elif method == "delete" and path.endswith(f"/{info.plural}"):
        action, word, returned = "deletecollection", "deletecollection", _STATUS
    answer = {"schema": {"$ref": f"#/components/schemas/{returned}"}}
    out: Obj = {
        "description": f"{word} {info.kind}",
        "operationId": f"{word}{info.group}{info.version}{path.replace('/', '_')}",
        "responses": {"200": {"description": "OK", "content": {"application/json": answer}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": info.group,
            "version": info.version,
            "kind": info.kind,
        },
    }
    if action == "list":
        out["parameters"] = _LIST_PARAMETERS
    if method in ("post", "put", "patch"):
        out["parameters"] = [
            {"name": q, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for q in (*_QUERY, *(("force",) if method == "patch" else ()))
        ]
        # kubectl apply sends a strategic patch wherever it finds one on offer.
        patches = _CUSTOM_PATCHES if info.custom else _PATCHES
        content = patches if method == "patch" else {"*/*": ref}
        out["requestBody"] = {"content": content, "required": True}
    return out


def _path_parameters(path: str) -> list[Obj]:
    described = {"name": "name of the object", "namespace": "namespace of the object"}
    return [
        {
            "name": name,
            "in": "path",
            "description": text,
            "required": True,
            "schema": {"type": "string", "uniqueItems": True},
        }
        for name, text in described.items()
        if f"{{{name}}}" in path
    ]


_SELECTOR = (
    "A selector to restrict the list of returned objects by their {}. Defaults to everything."
)
_DESCRIBED = {
    "fieldSelector": _SELECTOR.format("fields"),
    "labelSelector": _SELECTOR.format("labels"),
    "watch": "Watch for changes to the described resources and return them as a stream of add, "
    "update, and remove notifications. Specify resourceVersion.",
}
_LIST_PARAMETERS: list[Obj] = [
    {
        "name": name,
        "in": "query",
        "description": _DESCRIBED.get(name, ""),
        "schema": {"type": kind, "uniqueItems": True},
    }
    for name, kind in (
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    )
]
_PATCHES = {
    media: {"schema": {"type": "object"}}
    for media in (
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    )
}
_CUSTOM_PATCHES = {media: body for media, body in _PATCHES.items() if "strategic" not in media}

"""Paths that are no resources: version, health, discovery, OpenAPI, metrics, issuer keys."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

import orjson
from aiohttp import web

from corral.cluster.apiserver import schema
from corral.cluster.apiserver.auth.tokens import TokenIssuer
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.discovery import Discovery
from corral.cluster.apiserver.http.openapi import v2
from corral.cluster.apiserver.http.openapi.v3 import OpenApi
from corral.cluster.apiserver.http.verbs import answer
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.kube import errors

_MAJOR, _MINOR, _ = schema.KUBERNETES_VERSION.split(".")
_MACHINE = platform.machine()
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(_MACHINE, _MACHINE)
VERSION = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": f"v{schema.KUBERNETES_VERSION}+corral",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": sys.implementation.name,
    "platform": f"{sys.platform}/{_ARCHITECTURE}",
}
_PROBES = ("healthz", "livez", "readyz")


class System:
    """Answers for paths outside the resources."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        discovery: Discovery,
        openapi: OpenApi,
        issuer: TokenIssuer,
        store: Store,
        address: Callable[[], str],
        ready: Callable[[], bool],
    ) -> None:
        self._catalog = catalog
        self._discovery = discovery
        self._openapi = openapi
        self._issuer = issuer
        self._store = store
        self._address = address
        self._ready = ready
        self.counters: dict[tuple[str, str, int], int] = {}

    async def handle(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        path = info.path.strip("/")
        if request.method not in ("GET", "HEAD"):
            raise errors.MethodNotSupported(
                "the server does not allow this method on the requested resource"
            )
        parts = path.split("/") if path else []
        if path == "version":
            return answer(negotiate.Output(), orjson.dumps(VERSION))
        if parts and parts[0] in _PROBES:
            return self._probe(request, parts)
        if path == "metrics":
            return web.Response(body=self._metrics(), content_type="text/plain")
        if parts and parts[0] == "openapi":
            return self._open(request, path)
        if path == ".well-known/openid-configuration":
            document = self._issuer.openid_configuration(f"https://{self._address()}")
            return answer(negotiate.Output(), orjson.dumps(document))
        if path == "openid/v1/jwks":
            body = orjson.dumps(self._issuer.jwks())
            return web.Response(body=body, headers={"Content-Type": "application/jwk-set+json"})
        return self._discover(request, parts)

    def _discover(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        discovery, body = self._discovery, None
        out = negotiate.Output()
        if parts in (["api"], ["apis"]):
            out = negotiate.output(request.headers.get("Accept", ""))
            if out.shape == "discovery":
                core = parts == ["api"]
                body = discovery.aggregated(core=core, version=out.version)
                return answer(out, body)
            out = negotiate.Output(out.media, content_type=out.media)
            if parts == ["api"]:
                body = discovery.api_versions(self._address())
            else:
                body = discovery.group_list()
        elif len(parts) == 2:
            body = (
                discovery.resource_list("", parts[1])
                if parts[0] == "api"
                else discovery.group(parts[1])
                if parts[0] == "apis"
                else None
            )
        elif len(parts) == 3 and parts[0] == "apis":
            body = discovery.resource_list(parts[1], parts[2])
        elif not parts:
            body = orjson.dumps({"paths": self._paths()})
        if body is None:
            return web.Response(text="404 page not found\n", status=404)
        return answer(out, body)

    def _paths(self) -> list[str]:
        paths = ["/.well-known/openid-configuration", "/api", "/apis"]
        for group, versions in self._catalog.groups().items():
            root = f"/apis/{group}" if group else "/api"
            paths += [root, *(f"{root}/{version}" for version in versions)]
        paths += ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3"]
        paths += ["/openid/v1/jwks", "/readyz", "/version"]
        return sorted(set(paths))

    def _probe(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        ok = self._ready()
        checks = {"ping": True, "etcd": ok, "poststarthook/bootstrap": ok}
        if len(parts) > 1:
            name = "/".join(parts[1:])
            if name not in checks:
                return web.Response(text="404 page not found\n", status=404)
            good = checks[name]
            return web.Response(text="ok" if good else "not ready", status=200 if good else 500)
        if "verbose" not in request.query and ok:
            return web.Response(text="ok")
        marks = {True: "+", False: "-"}
        words = {True: "ok", False: "failed: still starting"}
        lines = [f"[{marks[good]}]{name} {words[good]}" for name, good in checks.items()]
        lines.append(f"{parts[0]} check {'passed' if ok else 'failed'}\n")
        return web.Response(text="\n".join(lines), status=200 if ok else 500)

    def _open(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == "openapi/v2":
            if "proto-openapi" in request.headers.get("Accept", ""):
                out = negotiate.Output(v2.PROTOBUF, content_type=v2.PROTOBUF)
                return answer(out, self._openapi.v2(protobuf=True))
            return answer(negotiate.Output(), self._openapi.v2(protobuf=False))
        if path == "openapi/v3":
            return answer(negotiate.Output(), self._openapi.index())
        body = self._openapi.document(path.removeprefix("openapi/v3/"))
        if body is None:
            return web.Response(text="404 page not found\n", status=404)
        return answer(negotiate.Output(), body)

    def _metrics(self) -> bytes:
        lines = [
            "# HELP apiserver_request_total Requests by verb, resource and code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, resource, code), count in sorted(self.counters.items()):
            labels = f'verb="{verb.upper()}",resource="{resource}",code="{code}"'
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        lines += [
            "# HELP apiserver_storage_objects Objects stored, by resource.",
            "# TYPE apiserver_storage_objects gauge",
        ]
        for table in sorted(self._store.resources()):
            group, _, plural = table.partition("/")
            name = f"{plural}.{group}" if group else plural
            lines.append(
                f'apiserver_storage_objects{{resource="{name}"}} {self._store.count(table)}'
            )
        return ("\n".join(lines) + "\n").encode()

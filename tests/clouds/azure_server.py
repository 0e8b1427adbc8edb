"""Enough of Azure's Resource Manager to make, see, list, lose and delete virtual machines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.clouds.faults import Server

TOKEN = "azure-token"
API = "2026-04-01"


class AzureServer(Server):
    """One resource group. Operations are done after so many looks."""

    def __init__(self) -> None:
        super().__init__()
        self.vms: dict[str, dict[str, Any]] = {}
        self.put: list[dict[str, Any]] = []
        self.operations: dict[str, dict[str, Any]] = {}
        self.waits = 1
        self.failing: list[dict[str, Any]] = []
        self.page = 500
        self.retail: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.asked: list[Any] = []
        self.console = ""

    def application(self) -> web.Application:
        app = web.Application()
        group = "/subscriptions/{subscription}/resourceGroups/{group}/providers"
        vms = f"{group}/Microsoft.Compute/virtualMachines"
        app.router.add_put(f"{vms}/{{name}}", self._named("create", self._create))
        app.router.add_get(f"{vms}/{{name}}", self._named("get", self._get))
        app.router.add_delete(f"{vms}/{{name}}", self._named("delete", self._delete))
        app.router.add_get(vms, self._named("list", self._list))
        app.router.add_post(
            f"{vms}/{{name}}/simulateEviction", self._named("simulate", self._simulate)
        )
        app.router.add_post(
            f"{vms}/{{name}}/retrieveBootDiagnosticsData", self._named("boot", self._boot)
        )
        app.router.add_get("/operations/{name}", self._named("wait", self._wait))
        app.router.add_get(
            f"{group}/Microsoft.Network/networkInterfaces/{{name}}", self._named("nic", self._nic)
        )
        app.router.add_get("/api/retail/prices", self._prices)
        app.router.add_get("/console", self._console)
        app.router.add_post(
            "/providers/Microsoft.ResourceGraph/resources", self._named("graph", self._graph)
        )
        return app

    def _named(self, operation: str, handler: Any) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")
            return await self.faults.around(operation, request, lambda: handler(request))

        return handle

    async def _create(self, request: web.Request) -> web.Response:
        assert request.query["api-version"] == API
        body, name = await request.json(), request.match_info["name"]
        if name in self.vms:
            if request.headers.get("If-None-Match") == "*":
                return refusal(412, "PreconditionFailed", f"{name} exists")
            raise AssertionError("a VM that exists would have been changed")
        self.put.append(body)
        self.vms[name] = {
            **body,
            "name": name,
            "id": f"/vm/{name}",
            "properties": {
                **body["properties"],
                "provisioningState": "Creating",
                "vmId": f"id-{len(self.put)}",
                "timeCreated": datetime.now(UTC).isoformat(),
            },
        }
        return self._accepted("create", name, 201)

    def _accepted(self, kind: str, name: str, status: int) -> web.Response:
        number = f"operation-{len(self.operations)}"
        error = self.failing.pop(0) if kind == "create" and self.failing else None
        self.operations[number] = {"kind": kind, "vm": name, "waits": self.waits, "error": error}
        headers = {"Azure-AsyncOperation": f"{self.endpoint}/operations/{number}"}
        return web.json_response(self.vms[name], status=status, headers=headers)

    async def _wait(self, request: web.Request) -> web.Response:
        return self._tick(self.operations[request.match_info["name"]])

    def _tick(self, operation: dict[str, Any]) -> web.Response:
        operation["waits"] -= 1
        if operation["waits"] > 0:
            return web.json_response({"status": "InProgress"}, headers={"Retry-After": "10"})
        vm = self.vms.get(operation["vm"])
        if operation["kind"] == "delete":
            self.vms.pop(operation["vm"], None)
        elif operation["error"] is not None:
            if vm is not None:  # Azure keeps it
                vm["properties"]["provisioningState"] = "Failed"
                code = f"ProvisioningState/failed/{operation['error']['code']}"
                status = {"code": code, "message": operation["error"]["message"]}
                vm["properties"]["instanceView"] = {"statuses": [status]}
            return web.json_response({"status": "Failed", "error": operation["error"]})
        elif vm is not None:
            vm["properties"]["provisioningState"] = "Succeeded"
            vm["properties"]["instanceView"] = {
                "statuses": [
                    {"code": "ProvisioningState/succeeded"},
                    {"code": "PowerState/running"},
                ]
            }
        return web.json_response({"status": "Succeeded"})

    async def _get(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        for operation in list(self.operations.values()):
            if operation["vm"] == name and operation["waits"] > 0:
                self._tick(operation)  # time goes by for whoever only looks
        vm = self.vms.get(name)
        return web.json_response(vm) if vm else refusal(404, "ResourceNotFound", "not found")

    async def _delete(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.vms:
            return refusal(404, "ResourceNotFound", "not found")
        assert request.query["forceDeletion"] == "true"
        self.vms[name]["properties"]["provisioningState"] = "Deleting"
        return self._accepted("delete", name, 202)

    async def _list(self, request: web.Request) -> web.Response:
        start = int(request.query.get("skip", 0))
        every = list(self.vms.values())
        body: dict[str, Any] = {"value": every[start : start + self.page]}
        if start + self.page < len(every):
            body["nextLink"] = f"{self.endpoint}{request.path}?skip={start + self.page}"
        return web.json_response(body)

    async def _nic(self, request: web.Request) -> web.Response:
        if request.match_info["name"].removesuffix("-nic") not in self.vms:
            return refusal(404, "ResourceNotFound", "not found")
        address = {"properties": {"privateIPAddress": "10.0.0.7"}}
        return web.json_response({"properties": {"ipConfigurations": [address]}})

    async def _simulate(self, request: web.Request) -> web.Response:
        del self.vms[request.match_info["name"]]
        return web.Response(status=204)

    async def _prices(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        self.asked.append(request.query.get("$filter"))
        start = int(request.query.get("$skip", 0))
        more = start + 2 < len(self.retail)
        link = f"{self.endpoint}/api/retail/prices?$skip={start + 2}" if more else None
        items = self.retail[start : start + 2]
        return web.json_response({"Items": items, "NextPageLink": link})

    async def _graph(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        return web.json_response({"data": self.rows})

    async def _boot(self, request: web.Request) -> web.Response:
        if not self.console:
            return refusal(409, "Conflict", "not yet")
        return web.json_response({"serialConsoleLogBlobUri": f"{self.endpoint}/console"})

    async def _console(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        return web.Response(text=self.console)

    def alive(self) -> int:
        return len(self.vms)


def refusal(status: int, code: str, message: str) -> web.Response:
    error = {"error": {"code": code, "message": message}}
    return web.Response(status=status, text=json.dumps(error), content_type="application/json")

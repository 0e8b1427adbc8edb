"""Enough of Compute Engine's API to make, see, list, lose and delete instances."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.clouds.faults import Server

TOKEN = "gcp-token"


class GcpServer(Server):
    """One project. Operations are done after so many waits."""

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[tuple[str, str], dict[str, Any]] = {}
        self.inserted: list[dict[str, Any]] = []
        self.operations: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, str] = {}
        self.waits = 1
        self.failing: list[dict[str, Any]] = []
        """Errors of the next operations that make an instance."""
        self.preempted: list[str] = []
        self.page = 500
        self.unreachable: list[str] = []
        self.advice: dict[str, Any] = {}
        self.guest_attributes: dict[str, Any] = {}
        self.address = "10.0.0.7"
        """Of every instance."""

    def application(self) -> web.Application:
        app = web.Application()
        zone = "/compute/v1/projects/{project}/zones/{zone}"
        app.router.add_post(f"{zone}/instances", self._named("insert", self._insert))
        app.router.add_get(f"{zone}/instances/{{name}}", self._named("get", self._get))
        app.router.add_delete(f"{zone}/instances/{{name}}", self._named("delete", self._delete))
        app.router.add_get(
            f"{zone}/instances/{{name}}/getGuestAttributes", self._named("guest", self._guest)
        )
        app.router.add_post(
            f"{zone}/instances/{{name}}/simulateMaintenanceEvent",
            self._named("simulate", self._simulate),
        )
        app.router.add_post(f"{zone}/operations/{{name}}/wait", self._named("wait", self._wait))
        app.router.add_post("/token", self._token)
        aggregated = "/compute/v1/projects/{project}/aggregated"
        app.router.add_get(f"{aggregated}/instances", self._named("list", self._list))
        app.router.add_get(f"{aggregated}/operations", self._named("operations", self._preempted))
        app.router.add_post(
            "/compute/v1/projects/{project}/regions/{region}/advice/{what}",
            self._named("advice", self._advise),
        )
        return app

    def _named(self, operation: str, handler: Any) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return refusal(401, "authError", "Invalid Credentials")
            return await self.faults.around(operation, request, lambda: handler(request))

        return handle

    async def _token(self, request: web.Request) -> web.Response:
        """For whoever has a service account's key."""
        assert (await request.post())["assertion"]
        return web.json_response({"access_token": TOKEN, "expires_in": 3600})

    async def _insert(self, request: web.Request) -> web.Response:
        body = await request.json()
        zone, identity = request.match_info["zone"], request.query["requestId"]
        uuid.UUID(identity)
        if identity in self.requests:
            return web.json_response(self.operations[self.requests[identity]])
        if (zone, body["name"]) in self.instances:
            return refusal(409, "alreadyExists", f"{body['name']} already exists")
        operation = self._operation("insert", zone, body["name"])
        self.requests[identity] = operation["name"]
        if self.failing:
            operation["_error"] = self.failing.pop(0)
            return web.json_response(shown(operation))
        self.inserted.append(body)
        self.instances[zone, body["name"]] = {
            **body,
            "id": str(len(self.inserted)),
            "zone": f"https://compute/zones/{zone}",
            "status": "PROVISIONING",
            "creationTimestamp": datetime.now(UTC).isoformat(),
            "networkInterfaces": [{**body["networkInterfaces"][0], "networkIP": self.address}],
        }
        return web.json_response(shown(operation))

    def _operation(self, kind: str, zone: str, target: str) -> dict[str, Any]:
        name = f"operation-{len(self.operations)}"
        self.operations[name] = {
            "name": name,
            "status": "PENDING" if self.waits else "DONE",
            "operationType": kind,
            "_target": (zone, target),
            "_waits": self.waits,
        }
        return self.operations[name]

    async def _wait(self, request: web.Request) -> web.Response:
        operation = self.operations[request.match_info["name"]]
        operation["_waits"] -= 1
        if operation["_waits"] <= 0 and operation["status"] != "DONE":
            operation["status"] = "DONE"
            if "_error" in operation:
                operation["error"] = {"errors": [operation["_error"]]}
                operation["httpErrorStatusCode"] = operation["_error"].get("status", 503)
            elif operation["operationType"] == "delete":
                self.instances.pop(operation["_target"], None)
            elif operation["_target"] in self.instances:
                self.instances[operation["_target"]]["status"] = "RUNNING"
        return web.json_response(shown(operation))

    async def _get(self, request: web.Request) -> web.Response:
        found = self.instances.get((request.match_info["zone"], request.match_info["name"]))
        return web.json_response(found) if found else refusal(404, "notFound", "was not found")

    async def _delete(self, request: web.Request) -> web.Response:
        key = (request.match_info["zone"], request.match_info["name"])
        if key not in self.instances:
            return refusal(404, "notFound", "was not found")
        self.instances[key]["status"] = "STOPPING"
        return web.json_response(shown(self._operation("delete", *key)))

    async def _list(self, request: web.Request) -> web.Response:
        label, _, value = request.query["filter"].removeprefix("labels.").partition("=")
        assert request.query["returnPartialSuccess"] == "false"
        mine = [i for i in self.instances.values() if i["labels"].get(label) == value]
        start = int(request.query.get("pageToken", 0))
        items: dict[str, Any] = {}
        for each in mine[start : start + self.page]:
            zone = each["zone"].rpartition("/")[2]
            items.setdefault(f"zones/{zone}", {"instances": []})["instances"].append(each)
        items.setdefault("zones/empty", {"warning": {"code": "NO_RESULTS_ON_PAGE"}})
        body: dict[str, Any] = {"items": items, "unreachables": self.unreachable}
        if start + self.page < len(mine):
            body["nextPageToken"] = str(start + self.page)
        return web.json_response(body)

    async def _preempted(self, request: web.Request) -> web.Response:
        assert request.query["filter"] == 'operationType="compute.instances.preempted"'
        operations = [
            {
                "operationType": "compute.instances.preempted",
                "targetLink": f"{self.endpoint}/i/{name}",
            }
            for name in self.preempted
        ]
        return web.json_response({"items": {"zones/z": {"operations": operations}}})

    async def _simulate(self, request: web.Request) -> web.Response:
        self.take(request.match_info["zone"], request.match_info["name"])
        return web.json_response({"name": "simulated", "status": "DONE"})

    async def _advise(self, request: web.Request) -> web.Response:
        what = request.match_info["what"]
        self.advice.setdefault("asked", []).append((what, await request.json()))
        if what not in self.advice:
            return refusal(403, "forbidden", "not for this project")
        return web.json_response(self.advice[what])

    async def _guest(self, request: web.Request) -> web.Response:
        assert request.query["queryPath"] == "hostkeys/"
        if not self.guest_attributes:
            return refusal(404, "notFound", "no such attributes")
        return web.json_response(self.guest_attributes)

    def take(self, zone: str, name: str) -> None:
        """Preempt an instance, as GCP does it: gone, with an operation that tells."""
        del self.instances[zone, name]
        self.preempted.append(name)

    def alive(self) -> int:
        return len(self.instances)


def shown(operation: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in operation.items() if not key.startswith("_")}


def refusal(status: int, reason: str, message: str) -> web.Response:
    error = {"code": status, "message": message, "errors": [{"reason": reason}]}
    return web.Response(
        status=status, text=json.dumps({"error": error}), content_type="application/json"
    )

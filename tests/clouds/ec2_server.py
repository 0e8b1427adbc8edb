"""Enough of EC2's query API to run, describe, lose and terminate instances."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from tests.clouds.faults import Server

ACCESS, SECRET = "AKIATESTTESTTESTTEST", "secret"
_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Ec2Server(Server):
    """One region. Instances run after so many looks at them."""

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, tuple[str, Mapping[str, str]]] = {}
        self.run: list[Mapping[str, str]] = []
        """The parameters of every RunInstances that made an instance."""
        self.page = 500
        self.prices: list[dict[str, str]] = []
        self.console = ""
        self.advisor: dict[str, Any] = {}

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/", self._handle)
        app.router.add_get("/advisor.json", self._advise)
        return app

    async def _advise(self, request: web.Request) -> web.Response:
        return web.json_response(self.advisor)

    async def _handle(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        signature = request.headers.get("Authorization", "")
        if not signature.startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS}/"):
            return refusal(401, "AuthFailure", "not able to validate the provided credentials")
        action = form["Action"]
        work = getattr(self, f"_{action}")

        async def answer() -> web.Response:
            result: web.Response = work(form)
            return result

        return await self.faults.around(action, request, answer)

    def _RunInstances(self, form: Mapping[str, str]) -> web.Response:
        asked = {key: value for key, value in form.items() if key not in ("Action", "Version")}
        token = form["ClientToken"]
        if token in self.tokens:
            identity, before = self.tokens[token]
            if before != asked:
                return refusal(400, "IdempotentParameterMismatch", "other parameters")
        else:
            identity = f"i-{len(self.run):017x}"
            self.tokens[token] = (identity, asked)
            self.run.append(asked)
            self.instances[identity] = {
                "id": identity,
                "state": "pending",
                "type": form["InstanceType"],
                "zone": form["Placement.AvailabilityZone"],
                "tags": _tags(form, "TagSpecification.1."),
                "lifecycle": form.get("InstanceMarketOptions.MarketType", ""),
                "launched": datetime.now(UTC).isoformat(),
                "reason": "",
            }
        items = f"<item>{shown(self.instances[identity])}</item>"
        return said("RunInstances", f"<instancesSet>{items}</instancesSet>")

    def _DescribeInstances(self, form: Mapping[str, str]) -> web.Response:
        wanted = _values(form, "InstanceId.")
        if any(identity not in self.instances for identity in wanted):
            return refusal(400, "InvalidInstanceID.NotFound", f"{wanted} does not exist")
        filters = _filters(form)
        found = [
            each
            for each in self.instances.values()
            if (not wanted or each["id"] in wanted) and _fits(each, filters)
        ]
        start = int(form.get("NextToken", 0))
        items = ""
        for each in found[start : start + self.page]:
            if each["state"] == "pending":
                each["state"] = "running"
            items += f"<item><instancesSet><item>{shown(each)}</item></instancesSet></item>"
        more = start + self.page < len(found)
        token = f"<nextToken>{start + self.page}</nextToken>" if more else ""
        return said("DescribeInstances", f"<reservationSet>{items}</reservationSet>{token}")

    def _TerminateInstances(self, form: Mapping[str, str]) -> web.Response:
        for identity in _values(form, "InstanceId."):
            if identity not in self.instances:
                return refusal(400, "InvalidInstanceID.NotFound", f"{identity} does not exist")
            self.instances[identity]["state"] = "terminated"
            self.instances[identity]["reason"] = "Client.UserInitiatedShutdown"
        return said("TerminateInstances", "<instancesSet/>")

    def _DescribeSpotPriceHistory(self, form: Mapping[str, str]) -> web.Response:
        kinds, zones = _values(form, "InstanceType."), _filters(form)["availability-zone"]
        items = "".join(
            "<item>" + "".join(f"<{key}>{value}</{key}>" for key, value in each.items()) + "</item>"
            for each in self.prices
            if each["instanceType"] in kinds and each["availabilityZone"] in zones
        )
        return said(
            "DescribeSpotPriceHistory", f"<spotPriceHistorySet>{items}</spotPriceHistorySet>"
        )

    def _GetConsoleOutput(self, form: Mapping[str, str]) -> web.Response:
        output = base64.b64encode(self.console.encode()).decode()
        return said("GetConsoleOutput", f"<output>{output}</output>")

    def take(self, identity: str) -> None:
        """Interrupt a spot instance."""
        self.instances[identity]["state"] = "terminated"
        self.instances[identity]["reason"] = "Server.SpotInstanceTermination"

    def alive(self) -> int:
        return sum(each["state"] in ("pending", "running") for each in self.instances.values())


def _values(form: Mapping[str, str], prefix: str) -> list[str]:
    return [value for key, value in sorted(form.items()) if key.startswith(prefix)]


def _filters(form: Mapping[str, str]) -> dict[str, list[str]]:
    found = {}
    number = 1
    while f"Filter.{number}.Name" in form:
        found[form[f"Filter.{number}.Name"]] = _values(form, f"Filter.{number}.Value.")
        number += 1
    return found


def _fits(instance: Mapping[str, Any], filters: Mapping[str, list[str]]) -> bool:
    return all(
        instance["tags"].get(name.removeprefix("tag:")) in values
        for name, values in filters.items()
    )


def _tags(form: Mapping[str, str], prefix: str) -> dict[str, str]:
    tags = {}
    number = 1
    while f"{prefix}Tag.{number}.Key" in form:
        tags[form[f"{prefix}Tag.{number}.Key"]] = form[f"{prefix}Tag.{number}.Value"]
        number += 1
    return tags


def shown(instance: Mapping[str, Any]) -> str:
    tags = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in instance["tags"].items()
    )
    lifecycle = f"<instanceLifecycle>{instance['lifecycle']}</instanceLifecycle>"
    return (
        f"<instanceId>{instance['id']}</instanceId><instanceType>{instance['type']}</instanceType>"
        f"<instanceState><name>{instance['state']}</name></instanceState>"
        f"<stateReason><code>{instance['reason']}</code></stateReason>"
        f"<launchTime>{instance['launched']}</launchTime>"
        f"<placement><availabilityZone>{instance['zone']}</availabilityZone></placement>"
        f"<privateIpAddress>10.0.0.7</privateIpAddress><tagSet>{tags}</tagSet>"
        + (lifecycle if instance["lifecycle"] else "")
    )


def said(action: str, text: str) -> web.Response:
    body = (
        f'<{action}Response xmlns="{_NAMESPACE}"><requestId>r</requestId>{text}</{action}Response>'
    )
    return web.Response(text=body, content_type="text/xml")


def refusal(status: int, code: str, message: str) -> web.Response:
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    body = f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>"
    return web.Response(status=status, text=body, content_type="text/xml")

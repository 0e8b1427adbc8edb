"""The metrics of federated jobs over REST."""

from __future__ import annotations

import pytest

from corral.client.learning import learned
from corral.gateway.rest.openapi import document
from tests.unit.client.learning_objects import (
    federated_job,
    job_status,
    round_status,
    training_round,
)
from tests.unit.gateway.gateway_stage import Stage

NS = "/api/v1/namespaces/a"
FOUND = learned(
    {**federated_job(), "status": job_status()},
    [{**training_round(2), "status": round_status()}],
)


async def test_what_was_learned() -> None:
    stage = Stage()
    stage.gateway.answers["metrics"] = FOUND
    reply = await stage.ask("GET", f"{NS}/federatedjobs/digits/metrics")
    assert (reply.status, reply.json()) == (200, FOUND)
    verb, asked = stage.gateway.asked[0]
    assert (verb, asked["namespace"], asked["name"]) == ("metrics", "a", "digits")
    assert [line["verb"] for line in stage.audit] == ["metrics"]


@pytest.mark.parametrize("plural", ["trainingrounds", "mpijobs", "modelcheckpoints"])
async def test_others_have_none(plural: str) -> None:
    stage = Stage()
    reply = await stage.ask("GET", f"{NS}/{plural}/x/metrics")
    assert (reply.status, stage.gateway.asked) == (405, [])


async def test_they_are_only_read() -> None:
    reply = await Stage().ask("POST", f"{NS}/federatedjobs/digits/metrics", {})
    assert (reply.status, reply.headers["allow"]) == (405, "GET")


def test_the_document_describes_every_member() -> None:
    schemas = document()["components"]["schemas"]

    def check(schema: dict, value: object, path: str) -> None:
        if schema.get("type") == "array":
            for item in value:  # type: ignore[attr-defined]
                check(schema["items"], item, path)
        elif "properties" in schema:
            unknown = set(value) - set(schema["properties"])  # type: ignore[call-overload]
            assert not unknown, (path, unknown)
            assert set(schema.get("required", ())) <= set(value), path  # type: ignore[call-overload]
            for key, item in value.items():  # type: ignore[attr-defined]
                check(schema["properties"][key], item, f"{path}.{key}")

    check(schemas["Metrics"], FOUND, "")

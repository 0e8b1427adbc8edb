"""Topics that go with their deployment, and those that stay."""

from __future__ import annotations

import pytest

from corral.podtools.kafka.topics import listed
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import API, Workflow
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(200)
KIND = "federateddeployments"


def deleted(workflow: Workflow, name: str) -> None:
    workflow.objects.delete(API, KIND, name)
    eventually(lambda: workflow.objects.find(API, KIND, name) is None, seconds=60)


def test_topics_that_are_not_retained_go_with_their_deployment(
    workflow: Workflow, unique: str
) -> None:
    x, y = digits()
    workflow.model("digits")
    where = workflow.inject(f"data-{unique}", x[:60], y[:60])
    workflow.datasource("shard", where)
    for name, retain in (("kept", True), ("gone", False)):
        workflow.deployment(name, model="digits", rounds=1, topics={"retain": retain})
    ids = {
        name: workflow.until(KIND, name, "Completed")["federatedStringId"]
        for name in ("kept", "gone")
    }
    before = set(listed(workflow.access))
    going = {topic for topic in before if topic.startswith(f"FED-{ids['gone']}-")}
    kept = {topic.replace(ids["gone"], ids["kept"]) for topic in going}
    assert len(going) == 6, "model, control, state, and those of one client"
    assert kept <= before

    deleted(workflow, "gone")
    eventually(lambda: not going & set(listed(workflow.access)))
    deleted(workflow, "kept")
    after = set(listed(workflow.access))
    assert kept <= after
    assert {f"data-{unique}", "FEDERATED_MODEL_CONTROL_TOPIC"} <= after


def test_a_deployment_whose_broker_is_gone_can_be_deleted(workflow: Workflow) -> None:
    workflow.model("digits")
    workflow.deployment(
        "lost", model="digits", clients={"external": True}, topics={"retain": False},
        kafka={"bootstrapServers": "127.0.0.1:1"},
    )  # fmt: skip
    workflow.until(KIND, "lost", "Running")
    uid = workflow.objects.get(API, KIND, "lost")["metadata"]["uid"]
    deleted(workflow, "lost")

    def said() -> bool:
        path = workflow.objects.path("v1", "events")
        events = workflow.objects.backend.request("GET", path).json()["items"]
        mine = [e for e in events if e["involvedObject"].get("uid") == uid]
        return any(e["reason"] == "TopicsLeft" and "127.0.0.1:1" in e["message"] for e in mine)

    eventually(said)

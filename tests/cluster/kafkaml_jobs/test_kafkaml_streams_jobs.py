"""Data that goes on, and data without labels, as objects: nobody starts a client by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.client import Sender, Topic, ensure
from corral.podtools.kafka.messages import DataControl
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import RAW, Workflow
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)


def trained(workflow: Workflow, name: str) -> int:
    """Records that all rounds together were of."""
    results: list[dict[str, Any]] = workflow.status("federateddeployments", name).get("results", [])
    return sum(entry["samples"] for result in results for entry in result.get("rounds") or ())


@pytest.mark.soak
def test_an_announced_stream_is_trained_on_until_it_is_over(
    workflow: Workflow, unique: str
) -> None:
    x, y = digits()
    control, topic = f"data-control-{unique}", f"stream-{unique}"
    ensure(workflow.access, [Topic(control, 1_000_000)])
    workflow.inject(topic, x[:100], y[:100])
    workflow.model("digits")
    workflow.deployment(
        "stream", model="digits", rounds=50, incremental=True, streamTimeout=6000,
        topics={"dataControl": control},
    )  # fmt: skip
    with Sender(workflow.access) as sender:
        message = DataControl(topic, "RAW", RAW, None, incremental=True)
        sender.send(control, message.encode(), key=b"\0")
    eventually(lambda: trained(workflow, "stream") >= 100, seconds=90)
    workflow.inject(topic, x[100:160], y[100:160])
    status = workflow.until("federateddeployments", "stream", "Completed", timeout=120)
    assert trained(workflow, "stream") == 160
    (result,) = status["results"]
    assert result["status"] == "finished"
    assert 2 <= result["version"] < 50
    assert [client["phase"] for client in status["clients"]] == ["Completed"]


def test_labels_are_made_up_for_data_that_has_none(workflow: Workflow, unique: str) -> None:
    x, y = digits()
    labelled = workflow.inject(f"labelled-{unique}", x[:300], y[:300])
    bare = workflow.inject(f"bare-{unique}", x[300:900], np.zeros((600, 1), np.uint8))
    workflow.model("digits")
    workflow.deployment(
        "guess", model="digits", rounds=3, unsupervised=True, unsupervisedRounds=2, confidence=0.7
    )
    workflow.datasource("some", labelled, unsupervisedTopic=str(bare))
    status = workflow.until("federateddeployments", "guess", "Completed", timeout=120)
    (result,) = status["results"]
    assert [entry["samples"] for entry in result["rounds"]] == [300] * 3
    assert 0 < result["trainMetrics"]["pseudo_labelled"] <= 600

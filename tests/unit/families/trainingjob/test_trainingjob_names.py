"""Names and labels of the objects of a job."""

from __future__ import annotations

import pytest

from corral.families.trainingjob import names
from corral.kube.types import Obj


def test_names_follow_from_the_jobs() -> None:
    assert names.pod_name("mnist", 3) == "mnist-3"
    assert names.service_name("mnist") == "mnist"
    assert names.master_service_name("mnist") == "mnist-master"
    assert names.claim_name("mnist") == "mnist-checkpoints"
    assert names.pod_host("mnist", "team-a", 0) == "mnist-0.mnist.team-a.svc"
    assert names.selector_of("mnist") == "trainingjob=mnist"


def test_labels_are_read_back() -> None:
    labels = names.pod_labels("mnist", 2, attempt=5, world=4)
    assert labels == {
        "trainingjob": "mnist",
        "replica-id": "2",
        "training.corral.dev/attempt": "5",
        "training.corral.dev/world-size": "4",
        "app.kubernetes.io/managed-by": "corral",
    }
    pod: Obj = {"metadata": {"labels": labels}}
    assert (names.replica_of(pod), names.attempt_of(pod), names.world_of(pod)) == (2, 5, 4)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "²"])
def test_a_label_that_is_no_number_says_nothing(text: str) -> None:
    assert names.replica_of({"metadata": {"labels": {"replica-id": text}}}) is None
    assert names.attempt_of({"metadata": {}}) is None


@pytest.mark.parametrize(
    ("reference", "ours"),
    [
        ({"apiVersion": "training.corral.dev/v1", "kind": "TrainingJob", "name": "mnist"}, True),
        ({"apiVersion": "training.corral.dev/v1", "kind": "TrainingJob", "name": "other"}, False),
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "mnist"}, False),
        (None, False),
    ],
)
def test_objects_of_an_earlier_job_of_the_name_are_known(
    reference: Obj | None, *, ours: bool
) -> None:
    owners = [{**reference, "uid": "u", "controller": True}] if reference else []
    assert names.is_of_job({"metadata": {"ownerReferences": owners}}, "mnist") is ours

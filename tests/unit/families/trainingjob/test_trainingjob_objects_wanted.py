"""The objects of a job beside its pods."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.objects import builders
from corral.families.trainingjob.objects.gangs import Gang
from corral.kube.resources import resource
from corral.kube.types import Obj

COSCHEDULING = resource("scheduling.x-k8s.io/v1alpha1", "podgroups", kind="PodGroup")
VOLCANO = resource("scheduling.volcano.sh/v1beta1", "podgroups", kind="PodGroup")
LABELS = {"trainingjob": "mnist", "app.kubernetes.io/managed-by": "corral"}
FOUR = Generation(attempt=1, world=4)


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mnist", "namespace": "team-a", "uid": "u-1"},
        "spec": {"replicas": 4, "image": "train", **spec},
    }


def made(owner: Obj, **more: Any) -> list[tuple[str, str]]:
    found = builders.children(owner, FOUR, **more)
    return [(child.resource.kind, child.obj["metadata"]["name"]) for child in found]


def test_every_job_has_these() -> None:
    assert made(job()) == [
        ("Service", "mnist"),
        ("Service", "mnist-master"),
        ("ServiceAccount", "mnist"),
        ("NetworkPolicy", "mnist"),
    ]
    for child in builders.children(job(), FOUR):
        assert child.obj["metadata"]["labels"] == LABELS
        assert child.obj["metadata"]["namespace"] == "team-a"


def test_others_are_made_where_asked() -> None:
    owner = job(
        checkpoint={"storage": {"pvc": {"size": "5Gi"}}},
        serviceAccount={"create": False},
        network={"policy": "None"},
    )
    assert made(owner, gang=Gang(COSCHEDULING)) == [
        ("Service", "mnist"),
        ("Service", "mnist-master"),
        ("PersistentVolumeClaim", "mnist-checkpoints"),
        ("PodGroup", "mnist"),
    ]


def test_no_account_is_made_where_the_template_names_one() -> None:
    owner = job(template={"spec": {"serviceAccountName": "trainer"}})
    assert ("ServiceAccount", "mnist") not in made(owner)


def test_replicas_find_each_other_before_they_are_ready() -> None:
    assert builders.headless_service(job())["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"trainingjob": "mnist"},
    }


def test_the_master_service_leads_to_the_metrics_of_replica_0() -> None:
    service = builders.master_service(job())
    assert service["spec"]["selector"] == {"trainingjob": "mnist", "replica-id": "0"}
    assert service["spec"]["ports"] == [
        {"name": "metrics", "port": 9090, "targetPort": 9090, "protocol": "TCP"}
    ]
    assert "annotations" not in service["metadata"]


def with_metrics() -> Obj:
    port = {"name": "metrics", "containerPort": 8000}
    return job(template={"spec": {"containers": [{"name": "t", "ports": [port]}]}})


def test_a_port_called_metrics_is_the_one() -> None:
    service = builders.master_service(with_metrics())
    assert service["spec"]["ports"][0]["targetPort"] == 8000
    assert service["metadata"]["annotations"]["prometheus.io/port"] == "8000"


def test_the_account_carries_annotations() -> None:
    roles = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/train"}
    account = builders.service_account(job(serviceAccount={"annotations": roles}))
    assert account["metadata"]["annotations"] == roles


def test_the_policy_lets_replicas_alone_in() -> None:
    policy = builders.network_policy(job())["spec"]
    own = {"matchLabels": {"trainingjob": "mnist"}}
    assert policy == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }


def test_the_policy_lets_everybody_read_declared_metrics() -> None:
    rules = builders.network_policy(with_metrics())["spec"]["ingress"]
    assert rules[1:] == [{"ports": [{"port": 8000, "protocol": "TCP"}]}]


@pytest.mark.parametrize(
    ("spec", "modes"),
    [
        ({"replicas": 1}, ["ReadWriteOnce"]),
        ({"replicas": 2}, ["ReadWriteMany"]),
        ({"replicas": 1, "elastic": {"maxReplicas": 4}}, ["ReadWriteMany"]),
    ],
)
def test_the_claim_is_shared_where_there_may_be_several(spec: Obj, modes: list[str]) -> None:
    storage = {"pvc": {"size": "5Gi"}}
    claim = builders.claim(job(**spec, checkpoint={"storage": storage}))
    assert claim["spec"] == {
        "accessModes": modes,
        "resources": {"requests": {"storage": "5Gi"}},
    }


def test_the_claim_is_as_the_job_says() -> None:
    pvc = {"size": "5Gi", "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}
    spec = builders.claim(job(checkpoint={"storage": {"pvc": pvc}}))["spec"]
    assert (spec["storageClassName"], spec["accessModes"]) == ("fast", ["ReadWriteOncePod"])


def test_a_gang_is_the_whole_generation() -> None:
    owner = job(scheduling={"gang": True, "priorityClassName": "high"})
    ours = builders.pod_group(owner, FOUR, Gang(COSCHEDULING))
    assert ours["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert ours["spec"] == {"minMember": 4}
    volcano = builders.pod_group(owner, FOUR, Gang(VOLCANO))
    assert volcano["spec"] == {"minMember": 4, "priorityClassName": "high"}

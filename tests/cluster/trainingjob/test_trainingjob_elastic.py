"""Elastic jobs follow the room there is, and what they are told."""

from __future__ import annotations

from tests.backends import Backend, add_node
from tests.cluster.trainingjob.operating import API, PLURAL, Jobs, condition

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {
                    "matchExpressions": [{"key": "trainingjob", "operator": "Exists"}]
                },
            }
        ]
    }
}
"""No two replicas on the same node."""


def test_shrinks_to_what_fits_and_grows_again(jobs: Jobs, backend: Backend) -> None:
    template = {"spec": {"affinity": APART, "terminationGracePeriodSeconds": 1}}
    elastic = {"minReplicas": 1, "maxReplicas": 3}
    jobs.create("wide", "sleep 1000", replicas=3, elastic=elastic, template=template)
    status = jobs.running("wide", attempt=2)
    assert status["worldSize"] == 2
    assert status["replicas"]["desired"] == 3
    assert status["replicas"]["restarts"] == 0
    jobs.said("wide", "Shrunk")
    node = add_node(backend, "three")
    try:
        status = jobs.wait("wide", lambda s: s.get("worldSize") == 3, seconds=90)
        status = jobs.running("wide", attempt=3, seconds=90)
        assert status["replicas"]["active"] == 3
        jobs.said("wide", "Grown")
        names = [pod["metadata"]["name"] for pod in jobs.pods("wide")]
        assert names == ["wide-0", "wide-1", "wide-2"]
        jobs.patch("wide", {"runPolicy": {"suspend": True}})
        jobs.no_pods("wide")
    finally:
        node.stop()
        backend.request("DELETE", "/api/v1/nodes/three")


def test_waits_when_too_few_fit(jobs: Jobs) -> None:
    template = {"spec": {"affinity": APART}}
    elastic = {"minReplicas": 4, "maxReplicas": 5}
    jobs.create("much", "sleep 1000", replicas=5, elastic=elastic, template=template)
    status = jobs.wait("much", lambda s: condition(s, "Running").get("reason") == "Unschedulable")
    assert status["phase"] == "Pending"
    assert status["failure"]["reason"] == "Unschedulable"
    assert status["attempt"] == 1


def test_follows_the_scale_subresource(jobs: Jobs) -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 4}
    jobs.create("scaled", "sleep 1000", replicas=2, elastic=elastic)
    jobs.running("scaled", attempt=1)
    jobs.objects.patch(API, PLURAL, "scaled", {"spec": {"replicas": 3}}, subresource="scale")
    status = jobs.running("scaled", attempt=2)
    assert (status["worldSize"], status["replicas"]["active"]) == (3, 3)
    assert status["selector"] == "trainingjob=scaled"
    jobs.patch("scaled", {"replicas": 1})
    status = jobs.running("scaled", attempt=3)
    assert status["worldSize"] == 1
    assert status["replicas"]["restarts"] == 0
    assert [pod["metadata"]["name"] for pod in jobs.pods("scaled")] == ["scaled-0"]
    jobs.said("scaled", "Scaled")

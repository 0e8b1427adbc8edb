"""The table of kinds, and phases of all families."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs_fake_api import condition, mpijob, pod

from corral.api import all_kinds
from corral.api.mpi.kinds import MPIJob
from corral.client.errors import UnknownKind
from corral.client.explain.podstates import pod_summary
from corral.client.kinds import KINDS, Role, kind_of, kind_of_object
from corral.client.summary import summarize

Obj = dict[str, Any]


def test_every_kind_of_the_api_is_here_as_it_is_there() -> None:
    for kind in all_kinds():
        names = kind.names
        found = kind_of(names.plural)
        assert (found.group, found.version, found.kind) == (names.group, names.version, names.kind)
        assert found.resource == kind.resource()
        assert set(names.short) <= set(found.short_names)
        assert found.scalable or kind.scale is None
        assert (found.phases, found.suspend_path) == (names.phases, names.suspend)
        assert set(names.final) <= set(names.phases)


def test_phases_of_the_names_are_those_of_the_models() -> None:
    for kind in all_kinds():
        status = kind.schema()["properties"].get("status", {}).get("properties", {})
        assert set(status.get("phase", {}).get("enum", ())) <= set(kind.names.phases), kind
        spec = kind.schema()["properties"]["spec"]
        for path in filter(None, (kind.names.suspend, kind.names.replicas)):
            found = spec
            for name in path[1:]:
                found = found.get("properties", {}).get(name) or found["additionalProperties"]
            assert found["type"] in ("boolean", "integer"), path


def test_no_name_means_two_kinds() -> None:
    words = [word for kind in KINDS for word in (kind.plural, kind.singular, *kind.short_names)]
    assert len(words) == len(set(words))
    assert len({kind.plural for kind in KINDS}) == 16


@pytest.mark.parametrize(
    ("name", "plural"),
    [
        ("mpijobs", "mpijobs"),
        ("MPIJob", "mpijobs"),
        ("mpijob", "mpijobs"),
        ("MpiJobs.kubeflow.org", "mpijobs"),
        ("mpijobs.v2beta1.kubeflow.org", "mpijobs"),
        (" tj ", "trainingjobs"),
        ("ckpt", "checkpoints"),
        ("wasm", "wasmtasks"),
        ("spotinstancejobs.training.training.dcnlab.com", "spotinstancejobs"),
    ],
)
def test_kinds_are_found_by_any_name(name: str, plural: str) -> None:
    assert kind_of(name).plural == plural


def test_unknown_kinds_are_told_what_is_close() -> None:
    with pytest.raises(UnknownKind) as caught:
        kind_of("trainingjbos")
    assert caught.value.close == ("trainingjobs",)
    assert "trainingjobs" in caught.value.hint
    with pytest.raises(UnknownKind) as caught:
        kind_of("zzz")
    assert "known: trainingjobs" in caught.value.hint


def test_kinds_of_objects() -> None:
    found = kind_of_object({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob"})
    assert found is not None and found.plural == "mpijobs"
    assert kind_of_object({"apiVersion": "v1", "kind": "Pod"}) is None
    assert kind_of_object({}) is None


CONDITIONS = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")


def test_phases_of_mpijobs_are_those_of_the_model() -> None:
    kind = kind_of("mpijobs")
    template = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
    for states in product(("True", "False", None), repeat=len(CONDITIONS)):
        pairs = zip(CONDITIONS, states, strict=True)
        obj = mpijob("pi", "1", *(condition(type, state) for type, state in pairs if state))
        obj["spec"] = {"mpiReplicaSpecs": {"Launcher": {"template": template}}}
        model = MPIJob.read(obj)
        assert kind.phase(obj) == model.get_job_phase(), states
        assert kind.finished(obj) == model.is_job_finished(), states
        assert kind.phase(obj) in kind.phases


@pytest.mark.parametrize(
    ("plural", "status", "phase", "finished"),
    [
        ("trainingjobs", {}, "Pending", False),
        ("trainingjobs", {"phase": "Running"}, "Running", False),
        ("trainingjobs", {"phase": "Pending", "conditions": [condition("Suspended")]},
         "Suspended", False),
        ("trainingjobs", {"phase": "Running", "conditions": [condition("Restarting")]},
         "Restarting", False),
        ("trainingjobs", {"phase": "Failed", "conditions": [condition("Suspended")]},
         "Failed", True),
        ("checkpoints", {"phase": "Ready"}, "Ready", True),
        ("checkpoints", {}, "Pending", False),
        ("spotinstancejobs", {}, "Pending", False),
        ("spotinstancejobs", {"activeReplicas": 1}, "Running", False),
        ("spotinstancejobs", {"jobStatuses": [{"name": "a", "phase": "Succeeded"}]},
         "Succeeded", True),
        ("spotinstancejobs", {"jobStatuses": [{"phase": "Running"}, {"phase": "Succeeded"}]},
         "Running", False),
        ("spotinstancejobs", {"conditions": [condition("Failed")], "activeReplicas": 1},
         "Failed", True),
        ("spotinstancevms", {}, "Pending", False),
        ("spotinstancevms", {"provisionedInstances": [{"state": "PROVISIONING"}]},
         "Provisioning", False),
        ("spotinstancevms", {"provisionedInstances": [{"state": "RUNNING"}]}, "Running", False),
        ("spotinstancevms", {"provisionedInstances": [{"state": "TERMINATED"}]},
         "Terminated", True),
        ("spotinstancevms", {"conditions": [condition("Failed")]}, "Failed", True),
        ("checkpointbackups", {"phase": "ImagePushing"}, "ImagePushing", False),
        ("checkpointbackups", {"phase": "CompletedPodDeleted"}, "CompletedPodDeleted", True),
        ("federatedjobs", {"phase": "Completed"}, "Completed", True),
        ("trainingrounds", {"phase": "Aggregating"}, "Aggregating", False),
        ("wasmtasks", {"phase": "Failed", "error": "x"}, "Failed", True),
        ("propletgroups", {}, "Pending", False),
        ("propletgroups", {"totalProplets": 2, "availableProplets": 0}, "Empty", False),
        ("propletgroups", {"availableProplets": 1}, "Ready", False),
        ("modelcheckpoints", {"phase": "Ready"}, "Ready", True),
        ("mlmodels", {"conditions": [condition("Ready")]}, "Ready", False),
        ("datasources", {"conditions": [condition("Ready", "False")]}, "Failed", False),
        ("mlconfigurations", {}, "Pending", False),
        ("federateddeployments", {"phase": "Running"}, "Running", False),
        ("inferences", {"phase": "Stopped"}, "Stopped", True),
    ],
)  # fmt: skip
def test_phases(plural: str, status: Obj, phase: str, finished: bool) -> None:
    kind = kind_of(plural)
    obj = {"metadata": {"name": "x"}, "status": status}
    assert (kind.phase(obj), kind.finished(obj)) == (phase, finished)
    assert phase in kind.phases


@pytest.mark.parametrize(
    ("plural", "obj", "selector"),
    [
        ("trainingjobs", {"metadata": {"name": "t"}}, "trainingjob=t"),
        ("mpijobs", {"metadata": {"name": "m"}}, "training.kubeflow.org/job-name=m"),
        ("wasmtasks", {"metadata": {"name": "w"}}, "batch.kubernetes.io/job-name in (w-job)"),
        ("trainingrounds",
         {"metadata": {"name": "round-1-j"}, "spec": {"participants": ["a", "b"]}},
         "batch.kubernetes.io/job-name in (round-1-j-a-job, round-1-j-b-job)"),
        ("federatedjobs",
         {"metadata": {"name": "j"}, "spec": {"participants": [{"propletId": "a"}]},
          "status": {"currentRound": 3}},
         "batch.kubernetes.io/job-name in (round-3-j-a-job)"),
        ("federatedjobs", {"metadata": {"name": "j"}},
         "batch.kubernetes.io/job-name in (none.)"),
    ],
)  # fmt: skip
def test_pods_are_selected_as_the_controllers_name_them(
    plural: str, obj: Obj, selector: str
) -> None:
    select = kind_of(plural).pod_selector
    assert select is not None
    assert select(obj) == selector


def test_roles() -> None:
    mpi, training = kind_of("mpijobs"), kind_of("trainingjobs")
    assert mpi.role(pod("pi-worker-12")) == Role("worker", 12)
    assert mpi.role(pod("pi-launcher-x7f2p")) == Role("launcher")
    labels = {"metadata": {"labels": {"replica-id": "3"}}}
    assert training.role(labels) == Role("replica", 3)
    assert training.role({"metadata": {"labels": {"replica-id": "x"}}}) == Role("replica")
    kafka = kind_of("federateddeployments")
    named = {"kafkaml.corral.dev/role": "server"}
    assert kafka.role({"metadata": {"labels": named}}) == Role("server")
    assert str(Role("worker", 1)) == "worker 1"
    order = sorted([Role("worker", 10), Role("worker", 2), Role("launcher")], key=lambda r: r.order)
    assert [str(role) for role in order] == ["launcher", "worker 2", "worker 10"]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["conditions", "phase", "type", "status", "failure", "pod", "provisionedInstances",
             "jobStatuses", "state", "name", "metadata", "startTime", "checkpoint", "progress",
             "containerStatuses", "terminated", "waiting", "exitCode", "labels", "participants"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(status=ODD, spec=ODD, metadata=ODD)
def test_odd_objects_have_a_phase_all_the_same(status: Any, spec: Any, metadata: Any) -> None:
    obj = {"status": status, "spec": spec, "metadata": metadata}
    for kind in KINDS:
        assert isinstance(kind.phase(obj), str)
        assert isinstance(kind.message(obj), str)
        assert kind.finished(obj) in (True, False)
        if kind.pod_selector is not None:
            assert isinstance(kind.pod_selector(obj), str)
        assert isinstance(pod_summary(kind, obj).phase, str)
        summary = summarize(kind, obj, [obj], now=datetime(2026, 1, 1, tzinfo=UTC))
        assert summary.as_object()["kind"] == kind.kind

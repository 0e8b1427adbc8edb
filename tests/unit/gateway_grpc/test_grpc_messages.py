"""Objects become messages and objects again, and nothing is lost or changes its type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.client import kind_of
from corral.gateway.grpc.messages import read_message, write_message
from corral.gateway.grpc.objects import Face, read_object, write_object
from corral.gateway.grpc.server import faces
from corral.gateway.grpc.values import Unreadable, read_value, write_value
from corral.v1.mpi_job_pb2 import MPIJob, MPIJobSpec
from corral.v1.objects_pb2 import Object
from corral.v1.status_pb2 import JobStatus
from corral.v1.training_job_pb2 import TrainingJob
from corral.v1.value_pb2 import Value

BIG = 10**30
NAN = float("nan")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)
# Names that the messages have fields for, so that values of the wrong type hit them.
NAMES = st.sampled_from(
    "metadata spec status labels replicas mpiReplicaSpecs Worker template containers env resources "
    "limits ports hostIPC securityContext slotsPerWorker runPolicy conditions type name".split()
)
OBJECTS = st.recursive(
    JSON,
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, min_size=1, max_size=2)
    ),
    max_leaves=20,
)

POD_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {}, "creationTimestamp": None},
    "spec": {
        "hostIPC": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "python:3.12",
                "command": [],
                "args": ["-c", "print(1)"],
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "500m"}, "requests": {}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
                "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
                "fieldOfTomorrow": {"deep": [1, 2.0, None, {}, [], BIG, "x"]},
            }
        ],
        "volumes": [
            {"name": "e", "emptyDir": {}},
            {"name": "p", "projected": {"sources": [{"configMap": {"name": "c"}}]}},
            {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"k": "v"}}},
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "labelSelector": {
                            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]
                        },
                    }
                ]
            }
        },
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
    },
}
MPI_JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {
        "name": "pi",
        "generation": 3,
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:a": {}, ".": {}}}}],
        "ownerReferences": [{"kind": "X", "name": "y", "controller": True}],
    },
    "spec": {
        "slotsPerWorker": 2**40,
        "runLauncherAsWorker": None,
        "mpiImplementation": 7,
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": POD_TEMPLATE},
            "Worker": {"replicas": 0, "template": POD_TEMPLATE},
        },
    },
    "status": {"conditions": [], "replicaStatuses": {"Worker": {"active": 1, "later": BIG}}},
}


def exactly(value: Any) -> str:
    """Tells 1 from 1.0 and True, and null from absent; the order of members does not matter."""
    return json.dumps(value, sort_keys=True)


def there_and_back(message: Message, obj: dict[str, Any]) -> dict[str, Any]:
    write_message(message, obj)
    return read_message(type(message).FromString(message.SerializeToString()))


@given(JSON)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_json_value_survives_exactly(value: Any) -> None:
    message = Value()
    write_value(message, value)
    again = read_value(Value.FromString(message.SerializeToString()), "x")
    assert exactly(again) == exactly(value)


@given(st.dictionaries(NAMES, OBJECTS, max_size=5))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_object_survives_as_a_typed_message(obj: dict[str, Any]) -> None:
    assert there_and_back(MPIJob(), obj) == obj
    assert there_and_back(TrainingJob(), obj) == obj
    assert there_and_back(JobStatus(), obj) == obj


def test_an_mpijob_with_everything_odd_in_it() -> None:
    message = MPIJob()
    assert exactly(there_and_back(message, MPI_JOB)) == exactly(MPI_JOB)
    worker = message.spec.mpi_replica_specs["Worker"]
    assert worker.HasField("replicas") and worker.replicas == 0
    container = worker.template.spec.containers[0]
    assert container.readiness_probe.http_get.port.int_value == 8080
    assert container.resources.limits["nvidia.com/gpu"].int_value == 1
    assert container.security_context.run_as_user == 1000
    assert set(container.other_fields) == {"command", "fieldOfTomorrow"}
    assert worker.template.spec.HasField("host_ipc")
    assert set(message.spec.other_fields) == {
        "slotsPerWorker",
        "runLauncherAsWorker",
        "mpiImplementation",
    }


def test_objects_deeper_than_messages_may_be() -> None:
    deep: Any = BIG
    for level in range(200):
        deep = {"a": deep} if level % 2 else [deep]
    obj = {"spec": {"unknown": deep}}
    assert exactly(there_and_back(MPIJob(), obj)) == exactly(obj)


def test_whole_numbers_of_double_fields_have_no_point() -> None:
    obj = {"progress": {"metrics": {"loss": 0.25, "epoch": 3, "huge": 1e300}}}
    assert exactly(there_and_back(JobStatus(), obj)) == exactly(obj)
    obj["progress"]["metrics"]["epoch"] = 2**60  # has no floating point number of its own
    message = JobStatus()
    assert exactly(there_and_back(message, obj)) == exactly(obj)
    assert set(message.progress.other_fields) == {"metrics"}


def test_the_generic_object_keeps_its_json_and_shows_what_most_look_for() -> None:
    message = Object()
    obj = {**MPI_JOB, "spec": {"big": 2**63 - 1, "none": None, "one": 1.0}, "status": {}}
    obj["metadata"] = {"name": "pi", "namespace": "n", "labels": {"a": "b"}, "uid": "u"}
    write_object(message, obj, kind_of("mpijobs"))
    again = Object.FromString(message.SerializeToString())
    assert exactly(read_object(again)) == exactly(obj)
    assert (again.kind, again.name, again.namespace, again.uid) == ("MPIJob", "pi", "n", "u")
    assert dict(again.labels) == {"a": "b"}
    assert again.phase == kind_of("mpijobs").phase(obj)


UNREADABLE = {
    "nan": (
        MPIJob(spec=MPIJobSpec(other_fields={"x": Value(double_value=float("nan"))})),
        "spec.x",
    ),
    "digits": (MPIJob(other_fields={"x": Value(big_int_value="12a")}), "x"),
    "long digits": (MPIJob(other_fields={"x": Value(big_int_value="9" * 4001)}), "x"),
    "json": (MPIJob(other_fields={"x": Value(json_value=b"{")}), "x"),
    "json nan": (MPIJob(other_fields={"x": Value(json_value=b"[NaN]")}), "x"),
    "twice": (MPIJob(kind="MPIJob", other_fields={"kind": Value(string_value="X")}), "kind"),
    "too large": (MPIJob(other_fields={"x": Value(big_int_value=str(BIG))}), "x"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_messages_that_are_no_object_are_refused_with_the_field(case: str) -> None:
    message, field = UNREADABLE[case]
    with pytest.raises(Unreadable) as caught:
        _face("MPIJobService").read(message)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"nul", b'{"a": NaN}', b'{"a": 1e', b"\xff", b"[" * 100_000]
)
def test_generic_objects_that_are_no_json_object_are_refused(content: bytes) -> None:
    with pytest.raises(Unreadable, match=r"JSON"):
        _face("JobService").read(Object(json=content))


def test_integers_that_kubernetes_cannot_keep_are_refused() -> None:
    with pytest.raises(Unreadable) as caught:
        _face("JobService").read(Object(json=b'{"spec": {"a": [1, 9223372036854775808]}}'))
    assert caught.value.field == "spec.a[1]"
    assert _face("JobService").read(Object(json=b'{"a": 9223372036854775807}')) == {"a": 2**63 - 1}


def test_fields_of_a_newer_client_are_refused_and_not_dropped() -> None:
    newer = MPIJobSpec().SerializeToString() + b"\xc2\x3e\x01x"  # field 1000 is known, 1000+ not
    message = MPIJob(spec=MPIJobSpec.FromString(newer.replace(b"\xc2\x3e", b"\xd2\x3e")))
    with pytest.raises(Unreadable, match=r"has no field 1002.*other_fields") as caught:
        _face("MPIJobService").read(message)
    assert caught.value.field == "spec"


def _face(name: str) -> Face:
    return next(face for face in faces() if face.service.name == name)

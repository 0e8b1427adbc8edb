"""Every question over REST, the service for all kinds and the one of the kind: the same answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from corral.gateway.grpc.messages import read_message, write_message
from corral.v1 import jobs_pb2 as pb
from corral.v1 import mpi_job_pb2 as mpi
from corral.v1.objects_pb2 import Object
from tests.backends import Backend
from tests.cluster.gateway_grpc.both_views import GatewayThread, Obj, Views, as_rest, views, without
from tests.cluster.objects import Objects, eventually
from tests.unit.gateway_grpc.reflecting import Reflecting

VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def job(name: str, **spec: Any) -> Obj:
    """An MPIJob with much in it, and things that no message has a field for."""
    container = {
        "name": "main",
        "image": "mpi:1",
        "env": [{"name": "A", "value": ""}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "500m"}},
        "fieldOfTomorrow": {"int": 3, "float": 2.5, "big": 2**62, "none": [], "map": {}},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "labels": {"case": name}},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"suspend": False, "backoffLimit": 0},
            "mpiReplicaSpecs": {
                "Launcher": {"template": template},
                "Worker": {"replicas": 2, "template": template},
            },
            **spec,
        },
    }


def generic(obj: Obj) -> Object:
    return Object(json=json.dumps(obj).encode())


def typed(obj: Obj) -> mpi.MPIJob:
    out = mpi.MPIJob()
    write_message(out, obj)
    return out


def plain(answer: Any) -> Obj:
    """The object of an answer, whichever way it is shown."""
    if isinstance(answer, Object):
        return dict(json.loads(answer.json))
    return read_message(answer)


def lasting(obj: Obj) -> Obj:
    return {**obj, "metadata": without(obj["metadata"], *VOLATILE)}


class Place:
    """MPIJobs of a namespace, asked for three ways."""

    def __init__(self, caller: Views, namespace: str) -> None:
        self.caller, self.namespace = caller, namespace
        self.path = f"/namespaces/{namespace}/mpijobs"

    def made(self, name: str, **spec: Any) -> Obj:
        reply = self.caller.rest("POST", self.path, job(name, **spec))
        assert reply.status == 201, reply.body
        return dict(reply.body)

    def both(self, method: str, **fields: Any) -> list[Any]:
        """The answers of the generic method and of that of the kind."""
        calls = self._calls(method, fields)
        return [self.caller.ask(call, request) for call, request in calls]

    def both_refused(self, method: str, **fields: Any) -> list[grpc.RpcError]:
        calls = self._calls(method, fields)
        return [self.caller.refused(call, request) for call, request in calls]

    def _calls(self, method: str, fields: Obj) -> list[tuple[Any, Message]]:
        verb, rest = next((v, method[len(v) :]) for v in VERBS if method.startswith(v))
        name = f"{verb}MPIJob{'s' if method == 'List' else rest}"
        fields = {"namespace": self.namespace, **fields}
        obj = fields.pop("object", None)
        both = [{}, {}] if obj is None else [{"object": generic(obj)}, {"object": typed(obj)}]
        ours = getattr(pb, f"{method}Request")(kind="mpijobs", **fields, **both[0])
        theirs = getattr(mpi, f"{name}Request")(**fields, **both[1])
        return [
            (getattr(self.caller.any, method), ours),
            (getattr(self.caller.mpi, name), theirs),
        ]


VERBS = ("Create", "Get", "List", "Replace", "Delete", "Restart", "Suspend", "Resume", "Scale",
         "Explain", "Watch")  # fmt: skip


@pytest.fixture
def place(admin: Views, namespace: str) -> Place:
    return Place(admin, namespace)


# --- objects -------------------------------------------------------------------------------------


def test_creates_make_the_same_object(place: Place, admin: Views) -> None:
    rest = admin.rest("POST", f"{place.path}?dryRun=true", job("pi"))
    assert rest.status == 200
    for answer in place.both("Create", object=job("pi"), dry_run=True):
        assert lasting(plain(answer.object)) == lasting(rest.body)


def test_an_object_made_by_messages_is_kept_whole(place: Place, objects: Objects) -> None:
    place.caller.ask(
        place.caller.mpi.CreateMPIJob,
        mpi.CreateMPIJobRequest(namespace=place.namespace, object=typed(job("whole"))),
    )
    kept = objects.get("kubeflow.org/v2beta1", "mpijobs", "whole")
    wanted = job("whole")["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    assert kept["spec"]["mpiReplicaSpecs"]["Worker"]["template"] == wanted
    found = json.dumps(kept["spec"]["mpiReplicaSpecs"], sort_keys=True)
    assert '"int": 3,' in found and f'"big": {2**62}' in found


def test_reads_give_the_same_object_and_etag(place: Place, admin: Views) -> None:
    place.made("pi")
    rest = admin.rest("GET", f"{place.path}/pi")
    for answer in place.both("Get", name="pi"):
        assert plain(answer.object) == rest.body
        assert answer.etag == rest.headers["etag"]


def test_status_explanation_and_events_are_the_same(place: Place, admin: Views) -> None:
    place.made("pi")
    rest = admin.rest("GET", f"{place.path}/pi/status")
    for answer in place.both("GetStatus", name="pi"):
        assert without(read_message(answer.status), "durationSeconds") == without(
            rest.body, "durationSeconds"
        )
    rest = admin.rest("GET", f"{place.path}/pi/explain")
    for answer in place.both("Explain", name="pi"):
        assert read_message(answer.explanation) == rest.body
    rest = admin.rest("GET", f"{place.path}/pi/events")
    for answer in place.both("ListEvents", name="pi"):
        assert [plain(event) for event in answer.events] == rest.body["items"]


def test_lists_and_their_pages_are_the_same(place: Place, admin: Views) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        place.made(name)
    query = "labelSelector=case!%3Da3&name=a*&sort=-name&limit=1"
    rest = admin.rest("GET", f"{place.path}?{query}")
    asked: Obj = {"label_selector": "case!=a3", "name": "a*", "sort": "-name", "limit": 1}
    for answer in place.both("List", **asked):
        assert [plain(obj) for obj in answer.objects] == rest.body["items"]
        assert answer.total == rest.body["metadata"]["total"] == 2
        assert answer.next_page_token == rest.body["metadata"]["continue"]
    # A page of one is gone on with in the other.
    second = place.both("List", **asked, page_token=rest.body["metadata"]["continue"])
    for answer in second:
        assert [plain(obj)["metadata"]["name"] for obj in answer.objects] == ["a1"]
        assert answer.next_page_token == ""
    everywhere = admin.ask(admin.any.List, pb.ListRequest(kind="mpijobs", name="b1"))
    assert place.namespace in {obj.namespace for obj in everywhere.objects}


def test_a_create_repeated_over_the_other_way_is_known(place: Place, admin: Views) -> None:
    first = place.both("Create", object=job("once"), idempotency_key="k1")
    assert [answer.already_created for answer in first] == [False, True]
    again = admin.rest("POST", place.path, job("once"), Idempotency_Key="k1")
    assert again.status == 200 and again.headers["idempotency-replayed"] == "true"
    assert plain(first[0].object)["metadata"]["uid"] == again.body["metadata"]["uid"]


def test_changes_over_one_way_are_seen_over_the_other(place: Place, admin: Views) -> None:
    place.made("pi")
    for answer in place.both("Suspend", name="pi"):
        assert plain(answer.object)["spec"]["runPolicy"]["suspend"] is True
    assert admin.rest("GET", f"{place.path}/pi").body["spec"]["runPolicy"]["suspend"] is True
    admin.rest("POST", f"{place.path}/pi/resume")
    for answer in place.both("Get", name="pi"):
        assert plain(answer.object)["spec"]["runPolicy"]["suspend"] is False
    for answer in place.both("Scale", name="pi", replicas=5):
        assert plain(answer.object)["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 5
    seen = admin.rest("GET", f"{place.path}/pi")
    changed = {**seen.body, "metadata": {**seen.body["metadata"], "labels": {"new": "label"}}}
    changed["metadata"].pop("managedFields", None)
    (first, refused) = place._calls(
        "Replace", {"name": "pi", "object": changed, "if_match": seen.headers["etag"]}
    )
    assert plain(admin.ask(*first).object)["metadata"]["labels"] == {"new": "label"}
    assert admin.refused(*refused).code() is grpc.StatusCode.ABORTED  # it has changed since


def test_deleting(place: Place, admin: Views) -> None:
    place.made("one"), place.made("two")
    etag = admin.rest("GET", f"{place.path}/two").headers["etag"]
    rest = admin.rest("DELETE", f"{place.path}/one", If_Match=etag)
    for error in place.both_refused("Delete", name="one", if_match=etag):
        assert error.code() is grpc.StatusCode.ABORTED
        assert as_rest(error) == (412, without(rest.body, "requestId", "instance"))
    place.caller.ask(place.caller.mpi.DeleteMPIJob, mpi.DeleteMPIJobRequest(
        namespace=place.namespace, name="one"))  # fmt: skip
    eventually(lambda: admin.rest("GET", f"{place.path}/one").status == 404)
    assert admin.rest("GET", f"{place.path}/two").status == 200


# --- refusals ------------------------------------------------------------------------------------


def test_refusals_say_the_same(place: Place, admin: Views) -> None:
    place.made("pi")
    wrong = job("bad")
    wrong["spec"]["slotsPerWorker"] = "many"
    wrong["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = -1
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    cases: list[tuple[grpc.StatusCode, tuple[str, str, Any], str, Obj]] = [
        (grpc.StatusCode.NOT_FOUND, ("GET", "/none", None), "Get", {"name": "none"}),
        (grpc.StatusCode.ALREADY_EXISTS, ("POST", "", job("pi")), "Create", {"object": job("pi")}),
        (invalid, ("POST", "", wrong), "Create", {"object": wrong}),
        (invalid, ("GET", "?sort=colour", None), "List", {"sort": "colour"}),
        (invalid, ("GET", "?phase=x", None), "List", {"phases": ["x"]}),
        (invalid, ("GET", "?limit=2000", None), "List", {"limit": 2000}),
        (invalid, ("GET", "?token=x", None), "List", {"page_token": "x"}),
        (
            invalid,
            ("PUT", "/pi/scale", {"replicas": -1}),
            "Scale",
            {"name": "pi", "replicas": -1},
        ),
    ]  # fmt: skip
    for code, (method, path, body), rpc, fields in cases:
        rest = admin.rest(method, place.path + path, body)
        for error in place.both_refused(rpc, **fields):
            assert error.code() is code, (rpc, fields, error)
            status, problem = as_rest(error)
            assert status == rest.status, (rpc, problem, rest.body)
            expected = without(rest.body, "requestId", "instance")
            assert {**problem, "errors": _fields(problem)} == {
                **expected,
                "errors": _fields(expected),
            }


def _fields(problem: Obj) -> list[tuple[str, str]]:
    """Fields of requests have the names of their protocol."""
    renamed = {"page_token": "token"}
    return sorted(
        (renamed.get(wrong["field"], wrong["field"]), wrong["detail"])
        for wrong in problem.get("errors", ())
    )


def test_kinds_that_are_unknown_or_not_installed(admin: Views, namespace: str) -> None:
    request = pb.GetRequest(kind="wasmtasks", namespace=namespace, name="x")
    rest = admin.rest("GET", f"/namespaces/{namespace}/wasmtasks/x")
    error = admin.refused(admin.any.Get, request)
    assert as_rest(error) == (404, without(rest.body, "requestId", "instance"))
    request = pb.GetRequest(kind="nothings", namespace=namespace, name="x")
    assert admin.refused(admin.any.Get, request).code() is grpc.StatusCode.NOT_FOUND


def test_restarts_are_done_and_refused_alike(place: Place, admin: Views) -> None:
    place.made("runs"), place.made("again")
    rest = admin.rest("POST", f"{place.path}/runs/restart")
    assert rest.status == 409, rest.body
    for error in place.both_refused("Restart", name="runs"):
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert as_rest(error) == (409, without(rest.body, "requestId", "instance"))
    old = admin.rest("GET", f"{place.path}/runs").body
    rest = admin.rest("POST", f"{place.path}/again/restart?force=true")
    answer = admin.ask(
        admin.mpi.RestartMPIJob,
        mpi.RestartMPIJobRequest(namespace=place.namespace, name="runs", force=True),
    )
    new = plain(answer.object)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["spec"] == rest.body["spec"] == old["spec"]


def test_what_a_kind_cannot_do_is_refused(admin: Views, namespace: str) -> None:
    where: Obj = {"kind": "checkpoints", "namespace": namespace, "name": "c"}
    for call, request in (
        (admin.any.Suspend, pb.SuspendRequest(**where)),
        (admin.any.Scale, pb.ScaleRequest(**where)),
        (admin.any.Restart, pb.RestartRequest(**where)),
        (admin.any.GetLogs, pb.GetLogsRequest(**where)),
    ):
        error = admin.refused(call, request)
        assert error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND)


# --- rights --------------------------------------------------------------------------------------


@pytest.fixture
def reader(
    gateway: GatewayThread, backend: Backend, cluster: Objects, objects: Objects, namespace: str
) -> Iterator[Views]:
    """Somebody who may read MPIJobs of one namespace and nothing else."""
    role = {"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["get", "list"]}
    access = "rbac.authorization.k8s.io"
    objects.create("serviceaccounts", {"apiVersion": "v1", "metadata": {"name": "reader"}})
    objects.create(
        "roles",
        {"apiVersion": f"{access}/v1", "metadata": {"name": "reader"}, "rules": [role]},
    )
    objects.create(
        "rolebindings",
        {
            "apiVersion": f"{access}/v1",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": access, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        },
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = backend.request("POST", path, body).json()["status"]["token"]
    with views(gateway, token) as caller:
        eventually(lambda: caller.rest("GET", f"/namespaces/{namespace}/mpijobs").status == 200)
        yield caller


def test_a_token_sees_what_it_may_and_nothing_else(
    place: Place, reader: Views, gateway: GatewayThread
) -> None:
    place.made("pi")
    mine = Place(reader, place.namespace)
    for answer in mine.both("Get", name="pi"):
        assert plain(answer.object)["metadata"]["name"] == "pi"
    rest = reader.rest("DELETE", f"{mine.path}/pi")
    for error in mine.both_refused("Delete", name="pi"):
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert as_rest(error) == (403, without(rest.body, "requestId", "instance"))
        assert "reader" in error.details()
    other = Place(reader, "default")
    for method, fields in (("List", {}), ("Get", {"name": "pi"})):
        for error in other.both_refused(method, **fields):
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    everywhere = reader.refused(reader.any.List, pb.ListRequest(kind="mpijobs"))
    assert everywhere.code() is grpc.StatusCode.PERMISSION_DENIED
    with views(gateway, "not-a-token") as stranger:
        for error in Place(stranger, place.namespace).both_refused("Get", name="pi"):
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    user = f"system:serviceaccount:{place.namespace}:reader"
    eventually(lambda: user in gateway.audit.read_text())
    assert reader.token not in gateway.audit.read_text()


# --- watches, and a client that knows nothing ----------------------------------------------------


def test_watches_tell_the_same_changes(place: Place, admin: Views) -> None:
    first = place.made("pi")
    ours, theirs = place._calls("WatchStatus", {"name": "pi"})
    streams = [admin.ask(*ours), admin.ask(*theirs)]
    told = [[next(stream)] for stream in streams]
    place.both("Suspend", name="pi")
    place.both("Resume", name="pi")
    admin.rest("DELETE", f"{place.path}/pi")
    for seen, stream in zip(told, streams, strict=True):
        seen.extend(stream)  # it ends with the object
    assert [c.type for c in told[0]] == [c.type for c in told[1]]
    assert [plain(c.object) for c in told[0]] == [plain(c.object) for c in told[1]]
    assert told[0][0].type == pb.CHANGE_TYPE_ADDED
    assert told[0][-1].type == pb.CHANGE_TYPE_DELETED
    assert plain(told[0][0].object)["metadata"]["uid"] == first["metadata"]["uid"]
    assert len({plain(c.object)["metadata"]["resourceVersion"] for c in told[0]}) == len(told[0])


def test_rest_tells_the_same_changes(place: Place, admin: Views) -> None:
    place.made("pi")
    call, request = place._calls("WatchStatus", {"name": "pi"})[0]
    stream = admin.ask(call, request)
    with closing(admin.events(f"{place.path}/pi/watch")) as events:
        told, heard = [next(stream)], [next(events)]
        place.both("Suspend", name="pi")
        told.append(next(stream))
        heard.append(next(events))
    stream.cancel()
    assert [plain(change.object) for change in told] == [event["object"] for event in heard]
    assert [change.phase for change in told] == [event["phase"] for event in heard]


def test_a_watch_goes_on_where_another_ended(place: Place, admin: Views) -> None:
    version = place.made("pi")["metadata"]["resourceVersion"]
    place.both("Suspend", name="pi")
    call, request = place._calls("WatchStatus", {"name": "pi", "since": version})[0]
    stream = admin.ask(call, request)
    change = next(stream)
    stream.cancel()
    assert change.type == pb.CHANGE_TYPE_MODIFIED
    assert plain(change.object)["spec"]["runPolicy"]["suspend"] is True


def test_a_client_by_reflection_alone(place: Place, admin: Views) -> None:
    client = Reflecting(admin.channel)
    content = base64.b64encode(json.dumps(job("seen")).encode()).decode()
    request = {"kind": "mpi", "namespace": place.namespace, "object": {"json": content}}
    made = client.call("corral.v1.JobService/Create", request, token=admin.token)
    where = {"namespace": place.namespace, "name": made["object"]["name"]}
    status = client.call("corral.v1.MPIJobService/GetMPIJobStatus", where, token=admin.token)
    assert status["status"]["name"] == "seen"
    assert status["status"]["phase"] == made["object"]["phase"]

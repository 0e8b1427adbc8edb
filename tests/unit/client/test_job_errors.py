"""What the API server refuses, in words that help."""

from __future__ import annotations

from typing import Any

import pytest

from corral.client import Jobs, errors
from corral.client.kinds import kind_of
from corral.client.translate import ApiRequest, translated, translating
from corral.kube import errors as kube
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig, ConfigError
from corral.kube.connection.transport import KubeConnectionError

ASKED = ApiRequest.of("get", kind_of("mpijobs"), "team-a", name="pi")
DENIED = (
    'mpijobs.kubeflow.org "pi" is forbidden: User "ann" cannot get resource "mpijobs" in API group '
    '"kubeflow.org" in the namespace "team-a"'
)


@pytest.mark.parametrize(
    ("error", "expected", "message", "hint"),
    [
        (kube.Forbidden(DENIED), errors.Forbidden,
         "ann may not get mpijobs.kubeflow.org in namespace 'team-a'",
         "kubectl auth can-i get mpijobs.kubeflow.org -n team-a --as USER"),
        (kube.Forbidden('pods is forbidden: User "ann" cannot list resource "pods" in API group "" '
                        "at the cluster scope"), errors.Forbidden,
         "ann may not list pods in the whole cluster", "kubectl get clusterrolebindings"),
        (kube.Forbidden('pods "x" is forbidden: User "ann" cannot get resource "pods/log" in API '
                        'group "" in the namespace "b"'), errors.Forbidden,
         "ann may not get pods/log in namespace 'b'", "who has which role"),
        (kube.Forbidden('pods "x" is forbidden: exceeded quota: small, requested: pods=1'),
         errors.QuotaExceeded, "exceeded quota: small", "kubectl describe quota -n team-a"),
        (kube.Forbidden('mpijobs "x" is forbidden: unable to create new content in namespace a '
                        "because it is being terminated"), errors.Forbidden,
         "was refused: unable to create new content", ""),
        (kube.NotFound('mpijobs "pi" not found', details={"name": "pi", "kind": "mpijobs"}),
         errors.NotFound, "there is no MPIJob 'pi' in namespace 'team-a'", "corral get mpijobs"),
        (kube.NotFound("the server could not find the requested resource"), errors.NotInstalled,
         "does not know MPIJobs", "corral install"),
        (kube.NotFound("404 page not found"), errors.NotInstalled, "does not know", "install"),
        (kube.NotFound('namespaces "x" not found', details={"name": "x", "kind": "namespaces"}),
         errors.NotFound, "no namespace 'x'", "kubectl create namespace x"),
        (kube.AlreadyExists("exists", details={"name": "pi"}), errors.AlreadyExists,
         "MPIJob 'pi' in namespace 'team-a' exists already", "another name"),
        (kube.Conflict("the object has been modified"), errors.Changed, "changed by somebody else",
         "read it again"),
        (kube.Unauthorized("Unauthorized"), errors.Unauthorized, "does not accept", "expired"),
        (kube.Gone("too old"), errors.Expired, "too old", ""),
        (kube.BadRequest("bad selector"), errors.BadRequest, "bad selector", ""),
        (kube.BadRequest('strict decoding error: unknown field "spec.wrkers"'), errors.Invalid,
         "unknown field spec.wrkers", "kubectl explain mpijobs"),
        (kube.RequestEntityTooLarge("too large"), errors.TooLarge, "too large", ""),
        (kube.TooManyRequests("slow", details={"retryAfterSeconds": 3}), errors.TooManyRequests,
         "slow", ""),
        (kube.ServiceUnavailable("starting"), errors.Unavailable, "cannot answer now", ""),
        (kube.ServerTimeout("slow"), errors.Unavailable, "cannot answer now", ""),
        (kube.Timeout("slow"), errors.Unavailable, "cannot answer now", ""),
        (kube.Timeout("Too large resource version: 9, current: 5"), errors.Expired, "9", ""),
        (kube.InternalError("oops"), errors.ServerError, "failed: oops", ""),
        (kube.ApiError("teapot", code=418), errors.BadRequest, "teapot", ""),
        (kube.ApiError("no", code=404), errors.NotInstalled, "does not know", ""),
        (KubeConnectionError("refused"), errors.Unavailable, "no answer: refused", "corral up"),
        (ConfigError("no file"), errors.Unauthorized, "no file", ""),
    ],
)  # fmt: skip
def test_translations(
    error: Exception, expected: type[errors.JobError], message: str, hint: str
) -> None:
    found = translated(error, ASKED)
    assert type(found) is expected
    assert message in found.message
    assert hint in found.hint
    assert "\n" not in found.message


def test_forbidden_has_its_parts() -> None:
    found = translated(kube.Forbidden(DENIED), ASKED)
    assert isinstance(found, errors.Forbidden)
    assert (found.user, found.verb, found.resource, found.namespace) == (
        "ann", "get", "mpijobs.kubeflow.org", "team-a",
    )  # fmt: skip


def test_every_wrong_field_is_kept() -> None:
    causes = [
        {"field": "spec.a", "message": "Required value", "reason": "FieldValueRequired"},
        {"field": "spec.b", "message": "too long"},
    ]
    found = translated(kube.Invalid("wrong", details={"causes": causes}), ASKED)
    assert [(problem.field, problem.message) for problem in found.fields] == [
        ("spec.a", "Required value"),
        ("spec.b", "too long"),
    ]
    retried = kube.TooManyRequests("slow", details={"retryAfterSeconds": 3})
    assert translated(retried, ASKED).retry_after == 3


def test_the_cause_is_chained_and_ours_pass_through() -> None:
    with pytest.raises(errors.NotInstalled) as caught, translating(ASKED):
        raise kube.NotFound("nothing")
    assert isinstance(caught.value.__cause__, kube.NotFound)
    ours = errors.Conflict("no")
    assert translated(ours, ASKED) is ours
    with pytest.raises(ValueError, match="other"), translating(ASKED):
        raise ValueError("other")


def test_codes_are_those_of_http() -> None:
    def all_of(cls: type[Any]) -> list[type[Any]]:
        return [cls, *(sub for below in cls.__subclasses__() for sub in all_of(below))]

    for cls in all_of(errors.JobError):
        assert 400 <= cls.code < 600 and cls.reason


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a b", "-a", "a-", "a" * 254, "ä", "a..b"])
async def test_what_is_no_name_is_never_sent(name: str) -> None:
    async with KubeClient(ClusterConfig("http://127.0.0.1:1")) as client:
        jobs = Jobs(client)
        asked = (
            jobs.get("mpijobs", "ns", name),
            jobs.get("mpijobs", name, "pi"),
            jobs.delete("mpijobs", "ns", name),
            jobs.restart("mpijobs", "ns", name),
            jobs.scale("mpijobs", "ns", name, replicas=1),
            jobs.list("mpijobs", name),
            jobs.create("mpijobs", name, {}),
            jobs.wait("mpijobs", "ns", name, "Running", timeout=1),
        )
        for work in asked:
            with pytest.raises(errors.BadRequest, match="is no name"):
                await work
        with pytest.raises(errors.BadRequest):
            jobs.watch("mpijobs", "ns", name)

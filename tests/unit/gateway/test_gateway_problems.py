from __future__ import annotations

from typing import Any

import pytest

from corral.client import errors as jobs
from corral.gateway.auth import Unauthenticated
from corral.gateway.limits import Busy, RateLimited
from corral.gateway.problems import TITLES, Refused, problem_of
from corral.kube import errors as kube
from corral.kube.connection.config import ConfigError
from corral.kube.connection.transport import KubeConnectionError

CASES: list[tuple[Exception, int, str]] = [
    (Refused("not-acceptable", "no"), 406, "not-acceptable"),
    (Unauthenticated("who?"), 401, "unauthenticated"),
    (RateLimited(3), 429, "too-many-requests"),
    (Busy("full"), 503, "unavailable"),
    (jobs.BadRequest("b"), 400, "bad-request"),
    (jobs.Unauthorized("u"), 401, "unauthenticated"),
    (jobs.Forbidden("f"), 403, "forbidden"),
    (jobs.QuotaExceeded("q"), 403, "quota-exceeded"),
    (jobs.NotFound("n"), 404, "not-found"),
    (jobs.NotInstalled("n"), 404, "not-installed"),
    (jobs.UnknownKind("x", known=("a",)), 404, "unknown-kind"),
    (jobs.NotSupported("n"), 405, "not-supported"),
    (jobs.Conflict("c"), 409, "conflict"),
    (jobs.AlreadyExists("a"), 409, "already-exists"),
    (jobs.RestartIncomplete("r", manifest={"a": 1}), 409, "restart-incomplete"),
    (jobs.Expired("e"), 410, "gone"),
    (jobs.PreconditionFailed("p"), 412, "precondition-failed"),
    (jobs.TooLarge("t"), 413, "too-large"),
    (jobs.Invalid("i"), 422, "invalid"),
    (jobs.TooManyRequests("t"), 429, "too-many-requests"),
    (jobs.ServerError("s"), 502, "bad-upstream"),
    (jobs.Unavailable("u"), 503, "unavailable"),
    (jobs.WaitTimeout("w"), 504, "timeout"),
    (kube.InternalError("boom"), 502, "bad-upstream"),
    (kube.ServerTimeout("slow"), 504, "timeout"),
    (kube.ApiError("teapot", code=418), 400, "bad-request"),
    (KubeConnectionError("gone"), 503, "unavailable"),
    (ConfigError("none"), 503, "unavailable"),
    (TimeoutError(), 504, "timeout"),
    (RuntimeError("a secret of the inside"), 500, "internal"),
]


@pytest.mark.parametrize(("error", "status", "kind"), CASES, ids=lambda value: repr(value)[:40])
def test_every_error_is_a_problem(error: Exception, status: int, kind: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.kind) == (status, kind)
    said = problem.as_object(instance="/x", request_id="r1")
    assert said["type"] == f"urn:corral:problem:{kind}"
    assert said["title"] == TITLES[kind][1]
    assert said["detail"]
    assert (said["instance"], said["requestId"]) == ("/x", "r1")


def test_a_mistake_of_ours_says_nothing_of_the_inside() -> None:
    assert "secret" not in str(problem_of(RuntimeError("a secret")).as_object())


def test_fields_are_named_once_each() -> None:
    fields = (jobs.FieldProblem("spec.replicas", "must be positive"),) * 2
    problem = problem_of(jobs.Invalid("wrong", fields=fields, hint="look at it"))
    said = problem.as_object()
    assert said["errors"] == [{"field": "spec.replicas", "detail": "must be positive"}]
    assert said["hint"] == "look at it"


def test_causes_of_a_status_are_fields_too() -> None:
    causes: list[Any] = [{"field": "spec.a", "message": "m"}, {"message": "no field"}, "odd"]
    problem = problem_of(kube.Invalid("wrong", details={"causes": causes, "retryAfterSeconds": 2}))
    assert problem.errors == (("spec.a", "m"),)
    assert problem.retry_after == 2


def test_what_was_lost_in_a_restart_is_given_back() -> None:
    problem = problem_of(jobs.RestartIncomplete("r", manifest={"kind": "MPIJob"}))
    assert problem.as_object()["manifest"] == {"kind": "MPIJob"}


def test_no_token_gets_into_a_detail() -> None:
    problem = problem_of(KubeConnectionError("sent Bearer abc.def"))
    assert "abc.def" not in problem.detail

from __future__ import annotations

import pytest

from corral.client.errors import UnknownKind
from corral.client.kinds import KINDS
from corral.gateway.problems import Refused
from corral.gateway.rest.paths import MethodNotAllowed, locate

NS = "/api/v1/namespaces/a"


@pytest.mark.parametrize(
    ("method", "path", "verb", "where"),
    [
        ("GET", "/api/v1/mpijobs", "list", (None, "", None)),
        ("GET", f"{NS}/mpijobs", "list", ("a", "", None)),
        ("POST", f"{NS}/mpijobs", "create", ("a", "", None)),
        ("GET", f"{NS}/mpijobs/pi", "get", ("a", "pi", None)),
        ("PUT", f"{NS}/mpijobs/pi", "replace", ("a", "pi", None)),
        ("DELETE", f"{NS}/mpijobs/pi", "delete", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/watch", "get", ("a", "watch", None)),
        ("GET", f"{NS}/mpijobs/logs", "get", ("a", "logs", None)),
        ("GET", f"{NS}/mpijobs/pi/status", "status", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/logs", "logs", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/logs/launcher", "logs", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/logs/worker/12", "logs", ("a", "pi", 12)),
        ("POST", f"{NS}/mpijobs/pi/restart", "restart", ("a", "pi", None)),
        ("POST", f"{NS}/mpijobs/pi/suspend", "suspend", ("a", "pi", None)),
        ("POST", f"{NS}/mpijobs/pi/resume", "resume", ("a", "pi", None)),
        ("PUT", f"{NS}/mpijobs/pi/scale", "scale", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/events", "events", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/explain", "explain", ("a", "pi", None)),
        ("GET", f"{NS}/mpijobs/pi/watch", "watch", ("a", "pi", None)),
        ("GET", "/api/v1/watch/namespaces/a/mpijobs", "watch", ("a", "", None)),
        ("GET", "/api/v1/watch/mpijobs", "watch", (None, "", None)),
        ("GET", f"{NS}/mpijobs.kubeflow.org/pi", "get", ("a", "pi", None)),
    ],
)
def test_where_paths_lead(
    method: str, path: str, verb: str, where: tuple[str | None, str, int | None]
) -> None:
    operation, found = locate(method, path.encode())
    assert operation.verb == verb
    assert found.kind.plural == "mpijobs"
    assert (found.namespace, found.name, found.index) == where


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_has_the_same_paths(kind: object) -> None:
    plural = getattr(kind, "plural")  # noqa: B009  # parametrized as an object for its id
    assert locate("GET", f"{NS}/{plural}/x/status".encode())[1].kind is kind


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1", 404),
        ("GET", "/api/v2/mpijobs", 404),
        ("GET", f"{NS}/mpijobs/pi/nothing", 404),
        ("GET", f"{NS}/mpijobs/pi/logs/worker", 404),
        ("GET", f"{NS}/mpijobs/pi/logs/worker/1/2", 404),
        ("GET", f"{NS}/mpijobs/", 400),
        ("GET", f"{NS}/mpijob", 404),
        ("GET", f"{NS}/mpijobs/Pi", 400),
        ("GET", f"{NS}/mpijobs/..", 400),
        ("GET", f"{NS}/mpijobs/a%2Fb", 400),
        ("GET", f"{NS}/mpijobs/a%00", 400),
        ("GET", f"{NS}/mpijobs/%ff", 400),
        ("GET", "/api/v1/namespaces/A/mpijobs", 400),
        ("GET", "/api/v1/namespaces/../mpijobs", 400),
        ("GET", f"{NS}/mpijobs/pi/logs/worker/x", 400),
        ("GET", f"{NS}/datasources/x/logs", 405),
        ("POST", f"{NS}/datasources/x/suspend", 405),
        ("PATCH", f"{NS}/mpijobs/pi", 405),
        ("POST", "/api/v1/mpijobs", 405),
    ],
)
def test_paths_that_lead_nowhere(method: str, path: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        locate(method, path.encode())
    assert refused.value.problem.status == status


def test_the_methods_that_can_be_used_are_named() -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        locate("PATCH", f"{NS}/mpijobs/pi".encode())
    assert refused.value.allowed == ["DELETE", "GET", "PUT"]


def test_kinds_that_look_alike_are_named() -> None:
    with pytest.raises(UnknownKind) as refused:
        locate("GET", f"{NS}/mpijbos".encode())
    assert "mpijobs" in refused.value.hint

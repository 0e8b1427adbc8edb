"""Errors of the layers below as one line, a hint and an exit code."""

from __future__ import annotations

import pytest

from corral.cli.arguments import parse_time, span
from corral.cli.errors import Trouble, trouble_of
from corral.client import errors as jobs
from corral.kube import ConfigError, KubeConnectionError
from corral.kube import errors as kube
from corral.sdk.errors import CannotShip

CASES: list[tuple[Exception, int, str]] = [
    (Trouble("x", code=6), 6, ""),
    (ConfigError("no cluster configured: set KUBECONFIG"), 8, "corral up --detach"),
    (ConfigError("context 'x' is not in f; known contexts: y"), 8, ""),
    (KubeConnectionError("Connect call failed ('127.0.0.1', 1)"), 8, "is it running?"),
    (KubeConnectionError("certificate has expired"), 8, "renew"),
    (KubeConnectionError("certificate verify failed"), 8, "another cluster"),
    (TimeoutError(), 5, "--timeout"),
    (FileNotFoundError(2, "No such file", "x.yaml"), 3, "check the path"),
    (PermissionError(13, "Permission denied", "x.yaml"), 1, "permissions"),
    (jobs.UnknownKind("x", close=("mpijobs",), known=()), 2, "did you mean mpijobs"),
    (jobs.NotFound("gone"), 3, "corral get"),
    (jobs.NotInstalled("not known", hint="run `corral install`"), 3, "corral install"),
    (jobs.Forbidden("no", hint="ask"), 4, "ask"),
    (jobs.Unauthorized("who?"), 4, "role"),
    (jobs.Conflict("changed"), 6, "describe"),
    (jobs.Invalid("spec.x: wrong"), 7, "correct the fields"),
    (jobs.ServerError(".spec.x: field not declared in schema"), 7, "correct the fields"),
    (jobs.NotSupported("no"), 2, ""),
    (jobs.WaitTimeout("late"), 5, "--timeout"),
    (jobs.NeverHappens("over", obj={}), 1, ""),
    (jobs.Unavailable("away"), 8, "is it running?"),
    (CannotShip("too large"), 2, ""),
    (kube.NotFound('namespaces "x" not found'), 3, "kubectl create namespace x"),
    (kube.Forbidden("no"), 4, "role"),
    (kube.AlreadyExists("there"), 6, "--name"),
    (kube.InternalError("oh"), 1, ""),
]


@pytest.mark.parametrize(("error", "code", "hint"), CASES, ids=lambda value: repr(value)[:40])
def test_troubles(error: Exception, code: int, hint: str) -> None:
    found = trouble_of(error)
    assert found is not None
    assert found.code == code
    assert hint in str(found)
    assert "\n" not in str(found)


def test_a_mistake_of_our_own_is_not_hidden() -> None:
    assert trouble_of(KeyError("x")) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("0.5s", 0.5), ("1h30m", 5400), ("2d", 172800)]
)
def test_spans(text: str, seconds: float) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-3s", "3x"])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(Trouble):
        span(text)


def test_moments() -> None:
    assert parse_time("2026-01-31T12:00:00Z") == parse_time("2026-01-31T12:00:00")
    with pytest.raises(Trouble):
        parse_time("noon")

"""Waiting and watching: `wait` for everything, `get --watch` in each form."""

from __future__ import annotations

import json

import pytest

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects


@pytest.fixture
def one(objects: Objects) -> None:
    objects.create("pods", manifests.pod("one", app="x"))


def mark(objects: Objects, **status: object) -> None:
    objects.patch("v1", "pods", "one", {"status": status}, subresource="status")


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.usefixtures("one")
def test_condition_that_is_there(kubectl: Kubectl, objects: Objects) -> None:
    mark(objects, conditions=READY)
    said = kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=5s")
    assert said.out == "pod/one condition met\n"
    said = kubectl("wait", "pods", "-l", "app=x", "--for=condition=ready=True", "--timeout=5s")
    assert said.out == "pod/one condition met\n"
    refused = kubectl("wait", "pod/one", "--for=condition=Ready=False", "--timeout=100ms", code=1)
    assert "timed out waiting for the condition on pods/one" in refused.err


@pytest.mark.usefixtures("one")
def test_condition_that_comes(kubectl: Kubectl, objects: Objects) -> None:
    with kubectl.running("wait", "pod/one", "--for=condition=Ready", "--timeout=30s") as output:
        mark(objects, conditions=READY)
        output.until("pod/one condition met")


@pytest.mark.usefixtures("one")
def test_jsonpath(kubectl: Kubectl, objects: Objects) -> None:
    path = "--for=jsonpath={.status.phase}=Running"
    with kubectl.running("wait", "pod/one", path, "--timeout=30s") as output:
        mark(objects, phase="Running")
        output.until("pod/one condition met")
    assert kubectl("wait", "pod/one", "--for=jsonpath={.status.phase}").out == (
        "pod/one condition met\n"
    )


@pytest.mark.usefixtures("one")
def test_delete(kubectl: Kubectl, objects: Objects) -> None:
    with kubectl.running("wait", "pod/one", "--for=delete", "--timeout=30s") as output:
        objects.delete("v1", "pods", "one")
        assert output.exit_code() == 0
    assert kubectl("wait", "pod/one", "--for=delete").code == 0


def test_create(kubectl: Kubectl, objects: Objects) -> None:
    with kubectl.running("wait", "cm/late", "--for=create", "--timeout=30s") as output:
        objects.create("configmaps", manifests.configmap("late"))
        output.until("configmap/late condition met")
    assert '(NotFound): configmaps "never" not found' in kubectl.fails(
        "wait", "cm/never", "--for=condition=Ready", "--timeout=100ms"
    )


def test_watch_prints_rows_as_they_come(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("first", {"w": "1"}, x="1"))
    with kubectl.running("get", "cm", "-w", "-l", "w=1", "--output-watch-events") as output:
        assert output.until("NAME").split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert output.until("first").split()[:3] == ["ADDED", "first", "1"]
        objects.create("configmaps", manifests.configmap("second", {"w": "1"}))
        assert output.until("second").split()[:3] == ["ADDED", "second", "0"]
        objects.patch("v1", "configmaps", "first", {"data": {"y": "2"}})
        assert output.until("first").split()[:3] == ["MODIFIED", "first", "2"]
        # An object that the selector loses is deleted for whoever watches with it.
        objects.patch("v1", "configmaps", "first", {"metadata": {"labels": {"w": "2"}}})
        assert output.until("first").split()[:2] == ["DELETED", "first"]
        objects.delete("v1", "configmaps", "second")
        assert output.until("second").split()[:2] == ["DELETED", "second"]


def test_watch_one_object_as_names_and_json(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("a", x="1"))
    with kubectl.running("get", "cm", "a", "-w", "-o", "jsonpath={.data.x}{'\\n'}") as output:
        output.until("1")
        objects.patch("v1", "configmaps", "a", {"data": {"x": "changed"}})
        assert output.until("changed") == "changed"
    with kubectl.running("get", "cm", "a", "-w", "-o", "name") as output:
        assert output.until("configmap") == "configmap/a"


def test_watch_only(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("old", {"w": "1"}))
    argv = ["get", "cm", "--watch-only", "-l", "w=1", "-o", "json", "--output-watch-events"]
    with kubectl.running(*argv) as output:
        # Whether the watch has begun cannot be seen from outside: change until it says so.
        for number in range(200):
            objects.patch("v1", "configmaps", "old", {"data": {"n": str(number)}})
            try:
                line = output.until('"type"', seconds=0.1)
            except AssertionError:
                continue
            assert "MODIFIED" in line
            return
    pytest.fail("no event came")


def test_watch_of_raw_events(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("a", {"w": "1"}))
    query = "?watch=1&labelSelector=w%3D1&timeoutSeconds=1"
    said = kubectl("get", "--raw", objects.path("v1", "configmaps") + query)
    event = json.loads(said.lines[0])
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")

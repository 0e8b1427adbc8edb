"""PodGroups of MPIJobs, for both schedulers."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.mpijob.objects.builders import children
from corral.families.mpijob.objects.podgroup import pod_groups
from corral.families.mpijob.objects.ssh import KeyPair
from corral.families.mpijob.settings import ObjectSettings
from tests.unit.families.mpijob.mpijob_cases import edited, job

Obj = dict[str, Any]
VOLCANO = ObjectSettings(gang_scheduler="volcano")
PLUGINS = ObjectSettings(gang_scheduler="coscheduler")
KEYS = KeyPair(b"", b"")


def sized(**edits: Any) -> Obj:
    """A launcher of 1 CPU and 2Gi, two workers of 10 CPUs and 20Gi each."""
    resources = {
        "LC|resources": {"requests": {"cpu": 1, "memory": "2Gi"}},
        "WC|resources": {"limits": {"cpu": 10, "memory": "20Gi"}},
    }
    return edited(job(), {**resources, **edits})


def group(obj: Obj, settings: ObjectSettings, priorities: dict[str, int] | None = None) -> Obj:
    found = children(obj, settings, KEYS, priorities=priorities).pod_group
    assert found is not None
    return found


def test_for_volcano() -> None:
    found = group(sized(), VOLCANO)
    assert (found["apiVersion"], found["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert found["metadata"]["name"] == "foo" and "labels" not in found["metadata"]
    assert found["metadata"]["ownerReferences"][0]["controller"] is True
    assert found["spec"] == {"minMember": 3, "minResources": {"cpu": "21", "memory": "42Gi"}}


def test_for_scheduler_plugins() -> None:
    found = group(sized(), PLUGINS)
    assert found["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert found["spec"] == {
        "minMember": 3,
        "scheduleTimeoutSeconds": 0,
        "minResources": {"cpu": "21", "memory": "42Gi"},
    }


def test_a_policy_for_volcano() -> None:
    policy = {
        "minAvailable": 2,
        "queue": "q",
        "priorityClass": "high",
        "minResources": {"cpu": 7},
        "scheduleTimeoutSeconds": 60,
    }
    assert group(sized(**{"run|schedulingPolicy": policy}), VOLCANO)["spec"] == {
        "minMember": 2,
        "queue": "q",
        "priorityClassName": "high",
        "minResources": {"cpu": 7},
    }
    assert group(sized(**{"run|schedulingPolicy": policy}), PLUGINS)["spec"] == {
        "minMember": 2,
        "scheduleTimeoutSeconds": 60,
        "minResources": {"cpu": 7},
    }


@pytest.mark.parametrize(
    "edits,name",
    [
        ({"LP|priorityClassName": "l", "WP|priorityClassName": "w"}, "l"),
        ({"WP|priorityClassName": "w"}, "w"),
        ({"WP|priorityClassName": "w", "sched|priorityClass": "p"}, "p"),
    ],
)
def test_whose_priority_counts(edits: Obj, name: str) -> None:
    assert group(sized(**edits), VOLCANO)["spec"]["priorityClassName"] == name


def test_the_queue_of_an_annotation() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "a"}
    obj = sized(**{"metadata|annotations": annotations})
    assert group(obj, VOLCANO)["spec"]["queue"] == "a"
    both = edited(obj, {"sched|queue": "b"})
    assert group(both, VOLCANO)["spec"]["queue"] == "b"


@pytest.mark.parametrize(
    "edits,priorities,cpu",
    [
        # The launcher and one worker, which is what is left of them at a tie.
        ({"sched|minAvailable": 2}, {}, "11"),
        # Workers are cut where the launcher is above them, and where classes are unknown.
        ({"sched|minAvailable": 2, "LP|priorityClassName": "h"}, {"h": 9}, "11"),
        ({"sched|minAvailable": 2, "WP|priorityClassName": "h"}, {}, "11"),
        # All workers, and the launcher as far as it is within the group.
        ({"sched|minAvailable": 2, "WP|priorityClassName": "h"}, {"h": 9}, "21"),
        ({"sched|minAvailable": 1, "WP|priorityClassName": "h"}, {"h": 9}, "20"),
        ({"sched|minAvailable": 1}, {}, "1"),
    ],
)
def test_what_must_be_free_for_fewer_members(
    edits: Obj, priorities: dict[str, int], cpu: str
) -> None:
    assert group(sized(**edits), VOLCANO, priorities)["spec"]["minResources"]["cpu"] == cpu


def test_no_members_need_nothing() -> None:
    spec = group(sized(**{"sched|minAvailable": 0}), VOLCANO)["spec"]
    assert spec == {}


def test_pods_that_ask_for_nothing() -> None:
    obj = sized(**{"LC|resources": {}, "WC|resources": {}})
    assert group(obj, VOLCANO)["spec"]["minResources"] == {}
    assert "minResources" not in group(obj, PLUGINS)["spec"]


def test_init_containers_do_not_count_and_requests_come_before_limits() -> None:
    first = {"name": "a", "image": "i", "resources": {"requests": {"cpu": 99}}}
    obj = sized(
        **{
            "WP|initContainers": [first],
            "WC|resources": {"limits": {"cpu": 10}, "requests": {"cpu": "1500m"}},
        }
    )
    assert group(obj, VOLCANO)["spec"]["minResources"] == {"cpu": "4", "memory": "2Gi"}


def test_a_launcher_alone() -> None:
    spec = group(sized(W=None), VOLCANO)["spec"]
    assert spec == {"minMember": 1, "minResources": {"cpu": "1", "memory": "2Gi"}}


@pytest.mark.parametrize("available,member", [(None, 2), (3, 2), (1, 1)])
def test_a_launcher_that_waits_is_not_waited_for(available: int | None, member: int) -> None:
    edits: Obj = {"spec|launcherCreationPolicy": "WaitForWorkersReady"}
    if available is not None:
        edits["sched|minAvailable"] = available
    spec = group(sized(**edits), VOLCANO)["spec"]
    resources = {"cpu": str(10 * member), "memory": f"{20 * member}Gi"}
    assert spec == {"minMember": member, "minResources": resources}


def test_pods_join_volcanos_group() -> None:
    found = children(sized(**{"WP|schedulerName": "mine"}), VOLCANO, KEYS)
    for pod in (found.workers[0], found.launcher["spec"]["template"]):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": "foo"}


def test_pods_join_the_group_of_scheduler_plugins() -> None:
    found = children(sized(), PLUGINS, KEYS)
    for pod in (found.workers[0], found.launcher["spec"]["template"]):
        assert pod["spec"]["schedulerName"] == "coscheduler"
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "foo"
        assert "annotations" not in pod["metadata"]


def test_no_gangs() -> None:
    assert pod_groups(ObjectSettings()) is None
    assert "schedulerName" not in children(sized(), ObjectSettings(), KEYS).workers[0]["spec"]

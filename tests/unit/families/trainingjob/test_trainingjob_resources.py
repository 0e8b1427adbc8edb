"""What ResourceController asks of the API server, and what it refuses to do."""

from __future__ import annotations

import asyncio

import pytest
from trainingjob_fakes import Rig, make_job

from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.names import APPLIED_ANNOTATION
from corral.families.trainingjob.objects.resources import (
    NameTaken,
    NoGangScheduling,
    StillThere,
    namespace_is_going,
)
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import errors
from corral.kube.discovery import ApiResource
from corral.kube.resources import (
    NETWORKPOLICIES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
    resource,
)
from corral.kube.types import Obj
from corral.runtime import NotYetConsistent, is_controlled_by
from corral.runtime.family.batches import batch_sizes
from corral.runtime.family.comparison import contains

FIRST = Generation(attempt=1, world=4)
PODGROUPS = resource("scheduling.x-k8s.io/v1alpha1", "podgroups", kind="PodGroup")


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.sync()
    return made


def of_other(name: str, /, **owner: str) -> Obj:
    """An object of this name that the job did not make."""
    reference = {"apiVersion": "v1", "kind": "Pod", "uid": "x", "controller": True, **owner}
    owners = [{"name": "other", **reference}] if owner else []
    metadata = {"name": name, "namespace": "team-a", "ownerReferences": owners}
    return {"metadata": {**metadata, "labels": {"trainingjob": "mnist"}}}


EARLIER = {"apiVersion": "training.corral.dev/v1alpha1", "kind": "TrainingJob", "name": "mnist"}


# --- everything but pods --------------------------------------------------------------------------


async def test_what_is_missing_is_created_once(rig: Rig) -> None:
    job = make_job(checkpoint={"storage": {"pvc": {"size": "1Gi"}}})
    await rig.controller.ensure(job, FIRST)
    assert sorted(rig.api.requests) == [
        ("create", "NetworkPolicy", "mnist"),
        ("create", "PersistentVolumeClaim", "mnist-checkpoints"),
        ("create", "Service", "mnist"),
        ("create", "Service", "mnist-master"),
        ("create", "ServiceAccount", "mnist"),
    ]
    for kind in (SERVICES, SERVICEACCOUNTS, NETWORKPOLICIES, PERSISTENTVOLUMECLAIMS):
        for made in rig.api.objects[kind].values():
            assert is_controlled_by(made, job)
            assert made["metadata"]["annotations"][APPLIED_ANNOTATION]
    rig.sync()
    await rig.controller.ensure(job, FIRST)
    await rig.controller.ensure(job, Generation(attempt=2, world=3))
    assert rig.api.requests == []


async def test_writes_are_known_to_the_next_reconcile(rig: Rig) -> None:
    rig.caches.pods.replaced([], "1")
    await rig.controller.ensure(make_job(), FIRST)
    informer = rig.caches.children[SERVICES]
    informer._reflector.version = "1"
    with pytest.raises(NotYetConsistent):
        rig.caches.consistency.ensure_ready("team-a/mnist")
    informer._reflector.version = "99"
    rig.caches.consistency.ensure_ready("team-a/mnist")


async def test_what_differs_is_applied_and_owned_from_then_on(rig: Rig) -> None:
    job = make_job(serviceAccount={"annotations": {"role": "a"}})
    await rig.controller.ensure(job, FIRST)
    rig.sync()
    job["spec"]["serviceAccount"]["annotations"] = {}
    await rig.controller.ensure(job, FIRST)
    assert rig.api.requests == [
        ("get", "ServiceAccount", "mnist"),
        ("patch", "ServiceAccount", "mnist"),
        ("apply", "ServiceAccount", "mnist"),
    ]
    account = rig.api.objects[SERVICEACCOUNTS]["team-a", "mnist"]
    assert "role" not in account["metadata"]["annotations"]
    assert account["metadata"]["managedFields"][0]["operation"] == "Apply"


async def test_what_others_changed_is_put_right(rig: Rig) -> None:
    job = make_job()
    await rig.controller.ensure(job, FIRST)
    policy = rig.api.objects[NETWORKPOLICIES]["team-a", "mnist"]
    policy["spec"]["ingress"] = [{}]
    rig.sync()
    await rig.controller.ensure(job, FIRST)
    assert rig.api.verbs() == ["get", "patch", "apply"]
    found = rig.api.objects[NETWORKPOLICIES]["team-a", "mnist"]
    assert found["spec"]["ingress"][0]["from"]


async def test_a_claim_is_never_changed(rig: Rig) -> None:
    job = make_job(replicas=1, checkpoint={"storage": {"pvc": {"size": "1Gi"}}})
    await rig.controller.ensure(job, Generation(1, 1))
    rig.sync()
    job["spec"]["replicas"] = 4
    await rig.controller.ensure(job, FIRST)
    assert rig.api.requests == []


async def test_what_is_not_wanted_any_more_is_deleted(rig: Rig) -> None:
    job = make_job()
    await rig.controller.ensure(job, FIRST)
    rig.sync()
    job["spec"]["network"] = {"policy": "None"}
    await rig.controller.ensure(job, FIRST)
    assert rig.api.requests == [("delete", "NetworkPolicy", "mnist")]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("owner", [{}, {"kind": "Widget"}])
async def test_nothing_of_others_is_taken_over(owner: dict[str, str], *, cached: bool) -> None:
    rig = Rig()
    rig.api.put(SERVICEACCOUNTS, of_other("mnist", **owner))
    before = dict(rig.api.objects[SERVICEACCOUNTS])
    if cached:
        rig.sync()
    with pytest.raises(NameTaken, match="ServiceAccount mnist exists already") as caught:
        await rig.controller.ensure(make_job(), FIRST)
    assert caught.value.reason == "NameTaken"
    assert rig.api.objects[SERVICEACCOUNTS] == before


@pytest.mark.parametrize("cached", [True, False])
async def test_what_an_earlier_job_of_the_name_had_is_waited_for(*, cached: bool) -> None:
    rig = Rig()
    rig.api.put(SERVICES, of_other("mnist", **EARLIER))
    if cached:
        rig.sync()
    with pytest.raises(StillThere):
        await rig.controller.ensure(make_job(), FIRST)


async def test_what_the_cache_has_not_seen_is_no_problem(rig: Rig) -> None:
    job = make_job()
    await rig.controller.ensure(job, FIRST)
    rig.api.requests.clear()
    await rig.controller.ensure(job, FIRST)
    assert set(rig.api.verbs()) == {"create", "get"}


async def test_a_gang_has_a_group_of_its_size(rig: Rig) -> None:
    rig.api.served = [ApiResource(PODGROUPS)]
    job = make_job(scheduling={"gang": True})

    rig.manager.informer(PODGROUPS, label_selector="trainingjob").replaced([], "1")
    await rig.controller.ensure(job, FIRST)
    found = rig.api.objects[PODGROUPS]["team-a", "mnist"]
    assert found["spec"]["minMember"] == 4
    rig.sync()
    await rig.controller.ensure(job, FIRST)
    assert rig.api.requests == []
    await rig.controller.ensure(job, Generation(2, 3))
    assert rig.api.objects[PODGROUPS]["team-a", "mnist"]["spec"]["minMember"] == 3


async def test_a_gang_needs_groups(rig: Rig) -> None:
    job = make_job(scheduling={"gang": True})
    with pytest.raises(NoGangScheduling):
        await rig.controller.ensure(job, FIRST)
    with pytest.raises(NoGangScheduling):
        await rig.controller.ensure(job, FIRST)
    assert rig.api.verbs() == ["discover"], "it is not asked every time"


# --- pods -----------------------------------------------------------------------------------------


async def test_pods_are_created(rig: Rig) -> None:
    job = make_job()
    made = await rig.controller.create_pods(job, FIRST, range(4))
    assert {pod["metadata"]["name"] for pod in made} == {f"mnist-{i}" for i in range(4)}
    assert all(is_controlled_by(pod, job) for pod in made)
    assert rig.recorder.events == [
        ("SuccessfulCreate", "Created 4 pods: mnist-0, mnist-1, mnist-2, mnist-3")
    ]


async def test_a_pod_that_is_there_already_is_not_made_twice(rig: Rig) -> None:
    job = make_job()
    first = await rig.controller.create_pods(job, FIRST, [0])
    again = await rig.controller.create_pods(job, FIRST, [0])
    assert again == first
    assert len(rig.recorder.events) == 1
    assert len(rig.api.objects[PODS]) == 1


async def test_a_pod_of_an_earlier_attempt_is_waited_for(rig: Rig) -> None:
    job = make_job()
    await rig.controller.create_pods(job, FIRST, [0])
    with pytest.raises(StillThere):
        await rig.controller.create_pods(job, Generation(2, 4), [0])
    with pytest.raises(StillThere):
        await rig.controller.create_pods(make_job(uid="u-2"), FIRST, [0])


async def test_a_pod_of_somebody_else_is_not_ours(rig: Rig) -> None:
    rig.api.put(PODS, of_other("mnist-0"))
    with pytest.raises(NameTaken, match="Pod mnist-0"):
        await rig.controller.create_pods(make_job(), FIRST, [0])


async def test_a_refusal_is_met_by_a_few(rig: Rig) -> None:
    def quota(verb: str, kind: Resource, body: Obj) -> errors.ApiError | None:
        return errors.Forbidden("exceeded quota") if verb == "create" else None

    rig.api.refuse = quota
    with pytest.raises(errors.Forbidden, match="exceeded quota"):
        await rig.controller.create_pods(make_job(replicas=100), Generation(1, 100), range(100))
    assert len(rig.api.requests) == 4
    assert rig.recorder.events == [("FailedCreate", "Error creating: exceeded quota")]


async def test_a_namespace_that_is_going_is_no_news(rig: Rig) -> None:
    causes = [{"reason": "NamespaceTerminating"}]
    going = errors.Forbidden("going", details={"causes": causes})
    rig.api.refuse = lambda verb, *_: going if verb == "create" else None
    with pytest.raises(errors.Forbidden) as caught:
        await rig.controller.create_pods(make_job(), FIRST, [0])
    assert namespace_is_going(caught.value)
    assert rig.recorder.events == []


def test_batches_grow_to_their_limit() -> None:
    assert list(batch_sizes(3, limit=32)) == [3]
    assert list(batch_sizes(100, limit=32)) == [4, 8, 16, 32, 32, 8]
    assert list(batch_sizes(5, limit=2)) == [2, 2, 1]
    assert list(batch_sizes(0, limit=2)) == []


async def test_never_more_at_once_than_allowed() -> None:
    rig = Rig(TrainingSettings(pod_concurrency=2))
    at_once = most = 0
    create = rig.api.create

    async def counted(kind: Resource, obj: Obj, *, field_manager: str) -> Obj:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return await create(kind, obj, field_manager=field_manager)

    rig.api.create = counted  # type: ignore[method-assign]
    made = await rig.controller.create_pods(make_job(replicas=9), Generation(1, 9), range(9))
    assert (len(made), most) == (9, 2)


# --- and go ---------------------------------------------------------------------------------------


async def test_pods_are_deleted_once(rig: Rig) -> None:
    job = make_job()
    made = await rig.controller.create_pods(job, FIRST, range(2))
    rig.api.requests.clear()
    await rig.controller.delete_pods(job, made)
    assert rig.api.verbs() == ["delete", "delete"]
    rig.sync()
    going = rig.caches.pods_of(job)
    await rig.controller.delete_pods(job, going)
    await rig.controller.delete_pods(job, going, grace_seconds=30)
    assert rig.api.requests == []
    await rig.controller.delete_pods(job, going, grace_seconds=0)
    assert rig.api.objects[PODS] == {}


async def test_another_pod_of_the_name_is_left_alone(rig: Rig) -> None:
    job = make_job()
    [old] = await rig.controller.create_pods(job, FIRST, [0])
    rig.api.put(PODS, {**old, "metadata": {**old["metadata"], "uid": "another"}})
    rig.recorder.events.clear()
    await rig.controller.delete_pods(job, [old])
    assert "deletionTimestamp" not in rig.api.objects[PODS]["team-a", "mnist-0"]["metadata"]
    assert rig.recorder.events == []


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [("Running", {"mnist-0"}), ("All", {"mnist-0", "mnist-1"}), ("None", set())],
)
async def test_cleaning_up(rig: Rig, policy: str, deleted: set[str]) -> None:
    job = make_job()
    running, done = await rig.controller.create_pods(job, FIRST, range(2))
    running["status"], done["status"] = {"phase": "Running"}, {"phase": "Succeeded"}
    rig.api.requests.clear()
    await rig.controller.clean_up(job, policy, [running, done])
    assert {name for _, _, name in rig.api.requests} == deleted


async def test_pods_of_a_job_are_its_own_in_order(rig: Rig) -> None:
    job = make_job(replicas=11)
    await rig.controller.create_pods(job, Generation(1, 11), range(11))
    await rig.controller.create_pods(make_job("other", uid="u-2"), FIRST, [0])
    rig.sync()
    found = [pod["metadata"]["name"] for pod in rig.caches.pods_of(job)]
    assert found == [f"mnist-{i}" for i in range(11)]


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({}, {"a": {}}, True),
        (None, {"a": 1}, False),
    ],
)
def test_more_than_wanted_is_fine(found: Obj, wanted: Obj, *, expected: bool) -> None:
    assert contains(found, wanted) is expected

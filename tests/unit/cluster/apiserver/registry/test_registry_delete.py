"""Deleting: finalizers, propagation, grace, preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from corral.kube import errors
from corral.kube.types import Obj

POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}  # fmt: skip


async def test_plain_object_goes_at_once(world: Any) -> None:
    made = await world.config_map("a")
    last, gone = await world.delete("configmaps", "a")
    assert gone and last["metadata"]["uid"] == made["metadata"]["uid"]
    assert world.stored("configmaps", "a") is None
    with pytest.raises(errors.NotFound):
        await world.delete("configmaps", "a")


@pytest.mark.parametrize(
    ("finalizers", "options", "wanted"),
    [
        ([], {"propagationPolicy": "Background"}, None),
        ([], {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ([], {"propagationPolicy": "Orphan"}, ["orphan"]),
        ([], {"orphanDependents": True}, ["orphan"]),
        ([], {"orphanDependents": False}, None),
        (["orphan"], {}, ["orphan"]),
        (["foregroundDeletion"], {}, ["foregroundDeletion"]),
        (["orphan"], {"propagationPolicy": "Background"}, None),
        (["orphan"], {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        (["a.test/x", "foregroundDeletion"], {"propagationPolicy": "Orphan"}, ["a.test/x", "orphan"]),  # noqa: E501
        (["a.test/x"], {"propagationPolicy": "Background"}, ["a.test/x"]),
    ],
)  # fmt: skip
async def test_propagation(
    world: Any, finalizers: list[str], options: Obj, wanted: list[str] | None
) -> None:
    await world.config_map("a", finalizers=finalizers)
    _, gone = await world.delete("configmaps", "a", **options)
    stored = world.stored("configmaps", "a")
    if wanted is None:
        assert gone and stored is None
        return
    assert not gone and stored is not None
    assert stored["metadata"]["finalizers"] == wanted
    assert stored["metadata"]["deletionTimestamp"] == "2030-01-02T03:04:05Z"
    assert stored["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_second_delete_changes_the_policy_not_the_time(world: Any) -> None:
    await world.config_map("a", finalizers=["a.test/x"])
    await world.delete("configmaps", "a", propagationPolicy="Foreground")
    world.pass_time(60)
    await world.delete("configmaps", "a", propagationPolicy="Orphan")
    stored = world.stored("configmaps", "a")
    assert stored["metadata"]["finalizers"] == ["a.test/x", "orphan"]
    assert stored["metadata"]["deletionTimestamp"] == "2030-01-02T03:04:05Z"
    revision = world.store.revision
    await world.delete("configmaps", "a")
    assert world.store.revision == revision


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"propagationPolicy": "Sideways"}, 'propagationPolicy: Unsupported value: "Sideways"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "orphanDependents and deletionPropagation cannot be both set"),  # noqa: E501
        ({"dryRun": ["Some"]}, "dryRun: Unsupported value"),
    ],
)  # fmt: skip
async def test_options_that_make_no_sense(world: Any, options: Obj, complaint: str) -> None:
    await world.config_map("a")
    with pytest.raises(errors.Invalid) as caught:
        await world.delete("configmaps", "a", **options)
    assert complaint in caught.value.message
    assert world.stored("configmaps", "a") is not None


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dry_run(world: Any, policy: str) -> None:
    made = await world.config_map("a")
    last, gone = await world.delete("configmaps", "a", dry_run=True, propagationPolicy=policy)
    assert gone == (policy == "Background")
    assert ("deletionTimestamp" in last["metadata"]) == (policy == "Foreground")
    assert world.stored("configmaps", "a") == made


@pytest.mark.parametrize(
    ("precondition", "passes"),
    [("uid", True), ("resourceVersion", True), ("uid", False), ("resourceVersion", False)],
)
async def test_preconditions(world: Any, precondition: str, passes: bool) -> None:
    made = await world.config_map("a")
    value = made["metadata"][precondition] if passes else "other"
    if passes:
        _, gone = await world.delete("configmaps", "a", preconditions={precondition: value})
        assert gone
        return
    with pytest.raises(errors.Conflict) as caught:
        await world.delete("configmaps", "a", preconditions={precondition: value})
    assert f"in the precondition ({value}) does not match" in caught.value.message


async def test_grace_of_a_pod_only_shrinks(world: Any) -> None:
    await world.create("pods", POD)

    def stored() -> Obj:
        meta: Obj = world.stored("pods", "p")["metadata"]
        return {k: meta[k] for k in ("deletionTimestamp", "deletionGracePeriodSeconds")}

    _, gone = await world.delete("pods", "p")
    assert not gone
    assert stored() == {
        "deletionTimestamp": "2030-01-02T03:04:35Z", "deletionGracePeriodSeconds": 30,
    }  # fmt: skip
    world.pass_time(2)
    await world.delete("pods", "p", gracePeriodSeconds=300)
    assert stored()["deletionGracePeriodSeconds"] == 30
    await world.delete("pods", "p", gracePeriodSeconds=10)
    assert stored() == {
        "deletionTimestamp": "2030-01-02T03:04:15Z", "deletionGracePeriodSeconds": 10,
    }  # fmt: skip
    world.pass_time(20)
    await world.delete("pods", "p", gracePeriodSeconds=5)
    assert stored() == {
        "deletionTimestamp": "2030-01-02T03:04:27Z", "deletionGracePeriodSeconds": 1,
    }  # fmt: skip
    _, gone = await world.delete("pods", "p", gracePeriodSeconds=0)
    assert gone and world.stored("pods", "p") is None


async def test_last_finalizer_of_a_deleted_object(world: Any) -> None:
    await world.config_map("a", finalizers=["a.test/x"])
    await world.delete("configmaps", "a")

    def release(live: Obj | None) -> Obj:
        assert live is not None
        del live["metadata"]["finalizers"]
        return live

    await world.writer.update(
        world.kind("configmaps"), "ns", "a", change=release, context=world.context()
    )
    assert world.stored("configmaps", "a") is None


async def test_collection(world: Any) -> None:
    for name in ("a", "b", "c"):
        await world.config_map(name, labels={"n": name})
    found = await world.deleter.delete_collection(
        world.kind("configmaps"), "ns", matches=lambda e: e.labels["n"] != "b",
        context=world.context(), options={},
    )  # fmt: skip
    assert [o["metadata"]["name"] for o in found] == ["a", "c"]
    assert [e.name for e in world.store.scan("/configmaps")] == ["b"]

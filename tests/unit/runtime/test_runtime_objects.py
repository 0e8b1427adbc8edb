from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from runtime_fakes import SCOPE, fake_cluster, now, obj, virtual

import corral.runtime
from corral.kube import errors
from corral.kube.resources import CONFIGMAPS, JOBS, NODES, PODS
from corral.kube.types import Obj
from corral.runtime import (
    AlreadyOwned,
    Change,
    ChildWriter,
    ConsistencyStore,
    Informer,
    NotYetConsistent,
    OwnershipError,
    Store,
    add_finalizer,
    all_of,
    any_of,
    controller_of,
    find_condition,
    generation_changed,
    has_finalizer,
    index_by_controller_uid,
    is_being_deleted,
    is_condition_false,
    is_condition_true,
    is_controlled_by,
    mapped,
    merge_diff,
    metadata_changed,
    owner_by_uid,
    owner_of,
    remove_condition,
    remove_finalizer,
    set_condition,
    set_controller,
    set_owner,
    write_status,
)


def test_every_exported_name_is_there() -> None:
    for name in corral.runtime.__all__:
        assert getattr(corral.runtime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        corral.runtime.Nothing  # noqa: B018


# --- conditions ----------------------------------------------------------------------------------

OLD = {
    "type": "Ready",
    "status": "False",
    "reason": "Starting",
    "message": "m",
    "observedGeneration": 1,
    "lastTransitionTime": "t0",
}
CONDITION_CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "nothing new": ({}, None),
    "status": ({"status": "True"}, {"status": "True", "lastTransitionTime": "t1"}),
    "reason": ({"reason": "Other"}, {"reason": "Other"}),
    "message": ({"message": "n"}, {"message": "n"}),
    "generation": ({"observed_generation": 2}, {"observedGeneration": 2}),
    "no generation leaves it": ({"observed_generation": None}, None),
}


@pytest.mark.parametrize(
    ("change", "expected"), CONDITION_CASES.values(), ids=CONDITION_CASES.keys()
)
def test_set_condition(change: dict[str, Any], expected: dict[str, Any] | None) -> None:
    conditions = [{"type": "Other", "status": "True"}, dict(OLD)]
    wanted = {"status": "False", "reason": "Starting", "message": "m", "observed_generation": 1}
    assert set_condition(conditions, "Ready", now="t1", **{**wanted, **change}) == bool(expected)
    assert conditions == [{"type": "Other", "status": "True"}, {**OLD, **(expected or {})}]


def test_conditions_come_and_go() -> None:
    conditions: list[Obj] = []
    assert set_condition(conditions, "Ready", status="True", reason="Fine", now="t0")
    assert conditions == [
        {"type": "Ready", "status": "True", "reason": "Fine", "message": "",
         "lastTransitionTime": "t0"}
    ]  # fmt: skip
    assert is_condition_true(conditions, "Ready") and not is_condition_false(conditions, "Ready")
    assert not is_condition_false(None, "Ready")
    assert find_condition(conditions, "Ready") is conditions[0]
    assert remove_condition(conditions, "Ready") and conditions == []
    assert not remove_condition(conditions, "Ready")


# --- owners --------------------------------------------------------------------------------------


def job(name: str = "job", uid: str = "u1", namespace: str = "ns") -> Obj:
    metadata = {"name": name, "uid": uid, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def test_set_controller() -> None:
    child: Obj = {"metadata": {"name": "a"}}
    set_controller(child, job())
    set_controller(child, job())
    assert child["metadata"]["namespace"] == "ns"
    assert child["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u1",
         "controller": True, "blockOwnerDeletion": True}
    ]  # fmt: skip
    assert is_controlled_by(child, job()) and not is_controlled_by(child, job(uid="u2"))
    assert index_by_controller_uid(child) == ("u1",)
    set_owner(child, job("other", "u2"))
    assert [r["uid"] for r in child["metadata"]["ownerReferences"]] == ["u1", "u2"]
    with pytest.raises(AlreadyOwned, match="a is controlled by Job job already"):
        set_controller(child, job("other", "u2"))


def test_owners_of_another_namespace_are_refused() -> None:
    with pytest.raises(OwnershipError, match="namespace ns cannot own an object in elsewhere"):
        set_controller(obj("a", namespace="elsewhere"), job())
    cluster_scoped = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    child = obj("a", namespace="elsewhere")
    set_controller(child, cluster_scoped)
    assert controller_of(child) is not None


def test_objects_without_controller() -> None:
    assert controller_of(obj("a")) is None and index_by_controller_uid(obj("a")) == ()
    child = obj("a")
    set_owner(child, job())
    assert controller_of(child) is None


# --- handlers ------------------------------------------------------------------------------------


def owned(owner: Obj, name: str = "child") -> Obj:
    child = obj(name)
    set_controller(child, owner)
    return child


def test_owner_of_names_the_old_and_the_new_owner() -> None:
    mapper = owner_of(JOBS)
    assert mapper(Change("added", None, owned(job()))) == ["ns/job"]
    assert mapper(Change("added", None, obj("orphan"))) == []
    assert mapper(Change("updated", owned(job("x")), owned(job("y")))) == ["ns/x", "ns/y"]
    assert mapper(Change("updated", owned(job("x")), owned(job("x")))) == ["ns/x"]
    assert mapper(Change("deleted", owned(job("x")), None)) == ["ns/x"]
    assert owner_of(PODS)(Change("added", None, owned(job()))) == []
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    assert owner_of(NODES)(Change("added", None, owned(node))) == ["n"]


@virtual
async def test_owner_by_uid_wakes_only_the_very_owner() -> None:
    async with fake_cluster() as (_, client):
        owners = Informer(client, SCOPE, clock=now)
        mapper = owner_by_uid(owners)
        owner = obj("owner", uid="u1")
        child = Change("added", None, owned(owner))
        assert mapper(child) == []
        owners.store.put(owner)
        assert mapper(child) == ["ns/owner"]
        assert mapper(Change("added", None, owned(obj("owner", uid="u0")))) == []


def test_mapped_asks_for_both_states() -> None:
    mapper = mapped(lambda value: [value["data"]["to"], "always"])
    change = Change("updated", obj("a", data={"to": "x"}), obj("a", data={"to": "y"}))
    assert mapper(change) == ["x", "always", "y"]


def changed(old: dict[str, Any], new: dict[str, Any]) -> Change:
    return Change("updated", obj("a", metadata=old), obj("a", metadata=new))


PREDICATES = {
    "same": (changed({"generation": 1}, {"generation": 1}), False, False),
    "generation": (changed({"generation": 1}, {"generation": 2}), True, False),
    "deletion": (changed({}, {"deletionTimestamp": "t"}), True, False),
    "labels": (changed({}, {"labels": {"a": "b"}}), False, True),
    "finalizers": (changed({"finalizers": ["x"]}, {}), False, True),
    "added": (Change("added", None, obj("a")), True, True),
    "deleted": (Change("deleted", obj("a"), None), True, True),
}


@pytest.mark.parametrize(
    ("change", "generation", "metadata"), PREDICATES.values(), ids=PREDICATES.keys()
)
def test_predicates(change: Change, generation: bool, metadata: bool) -> None:
    assert generation_changed(change) == generation
    assert metadata_changed(change) == metadata
    assert any_of(generation_changed, metadata_changed)(change) == (generation or metadata)
    assert all_of(generation_changed, metadata_changed)(change) == (generation and metadata)


# --- finalizers, children, status ----------------------------------------------------------------


@virtual
async def test_finalizers_are_added_and_removed_once() -> None:
    async with fake_cluster() as (cluster, client):
        read = cluster.put(obj("a", metadata={"finalizers": ["other"]}))
        added = await add_finalizer(client, CONFIGMAPS, read, finalizer="x.test/f")
        assert added["metadata"]["finalizers"] == ["other", "x.test/f"]
        assert has_finalizer(added, "x.test/f") and not is_being_deleted(added)
        assert await add_finalizer(client, CONFIGMAPS, added, finalizer="x.test/f") is added
        with pytest.raises(errors.Conflict):
            await add_finalizer(client, CONFIGMAPS, read, finalizer="y.test/f")
        removed = await remove_finalizer(client, CONFIGMAPS, added, finalizer="x.test/f")
        assert removed is not None and removed["metadata"]["finalizers"] == ["other"]
        assert await remove_finalizer(client, CONFIGMAPS, removed, finalizer="x.test/f") is removed
        cluster.remove("a")
        assert await remove_finalizer(client, CONFIGMAPS, added, finalizer="x.test/f") is None
        assert sum(method == "PATCH" for method, _, _ in cluster.requests) == 4


@virtual
async def test_children_are_owned_and_their_writes_noted() -> None:
    async with fake_cluster() as (cluster, client):
        cache = SimpleNamespace(version="10")
        consistency = ConsistencyStore({CONFIGMAPS: cache})
        writer = ChildWriter(client, field_manager="test", consistency=consistency)
        owner = job()
        created = await writer.create(owner, CONFIGMAPS, {"metadata": {"name": "a"}})
        assert is_controlled_by(created, owner)
        with pytest.raises(NotYetConsistent):
            consistency.ensure_ready("ns/job")
        cache.version = str(cluster.version)
        consistency.ensure_ready("ns/job")
        applied = await writer.apply(owner, CONFIGMAPS, {"metadata": {"name": "a"}, "data": {}})
        assert is_controlled_by(applied, owner)
        method, _, query = cluster.requests[-1]
        assert (method, query) == ("PATCH", {"fieldManager": "test", "force": "true"})
        with pytest.raises(NotYetConsistent):
            consistency.ensure_ready("ns/job")
        assert await writer.delete(CONFIGMAPS, applied)
        assert not await writer.delete(CONFIGMAPS, applied)


@virtual
async def test_status_is_written_only_when_it_changed() -> None:
    async with fake_cluster() as (cluster, client):
        read = cluster.put(obj("a", status={"phase": "x", "old": 1}))
        assert await write_status(client, CONFIGMAPS, read, {"phase": "x", "old": 1}) is read
        assert cluster.requests == []
        written = await write_status(client, CONFIGMAPS, read, {"phase": "y"})
        assert written["status"] == {"phase": "y"}
        assert cluster.requests[-1][1].endswith("/configmaps/a/status")
        with pytest.raises(errors.Conflict):
            await write_status(client, CONFIGMAPS, read, {"phase": "z"})
        unguarded = await write_status(client, CONFIGMAPS, read, {"phase": "z"}, guarded=False)
        assert unguarded["status"]["phase"] == "z"


DIFFS: dict[str, tuple[Obj, Obj, Obj]] = {
    "equal": ({"a": {"b": [1]}}, {"a": {"b": [1]}}, {}),
    "added": ({}, {"a": 1}, {"a": 1}),
    "removed": ({"a": 1, "b": 2}, {"b": 2}, {"a": None}),
    "nested": ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, {"a": {"y": 3}}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
    "an object instead of a value": ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a value instead of an object": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
}


@pytest.mark.parametrize(("old", "new", "patch"), DIFFS.values(), ids=DIFFS.keys())
def test_merge_diff(old: Obj, new: Obj, patch: Obj) -> None:
    assert merge_diff(old, new) == patch


# --- consistency ---------------------------------------------------------------------------------


class Caches:
    def __init__(self) -> None:
        self.pods, self.jobs = SimpleNamespace(version="5"), SimpleNamespace(version="5")
        self.store = ConsistencyStore({PODS: self.pods, JOBS: self.jobs})


def test_writes_are_waited_for() -> None:
    c = Caches()
    c.store.ensure_ready("ns/a")
    c.store.wrote_at("ns/a", "u", PODS, "10")
    c.store.wrote_at("ns/a", "u", PODS, "9")
    c.store.wrote_at("ns/a", "u", JOBS, "4")
    with pytest.raises(NotYetConsistent) as caught:
        c.store.ensure_ready("ns/a")
    assert str(caught.value) == (
        "read version: 5 is not as new as written version: 10 for group resource pods"
    )
    c.store.ensure_ready("ns/b")
    c.pods.version = "10"
    c.store.ensure_ready("ns/a")
    c.pods.version = "5"
    c.store.ensure_ready("ns/a")  # once ready, forgotten


def test_another_uid_is_another_owner() -> None:
    c = Caches()
    c.store.wrote_at("ns/a", "u1", PODS, "10")
    c.store.wrote_at("ns/a", "u2", JOBS, "5")
    c.store.ensure_ready("ns/a")


def test_cleared_owners_are_forgotten() -> None:
    c = Caches()
    c.store.wrote_at("ns/a", "u1", PODS, "10")
    c.store.clear("ns/a", "other")
    with pytest.raises(NotYetConsistent):
        c.store.ensure_ready("ns/a")
    c.store.clear("ns/a", "u1")
    c.store.ensure_ready("ns/a")
    c.store.wrote_at("ns/a", "u1", PODS, "10")
    c.store.clear("ns/a")
    c.store.ensure_ready("ns/a")


def test_what_cannot_be_compared_is_not_waited_for() -> None:
    c = Caches()
    c.store.wrote_at("ns/a", "u", PODS, "not-a-number")
    c.store.wrote_at("ns/a", "u", NODES, "10")
    c.store.ensure_ready("ns/a")
    c.store.wrote_at("ns/a", "u", PODS, "10")
    c.pods.version = ""
    c.store.ensure_ready("ns/a")


def test_children_by_the_uid_of_their_controller() -> None:
    store = Store(owner=index_by_controller_uid)
    store.put(owned(job(), "a"))
    store.put(owned(job("other", "u2"), "b"))
    store.put(obj("c"))
    assert store.keys_by_index("owner", "u1") == ["ns/a"]

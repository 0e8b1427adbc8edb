"""Which volume a claim gets."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.workloads.claims import storage_class
from corral.cluster.workloads.claims.matching import (
    best_match,
    class_of,
    default_class,
    has_class,
    is_bound_to,
    is_delayed,
    mismatch,
    waits_for_node,
)

Obj = dict[str, Any]


def claim(size: str = "1Gi", **spec: Any) -> Obj:
    meta = {"namespace": "ns", "name": "c", "uid": "u", "annotations": spec.pop("notes", {})}
    body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "k",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    return {"metadata": meta, "spec": body}


def volume(name: str = "v", size: str = "1Gi", phase: str = "Available", **spec: Any) -> Obj:
    meta = {"name": name, "labels": spec.pop("labels", {}), **spec.pop("meta", {})}
    body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "k",
        "capacity": {"storage": size},
        **spec,
    }
    return {"metadata": meta, "spec": body, "status": {"phase": phase}}


def chosen(given: Obj, *free: Obj, named: tuple[Obj, ...] = (), delayed: bool = False) -> str:
    found = best_match(given, named=named, free=free, delayed=delayed)
    return "" if found is None else str(found["metadata"]["name"])


def test_the_smallest_with_the_fewest_modes() -> None:
    modes = ["ReadWriteOnce", "ReadOnlyMany"]
    given = [
        volume("big", "9Gi"),
        volume("small-but-more", "1Gi", accessModes=modes),
        volume("middle", "3Gi"),
        volume("tiny", "512Mi"),
    ]
    assert chosen(claim(), *given) == "middle"
    assert chosen(claim(accessModes=modes), *given) == "small-but-more"
    assert chosen(claim("10Gi"), *given) == ""


@pytest.mark.parametrize(
    "one",
    [
        volume(phase="Pending"),
        volume(phase="Released"),
        volume(size="1023Mi"),
        volume(volumeMode="Block"),
        volume(accessModes=["ReadOnlyMany"]),
        volume(volumeAttributesClassName="gold"),
        volume(meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
    ],
    ids=["pending", "released", "small", "block", "modes", "attributes", "deleting"],
)
def test_volumes_that_do_not_fit(one: Obj) -> None:
    assert chosen(claim(), one) == ""


def test_labels_are_selected() -> None:
    given = (volume("a", labels={"d": "x"}), volume("b", labels={"d": "y"}))
    assert chosen(claim(selector={"matchLabels": {"d": "y"}}), *given) == "b"


def test_a_volume_that_names_the_claim_comes_first() -> None:
    reference = {"namespace": "ns", "name": "c"}
    mine = volume("mine", "9Gi", phase="Pending", claimRef=reference)
    assert chosen(claim(), volume("free"), named=(mine,)) == "mine"
    assert chosen(claim(), volume("free"), named=(mine,), delayed=True) == "mine"
    assert chosen(claim(), volume("free"), delayed=True) == ""
    other = volume("other", claimRef={**reference, "uid": "another"})
    assert chosen(claim(), volume("free"), named=(other,)) == "free"
    assert is_bound_to(mine, claim())
    assert not is_bound_to(other, claim())
    assert not is_bound_to(volume(), claim())


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (volume(), ""),
        (volume(size="1Mi"), "requested PV is too small"),
        (volume(storageClassName="other"), "storageClassName does not match"),
        (volume(volumeMode="Block"), "incompatible volumeMode"),
        (volume(accessModes=["ReadOnlyMany"]), "incompatible accessMode"),
        (volume(volumeAttributesClassName="a"), "volumeAttributesClassName does not match"),
        (
            volume(meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
            'the volume is marked for deletion "v"',
        ),
    ],
)
def test_why_a_volume_by_name_is_refused(one: Obj, why: str) -> None:
    assert mismatch(one, claim()) == why


def test_classes() -> None:
    old = claim(notes={"volume.beta.kubernetes.io/storage-class": "old"})
    assert (class_of(old), has_class(old)) == ("old", True)
    none = claim(storageClassName="")
    assert (class_of(none), has_class(none)) == ("", True)
    silent = claim(storageClassName=None)
    assert (class_of(silent), has_class(silent)) == ("", False)
    ours = storage_class()
    assert not is_delayed(ours)
    assert not waits_for_node(claim(), None)
    later = {**ours, "volumeBindingMode": "WaitForFirstConsumer"}
    assert waits_for_node(claim(), later)
    assert not waits_for_node(claim(notes={"volume.kubernetes.io/selected-node": "n"}), later)


def test_the_newest_default_class() -> None:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}

    def made(name: str, when: str, notes: dict[str, str]) -> Obj:
        return {"metadata": {"name": name, "creationTimestamp": when, "annotations": notes}}

    classes = [made("b", "2", mark), made("a", "2", mark), made("c", "1", mark), made("d", "3", {})]
    found = default_class(classes)
    assert found is not None
    assert found["metadata"]["name"] == "a"
    assert default_class([classes[-1]]) is None

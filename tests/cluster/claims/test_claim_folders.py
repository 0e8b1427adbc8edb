"""Claims as folders: the provisioner with our binder, and beside kube-controller-manager."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.claims.claim_loops import Loops
from tests.cluster.claims.claim_stage import CLAIMS, STORAGE, VOLUMES, ClaimStage, user
from tests.cluster.manifests import obj
from tests.cluster.objects import eventually
from tests.cluster.services.service_stage import settles

PROVISIONER = "corral.dev/folder"
SELECTED = "volume.kubernetes.io/selected-node"
PATIENCE = 60.0


def is_gone(path: Path) -> bool:
    return not os.path.lexists(path)


def failed(stage: ClaimStage, claim: str) -> bool:
    return "ProvisioningFailed" in stage.events(claim)


def test_a_claim_gets_a_folder(stage: ClaimStage) -> None:
    name = stage.make_class()
    made = stage.make_claim(size="2Gi", storageClassName=name, accessModes=["ReadWriteMany"])
    found = stage.bound()
    uid = made["metadata"]["uid"]
    assert found["spec"]["volumeName"] == f"pvc-{uid}"
    assert found["status"]["capacity"] == {"storage": "2Gi"}
    notes = found["metadata"]["annotations"]
    for note in ("volume.kubernetes.io/", "volume.beta.kubernetes.io/"):
        assert notes[f"{note}storage-provisioner"] == PROVISIONER
    volume = stage.volume(f"pvc-{uid}")
    assert volume is not None
    assert volume["spec"]["hostPath"] == {
        "path": str(stage.folder_of(made)),
        "type": "DirectoryOrCreate",
    }
    assert volume["spec"]["storageClassName"] == name
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == PROVISIONER
    assert stat.S_IMODE(stage.folder_of(made).stat().st_mode) == 0o777
    settles(lambda: stage.volume_phase(f"pvc-{uid}"), "Bound")
    wanted = {"ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"}
    eventually(lambda: wanted <= stage.events("data"))


def test_the_folder_goes_with_the_claim(stage: ClaimStage) -> None:
    made = stage.make_claim(storageClassName=stage.make_class())
    stage.bound()
    folder = stage.folder_of(made)
    outside = stage.folder.parent / f"outside-{stage.unique}"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_text("1")
    (folder / "link").symlink_to(outside)
    (folder / "closed").mkdir(mode=0o500)
    stage.objects.delete("v1", CLAIMS, "data")
    eventually(lambda: stage.volume(f"pvc-{made['metadata']['uid']}") is None)
    assert not folder.exists()
    assert (outside / "kept").read_text() == "x"


def test_retained_folders_stay(stage: ClaimStage) -> None:
    made = stage.make_claim(storageClassName=stage.make_class(reclaimPolicy="Retain"))
    stage.bound()
    (stage.folder_of(made) / "weights").write_text("1")
    stage.objects.delete("v1", CLAIMS, "data")
    name = f"pvc-{made['metadata']['uid']}"
    settles(lambda: stage.volume_phase(name), "Released")
    stage.cluster.delete("v1", VOLUMES, name)
    eventually(lambda: stage.volume(name) is None)
    assert (stage.folder_of(made) / "weights").read_text() == "1"


def test_a_volume_deleted_first_takes_its_folder_with_it_later(stage: ClaimStage) -> None:
    made = stage.make_claim(storageClassName=stage.make_class())
    stage.bound()
    name = f"pvc-{made['metadata']['uid']}"
    stage.cluster.delete("v1", VOLUMES, name)
    settles(lambda: stage.volume_phase(name), "Bound")
    assert stage.folder_of(made).is_dir()
    stage.objects.delete("v1", CLAIMS, "data")
    eventually(lambda: stage.volume(name) is None)
    assert not stage.folder_of(made).exists()


def test_a_claim_that_waits_for_its_pod(stage: ClaimStage) -> None:
    name = stage.make_class(volumeBindingMode="WaitForFirstConsumer")
    made = stage.make_claim(storageClassName=name)
    eventually(lambda: "WaitForFirstConsumer" in stage.events("data"))
    assert stage.claim_phase() == "Pending"
    assert not stage.folder_of(made).exists()
    stage.add_node()
    notes = {"metadata": {"annotations": {SELECTED: stage.node}}}
    stage.objects.patch("v1", CLAIMS, "data", notes)
    stage.bound()
    assert stage.folder_of(made).is_dir()


def test_what_a_folder_cannot_be(stage: ClaimStage) -> None:
    name = stage.make_class()
    stage.make_claim("block", storageClassName=name, volumeMode="Block")
    stage.make_claim("chosen", storageClassName=name, selector={"matchLabels": {"a": "b"}})
    for claim in ("block", "chosen"):
        eventually(partial(failed, stage, claim))
        assert stage.claim_phase(claim) == "Pending"


def test_claims_of_other_provisioners_are_left_to_them(stage: ClaimStage) -> None:
    name = stage.make_class(provisioner="example.test/disks")
    made = stage.make_claim(storageClassName=name)
    eventually(lambda: "ExternalProvisioning" in stage.events("data"))
    stage.make_claim("ours", storageClassName=stage.make_class("ours"))
    stage.bound("ours")
    assert not stage.folder_of(made).exists()


def test_a_volume_elsewhere_is_never_removed(stage: ClaimStage) -> None:
    """Somebody pretends that a folder of his is one of ours."""
    outside = stage.folder.parent / f"elsewhere-{stage.unique}"
    outside.mkdir()
    (outside / "kept").write_text("x")
    name = stage.make_volume(
        "v",
        persistentVolumeReclaimPolicy="Delete",
        hostPath={"path": str(outside)},
    )
    notes = {"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}}}
    stage.cluster.patch("v1", VOLUMES, name, notes)
    stage.make_claim()
    stage.bound()
    stage.objects.delete("v1", CLAIMS, "data")
    settles(lambda: stage.volume_phase(name), "Released")
    made = stage.make_claim("ours", storageClassName=stage.make_class())
    stage.bound("ours")
    stage.objects.delete("v1", CLAIMS, "ours")
    eventually(lambda: not stage.folder_of(made).exists())
    assert (outside / "kept").read_text() == "x"


def test_a_claim_may_grow(stage: ClaimStage) -> None:
    made = stage.make_claim(storageClassName=stage.make_class())
    stage.bound()
    size = {"spec": {"resources": {"requests": {"storage": "7Gi"}}}}
    stage.objects.patch("v1", CLAIMS, "data", size)
    settles(lambda: stage.claim()["status"]["capacity"], {"storage": "7Gi"})
    volume = stage.volume(f"pvc-{made['metadata']['uid']}")
    assert volume is not None
    assert volume["spec"]["capacity"] == {"storage": "7Gi"}


def test_the_default_class_is_given_later_too(stage: ClaimStage) -> None:
    """A claim that said nothing of its class gets the default one when there is one."""
    made = stage.objects.create(CLAIMS, obj("v1", "PersistentVolumeClaim", "data", spec={
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }))  # fmt: skip
    assert "storageClassName" not in made["spec"]
    settles(stage.claim_phase, "Pending")
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    name = stage.make_class("default")
    stage.cluster.patch(STORAGE, "storageclasses", name, {"metadata": {"annotations": mark}})
    try:
        found = stage.bound(seconds=PATIENCE)
        assert found["spec"]["storageClassName"] == name
        second = stage.objects.create(CLAIMS, {**made, "metadata": {"name": "next"}})
        assert second["spec"]["storageClassName"] == name
    finally:
        off = {"storageclass.kubernetes.io/is-default-class": "false"}
        stage.cluster.patch(STORAGE, "storageclasses", name, {"metadata": {"annotations": off}})


def test_a_claim_stays_while_a_pod_uses_it(stage: ClaimStage) -> None:
    stage.add_node()
    made = stage.make_claim(storageClassName=stage.make_class())
    stage.bound()
    stage.objects.create("pods", user("one", "data", stage.node))
    stage.objects.delete("v1", CLAIMS, "data")
    going = stage.claim()
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    stage.make_claim("other", storageClassName=stage.make_class("other"))
    stage.bound("other")
    assert stage.folder_of(made).is_dir()
    stage.kill("one")
    eventually(lambda: stage.objects.find("v1", CLAIMS, "data") is None)
    eventually(lambda: not stage.folder_of(made).exists())


def test_a_claim_tells_whether_it_is_used(stage: ClaimStage) -> None:
    stage.add_node()
    stage.make_claim(storageClassName=stage.make_class())
    stage.bound()

    def unused() -> list[tuple[str, str]]:
        conditions = stage.claim()["status"].get("conditions") or ()
        return [(c["status"], c["reason"]) for c in conditions if c["type"] == "Unused"]

    settles(unused, [("True", "NoPodsUsingPVC")])
    stage.objects.create("pods", user("one", "data", stage.node))
    settles(unused, [("False", "PodUsingPVC")])
    stage.kill("one")
    settles(unused, [("True", "NoPodsUsingPVC")])


def with_scratch(stage: ClaimStage, name: str) -> dict[str, Any]:
    """A pod that describes a claim in place."""
    made = user(name, "unused", stage.node)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": stage.make_class(name),
        "resources": {"requests": {"storage": "1Gi"}},
    }
    template = {"metadata": {"labels": {"kind": "scratch"}}, "spec": spec}
    made["spec"]["volumes"] = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    return made


def test_a_pod_may_bring_its_claim(stage: ClaimStage) -> None:
    stage.add_node()
    owner = stage.objects.create("pods", with_scratch(stage, "one"))
    eventually(lambda: stage.objects.find("v1", CLAIMS, "one-tmp"))
    found = stage.bound("one-tmp")
    assert found["metadata"]["labels"] == {"kind": "scratch"}
    (reference,) = found["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("Pod", owner["metadata"]["uid"])
    assert stage.folder_of(found).is_dir()
    stage.kill("one")
    eventually(lambda: stage.objects.find("v1", CLAIMS, "one-tmp") is None)
    eventually(partial(is_gone, stage.folder_of(found)))


def test_a_claim_of_another_is_not_taken_for_scratch(stage: ClaimStage) -> None:
    stage.add_node()
    stage.make_claim("one-tmp")
    stage.objects.create("pods", with_scratch(stage, "one"))
    eventually(lambda: "FailedBinding" in stage.events("one"))
    assert "ownerReferences" not in stage.claim("one-tmp")["metadata"]


def test_many_claims_at_once(stage: ClaimStage) -> None:
    name = stage.make_class()
    made = [stage.make_claim(f"c{number}", storageClassName=name) for number in range(20)]
    for one in made:
        found = stage.bound(one["metadata"]["name"])
        assert found["spec"]["volumeName"] == f"pvc-{one['metadata']['uid']}"
    for one in made:
        stage.objects.delete("v1", CLAIMS, one["metadata"]["name"])
    for one in made:
        eventually(partial(is_gone, stage.folder_of(one)))


def test_kills_lose_and_double_nothing(mortal: tuple[ClaimStage, Loops]) -> None:
    """Provisioner (and our binder) die at any moment; every claim has one volume and folder."""
    stage, loops = mortal
    name = stage.make_class()
    made = []
    for number in range(24):
        made.append(stage.make_claim(f"c{number}", storageClassName=name))
        if number % 6 == 5:
            loops.restart()
    for one in made:
        assert stage.bound(one["metadata"]["name"])["spec"]["volumeName"] == (
            f"pvc-{one['metadata']['uid']}"
        )
        assert stage.folder_of(one).is_dir()
    for number, one in enumerate(made):
        stage.objects.delete("v1", CLAIMS, one["metadata"]["name"])
        if number % 8 == 7:
            loops.restart()
    for one in made:
        eventually(partial(is_gone, stage.folder_of(one)))
        settles(partial(stage.volume, f"pvc-{one['metadata']['uid']}"), None)

"""Where copies keep their checkpoints: what their pods are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.checkpoints.places import PlaceRefused, StoreRules
from corral.egress import EgressPolicy
from corral.families.spot.jobs.places import spot_place
from corral.families.spot.jobs.storage import (
    RESTORER,
    CopyStorage,
    StorageProblem,
    StorageSettings,
    folder_of,
    storage_for,
)
from corral.kube.types import Obj

SETTINGS = StorageSettings(local_root=Path("/var/corral"), report_url="https://reports:8443/")


def job(**config: Any) -> Obj:
    spec: Obj = {
        "checkpointConfig": {
            "checkpointImageRepo": "registry.example.com/team/checkpoints",
            "checkpointInterval": "30m",
            **config,
        },
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"name": "trainer", "image": "python"}]}}}
        },
    }
    metadata = {"name": "digits", "namespace": "team", "uid": "uid-1"}
    return {"metadata": metadata, "spec": spec}


def volume(found: CopyStorage, name: str) -> Obj:
    (one,) = [each for each in found.volumes if each["name"] == name]
    return one


class TestApplication:
    def test_a_folder_that_all_copies_see(self) -> None:
        found = storage_for(job(), 1, 7, settings=SETTINGS)
        assert found.env["CORRAL_CHECKPOINT_DIR"] == "/checkpoints/replica-1"
        assert found.env["CORRAL_CHECKPOINT_PEERS"] == "/checkpoints"
        assert found.env["CORRAL_CHECKPOINT_STORE"] == "volume"
        assert found.env["CORRAL_CHECKPOINT_INTERVAL"] == "1800"
        assert found.env["CORRAL_CHECKPOINT_KEEP"] == "3"
        assert found.env["CORRAL_ATTEMPT"] == "7"
        place = volume(found, "corral-checkpoints")["hostPath"]
        assert place == {"path": "/var/corral/team/digits/uid-1", "type": "DirectoryOrCreate"}

    def test_reports_go_to_the_spot_job(self) -> None:
        found = storage_for(job(), 0, 1, settings=SETTINGS)
        url = "https://reports:8443/v1/namespaces/team/spotinstancejobs/digits"
        assert found.env["CORRAL_REPORT_URL"] == url
        assert volume(found, "corral-report-token")["projected"]

    def test_without_an_endpoint_nothing_is_reported(self) -> None:
        quiet = StorageSettings(local_root=Path("/var/corral"))
        found = storage_for(job(), 0, 1, settings=quiet)
        assert "CORRAL_REPORT_URL" not in found.env
        assert [each["name"] for each in found.volumes] == ["corral-checkpoints"]

    def test_a_claim_by_its_name(self) -> None:
        storage = {"type": "pvc", "bucket": "shared", "pathPrefix": "runs/"}
        found = storage_for(job(checkpointStorage=storage), 0, 1, settings=SETTINGS)
        claim = volume(found, "corral-checkpoints")["persistentVolumeClaim"]
        assert claim == {"claimName": "shared"}
        (mount,) = [each for each in found.mounts if each["name"] == "corral-checkpoints"]
        assert mount["subPath"] == "runs/digits/uid-1"

    def test_a_claim_is_not_left(self) -> None:
        storage = {"type": "pvc", "bucket": "shared", "pathPrefix": "../etc"}
        with pytest.raises(StorageProblem, match=r"leave out \.\."):
            storage_for(job(checkpointStorage=storage), 0, 1, settings=SETTINGS)

    def test_a_bucket_is_reached_through_the_operator(self) -> None:
        storage = {"type": "gcs", "bucket": "weights"}
        found = storage_for(job(checkpointStorage=storage), 0, 1, settings=SETTINGS)
        assert found.env["CORRAL_CHECKPOINT_STORE"] == "remote"
        assert volume(found, "corral-checkpoints")["emptyDir"] == {}
        assert "CORRAL_CHECKPOINT_PEERS" not in found.env
        with pytest.raises(StorageProblem, match="report endpoint"):
            storage_for(job(checkpointStorage=storage), 0, 1, settings=StorageSettings())

    def test_an_interval_that_was_worked_out(self) -> None:
        made = job(checkpointInterval="auto")
        found = storage_for(made, 0, 1, settings=SETTINGS, interval=90.5)
        assert found.env["CORRAL_CHECKPOINT_INTERVAL"] == "90.5"
        found = storage_for(made, 0, 1, settings=SETTINGS)
        assert found.env["CORRAL_CHECKPOINT_INTERVAL"] == "600"

    @pytest.mark.parametrize(("kind", "said"), [("local", "one machine"), ("ftp", "not known")])
    def test_what_is_not_to_be_had(self, kind: str, said: str) -> None:
        with pytest.raises(StorageProblem, match=said):
            storage_for(job(checkpointStorage={"type": kind}), 0, 1, settings=StorageSettings())

    def test_a_folder_of_its_own_choice(self) -> None:
        made = job(checkpointStorage={"type": "local", "pathPrefix": "/data"})
        assert folder_of(made, Path("/var/corral")) == Path("/data/team/digits/uid-1")


class TestDirectory:
    def made(self, **more: Any) -> Obj:
        return job(engine="Directory", directory="/work/", **more)

    def test_the_first_start_has_nothing_to_restore(self) -> None:
        found = storage_for(self.made(), 0, 1, settings=SETTINGS)
        assert found.init_containers == []
        assert volume(found, "corral-directory") == {"name": "corral-directory", "emptyDir": {}}
        assert "CORRAL_CHECKPOINT_DIR" not in found.env

    def test_later_ones_are_given_the_images(self) -> None:
        secret = {"checkpointRepoCredentialRef": {"name": "login"}}
        settings = StorageSettings(registries={"registry.corral.local": "http://127.0.0.1:1"})
        found = storage_for(
            self.made(**secret), 0, 2, settings=settings, restore_images=["a:2", "a:1"]
        )
        (restorer,) = found.init_containers
        env = {each["name"]: each["value"] for each in restorer["env"]}
        assert restorer["name"] == RESTORER
        assert json.loads(env["CORRAL_DIRECTORY_IMAGES"]) == ["a:2", "a:1"]
        assert env["CORRAL_DIRECTORY"] == "/work"
        assert env["CORRAL_DIRECTORY_NAME"] == "work"
        assert json.loads(env["CORRAL_REGISTRIES"]) == dict(settings.registries)
        assert volume(found, "corral-registry-login")["secret"] == {"secretName": "login"}
        paths = [mount["mountPath"] for mount in restorer["volumeMounts"]]
        assert "/work" in paths

    def test_a_volume_of_the_template_is_used(self) -> None:
        made = self.made()
        pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        pod["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/work"}]
        found = storage_for(made, 0, 2, settings=StorageSettings(), restore_images=["a:1"])
        (restorer,) = found.init_containers
        assert {"name": "mine", "mountPath": "/work"} in restorer["volumeMounts"]
        assert all(each["name"] != "corral-directory" for each in found.volumes)

    def test_it_must_be_named(self) -> None:
        with pytest.raises(StorageProblem, match=r"spec\.checkpointConfig\.directory"):
            storage_for(job(engine="Directory"), 0, 1, settings=SETTINGS)


def test_the_kubelets_image_is_what_the_container_runs() -> None:
    found = storage_for(
        job(engine="Kubelet"), 0, 2, settings=StorageSettings(), restore_images=["r/a:2", "r/a:1"]
    )
    pod = {"containers": [{"name": "trainer", "image": "python"}]}
    found.add_to(pod)
    assert pod["containers"][0]["image"] == "r/a:2"


def test_what_the_author_wrote_stays() -> None:
    found = CopyStorage(
        {"A": "ours", "B": "ours"},
        [{"name": "v", "emptyDir": {}}],
        [{"name": "v", "mountPath": "/checkpoints"}],
        [{"name": "first"}],
    )
    pod: Obj = {
        "containers": [
            {
                "name": "trainer",
                "env": [{"name": "B", "value": "theirs"}],
                "volumeMounts": [{"name": "w", "mountPath": "/checkpoints/"}],
            }
        ],
        "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
        "initContainers": [{"name": "second"}],
    }
    found.add_to(pod)
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "A", "value": "ours"}, {"name": "B", "value": "theirs"}]
    assert container["volumeMounts"] == [{"name": "w", "mountPath": "/checkpoints/"}]
    assert pod["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]
    assert [each["name"] for each in pod["initContainers"]] == ["first", "second"]


class TestPlaces:
    def made(self, storage: Obj, **spec: Any) -> Obj:
        found = job(checkpointStorage=storage)
        found["spec"] |= spec
        return found

    def test_volumes_have_none(self) -> None:
        assert spot_place(self.made({"type": "pvc"}), StoreRules()) is None

    def test_below_the_job(self) -> None:
        made = self.made(
            {"type": "s3", "bucket": "weights", "pathPrefix": "runs"},
            credentialsSecretRef={"name": "keys"},
        )
        place = spot_place(made, StoreRules())
        assert place is not None and place.secret == "keys"
        assert place.location.url == "s3://weights/runs/team/digits/uid-1"

    def test_an_address_with_a_server(self) -> None:
        bucket = "s3://weights/top?endpoint=http%3A%2F%2F127.0.0.1%3A9"
        made = self.made({"type": "s3", "bucket": bucket}, gcpCredentialsSecretRef={"name": "k"})
        rules = StoreRules(egress=EgressPolicy.of(["127.0.0.1:9"]))
        place = spot_place(made, rules)
        assert place is not None and place.location.endpoint == "http://127.0.0.1:9"
        assert place.location.prefix == "top/team/digits/uid-1"

    def test_the_operators_own_keys_are_not_for_any_server(self) -> None:
        bucket = "s3://weights?endpoint=http%3A%2F%2F127.0.0.1%3A9"
        with pytest.raises(PlaceRefused, match="not for this server"):
            spot_place(self.made({"type": "s3", "bucket": bucket}), StoreRules())

    def test_a_secret_of_another_namespace(self) -> None:
        reference = {"name": "keys", "namespace": "other"}
        made = self.made({"type": "s3", "bucket": "weights"}, credentialsSecretRef=reference)
        with pytest.raises(PlaceRefused, match="own namespace"):
            spot_place(made, StoreRules())

    def test_no_bucket(self) -> None:
        with pytest.raises(PlaceRefused, match="name the bucket"):
            spot_place(self.made({"type": "gcs"}), StoreRules())

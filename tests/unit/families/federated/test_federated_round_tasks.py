"""What participants are told, and how a round reads itself and its job."""

from __future__ import annotations

import json

from corral.families.federated.rounds.tasks import global_update, task_of
from corral.families.federated.view import Privacy, round_view
from tests.unit.families.federated.learning_cases import round_object, view_of

AGGREGATED = "propeller.absmach.io/aggregated-update"


def test_a_task_without_a_job() -> None:
    spec = task_of(view_of("a"), "a", {})["spec"]
    assert spec["env"] == {
        "ROUND_ID": "round-1", "PROPLET_ID": "a",
        "MODEL_URI": "oci://registry.example.com/models/initial:v1",
    }  # fmt: skip
    assert (spec["mode"], spec["daemon"], spec["cliArgs"]) == ("train", False, [])


def test_templates_are_merged_the_participants_first() -> None:
    view = view_of(
        "a",
        template={"env": {"A": "1", "B": "1", "ROUND_ID": "x"}, "volumes": [{"name": "all"}],
                  "restartPolicy": "Never"},
        participantTemplates={"a": {"env": {"B": "2"}, "volumes": [{"name": "own"}],
                                    "cliArgs": ["-v"]}},
    )  # fmt: skip
    spec = task_of(view, "a", {})["spec"]
    assert (spec["env"]["A"], spec["env"]["B"], spec["env"]["ROUND_ID"]) == ("1", "2", "round-1")
    assert spec["volumes"] == [{"name": "own"}, {"name": "all"}]
    assert (spec["restartPolicy"], spec["cliArgs"]) == ("Never", ["-v"])
    assert "env" in view.template  # what is shared is not changed
    assert task_of(view, "a", {})["spec"] == spec


def test_the_global_model_in_the_environment() -> None:
    update = {
        "global_version": "round-1",
        "update_ref": "oci://r",
        "update_b64": "",
        "format": "npy",
    }
    env = task_of(
        view_of("a", aggregator={"algorithm": "", "config": {"format": "x"}}), "a", update
    )
    env = env["spec"]["env"]
    assert env["FL_GLOBAL_VERSION"] == "round-1"
    assert env["FL_GLOBAL_UPDATE_REF"] == "oci://r"
    assert env["FL_GLOBAL_UPDATE_FORMAT"] == "npy"
    assert "FL_GLOBAL_UPDATE_B64" not in env


def test_fedprox_tells_its_clients() -> None:
    for config, mu in ({"mu": 0.5}, 0.5), ({}, 0.01):
        view = view_of("a", aggregator={"algorithm": "FedProx", "config": config})
        env = task_of(view, "a", {})["spec"]["env"]
        assert json.loads(env["FL_CLIENT_CONFIG"]) == {"mu": mu}


def test_odd_annotations_are_no_global_model() -> None:
    for text in ("", "not json", "[]", "3"):
        round_ = round_object()
        round_["metadata"]["annotations"] = {AGGREGATED: text}
        assert global_update(round_) == {}


def test_the_job_fills_in_what_a_round_does_not_say() -> None:
    job = {
        "metadata": {"name": "job"},
        "spec": {
            "experimentId": "exp-001",
            "aggregator": {
                "algorithm": "FedAdam",
                "config": {"tau": 1, "format": "npy"},
                "privacy": {"clip": 2, "noise": 1, "seedSecretRef": {"name": "s"}},
            },
            "registry": {"repository": "oci://r.example.com/x", "secretRef": {"name": "c"}},
        },
    }
    view = round_view(round_object(), job)
    assert (view.experiment, view.algorithm, view.config, view.format) == (
        "exp-001", "fedadam", {"tau": 1}, "npy",
    )  # fmt: skip
    assert view.privacy == Privacy(2.0, 1.0, None, 1e-5, "s")
    assert (view.repository, view.secret) == ("oci://r.example.com/x", "c")
    own = round_view(round_object(aggregator={"algorithm": "median"}), job)
    assert (own.algorithm, own.config, own.privacy) == ("median", {}, None)
    alone = round_view(round_object(federatedJobRef={}), None)
    assert (alone.job, alone.algorithm, alone.experiment) == ("round-1-job", "fedavg", "")


def test_a_registry_of_the_jobs_own() -> None:
    registry = {"repository": "oci://r.example.com/x", "secretRef": {"name": "login"}}
    spec = task_of(view_of("a", registry=registry), "a", {})["spec"]
    assert spec["env"]["FL_REGISTRY"] == "oci://r.example.com/x"
    assert spec["imagePullSecrets"] == [{"name": "login"}]
    template = {"imagePullSecrets": [{"name": "login"}, {"name": "other"}]}
    spec = task_of(view_of("a", registry=registry, template=template), "a", {})["spec"]
    assert spec["imagePullSecrets"] == template["imagePullSecrets"]

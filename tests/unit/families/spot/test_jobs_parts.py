"""Names, Jobs, costs, reports, conditions and memory of spot jobs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from spot_jobs_stage import START, Stage, job, vm

from corral.families.spot import names
from corral.families.spot.jobs import reported
from corral.families.spot.jobs.changes import News, learn
from corral.families.spot.jobs.replicas import copy_job
from corral.families.spot.jobs.storage import CopyStorage
from corral.families.spot.jobs.wiring import Uptimes, mappers, node_matters
from corral.families.spot.metrics import JobMetrics
from corral.families.spot.placement.choice import Market, offer_of, save_seconds
from corral.families.spot.settings import SpotSettings
from corral.runtime.informers.informer import Change
from corral.runtime.keys import format_time
from corral.spot import Memory

Obj = dict[str, Any]
GCP = {
    "project": "p",
    "zone": "us-central1-a",
    "zones": ["us-central1-b"],
    "machineType": "n1-standard-4",
}


@pytest.mark.parametrize("name", ["digits", "a" * 63, "team.a", "7up", "x" * 62 + "y"])
def test_names_fit_everywhere_and_stay_apart(name: str) -> None:
    made = job(name)
    found = {names.vm_name(made, 0, 1), names.vm_name(made, 1, 1), names.vm_name(made, 0, 2)}
    found |= {names.copy_name(made, 0, 1), names.backup_name(made, 1)}
    assert len(found) == 5
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])", each) for each in found)
    other = {**made, "metadata": {**made["metadata"], "uid": "another"}}
    assert names.vm_name(other, 0, 1) != names.vm_name(made, 0, 1)


def test_a_copy_is_the_template_pinned_to_its_machine() -> None:
    made = job(backoffLimit=4, activeDeadlineSeconds=9, podFailurePolicy={"rules": []})
    template = made["spec"]["jobTemplate"]
    template["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    pod = template["spec"]["template"]["spec"]
    pod["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
            }
        }
    }
    pod["containers"][0]["env"] = [{"name": "CORRAL_JOB", "value": "mine"}]
    storage = CopyStorage({"CORRAL_ATTEMPT": "7"})
    copy = copy_job(made, 1, 7, node="m-1", storage=storage, restored_from="digits-replica-1-3")
    assert copy["metadata"]["name"] == "digits-replica-1-7"
    labels = copy["metadata"]["labels"]
    assert labels["restored-from"] == "digits-replica-1-3"
    assert (labels["team"], copy["metadata"]["annotations"]) == ("a", {"note": "b"})
    spec = copy["spec"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert "podFailurePolicy" not in spec and "activeDeadlineSeconds" not in spec
    made_pod = spec["template"]["spec"]
    (term,) = made_pod["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["key"] == "gpu"
    assert term["matchFields"][0]["values"] == ["m-1"]
    env = {each["name"]: each["value"] for each in made_pod["containers"][0]["env"]}
    assert (env["CORRAL_JOB"], env["CORRAL_REPLICA"], env["CORRAL_COPY"]) == ("mine", "0", "1")
    assert env["CORRAL_ATTEMPT"] == "7"
    assert made_pod["restartPolicy"] == "Never"
    assert template["spec"]["backoffLimit"] == 4, "the template stays as it is"


def test_what_copies_report_is_shown_and_stays_when_they_are_gone() -> None:
    stage = Stage(job()).running()
    pod = stage.pod()
    told = reported.Progress(time=START + 5, step=50, total=200)
    saved = reported.LastCheckpoint(id="a", step=40, time=START + 4, seconds=3.0)
    pod["metadata"]["annotations"] = {**reported.note(told), **reported.note(saved)}
    stage.look()
    progress = stage.status["progress"]
    assert (progress["step"], progress["percent"], progress["savedPercent"]) == (50, 25.0, 20.0)
    assert stage.status["lastCheckpointTime"] == format_time(START + 4)
    assert save_seconds(stage.world(), stage.wishes[0], SpotSettings()) == 3.0
    stage.now = START + 10
    stage.end(stage.wishes[0]["instance"])
    stage.look()
    assert stage.status["progress"]["percent"] == 25.0
    assert stage.status["cost"]["lostWorkSeconds"] == 6, "since its last checkpoint"


def test_images_of_backups_are_shown() -> None:
    stage = Stage(job()).running()
    owner = {"uid": stage.job["metadata"]["uid"], "controller": True, "kind": "SpotInstanceJob"}
    labels = {"training.dcnlab.com/job": stage.entry()["name"]}
    stage.backups = [
        {
            "metadata": {"name": "b-1", "labels": labels, "ownerReferences": [owner]},
            "status": {
                "phase": "Completed",
                "checkpointImage": "registry.example.com/ck:1",
                "lastCheckpointTime": format_time(START),
            },
        }
    ]
    stage.look()
    assert stage.status["lastCheckpointImage"] == "registry.example.com/ck:1"
    assert stage.status["lastCheckpointTime"] == format_time(START)
    assert stage.entry()["lastCheckpointImage"] == "registry.example.com/ck:1"


def test_machines_of_several_clouds_are_compared_by_price() -> None:
    cloud = vm("cloud")
    cloud["spec"] = {"vmImage": "i", "gcp": GCP}
    offers = [("us-central1-a", "Spot", 0.4), ("us-central1-b", "Spot", 0.2)]
    cloud["status"]["offers"] = [
        {
            "cloud": "gcp",
            "region": "us-central1",
            "zone": zone,
            "machineType": "n1-standard-4",
            "provisioningModel": model,
            "pricePerHour": price,
            "hazardPerHour": 0.05,
        }
        for zone, model, price in offers
    ]
    made = job(spec={"alternativeVMRefs": [{"name": "cloud"}]})
    made["spec"]["checkpointConfig"]["checkpointStorage"] = {"type": "gcs", "bucket": "b"}
    stage = Stage(made, vm(), cloud).look()
    assert (stage.wishes[0]["vm"], stage.wishes[0]["zone"]) == ("cloud", "us-central1-b")
    market = Market(stage.world())
    assert offer_of(stage.wishes[0], market).published_hazard == 0.05
    assert market.on_demand_price("n1-standard-4", "gcp") is None
    unknown = offer_of({"cloud": "aws", "provisioningModel": "OnDemand"}, market)
    assert not unknown.spot


def test_memory_is_told_what_happened_once() -> None:
    stage = Stage(job()).running()
    market, memory = Market(stage.world()), Memory()
    placement = stage.wishes[0]
    place = offer_of(placement, market).place
    news = [News("Refused", "", placement=placement, reason="StockOut")]
    assert learn(memory, news, market, now=START)
    assert memory.blocks.blocked(place, START + 1)
    assert learn(memory, [News("Given", "", placement=placement)], market, now=START)
    assert not memory.blocks.blocked(place, START + 1)
    odd = [
        News("Started", "", placement=placement),
        News("Refused", "", placement=placement, reason="Odd"),
        News("Succeeded", ""),
    ]
    assert not learn(memory, odd, market, now=START)


def test_uptimes_are_told_once_and_end_with_the_machine() -> None:
    stage = Stage(job()).running()
    uptimes = Uptimes()
    assert list(uptimes.since(stage.job, now=START)) == []
    ((placement, seconds),) = uptimes.since(stage.job, now=START + 60)
    assert (placement["instance"], seconds) == (stage.wishes[0]["instance"], 60)
    stage.end(stage.wishes[0]["instance"])
    stage.look()
    assert list(uptimes.since(stage.job, now=START + 120)) == []


def test_which_jobs_a_change_concerns() -> None:
    stage = Stage(job()).running()

    class Jobs:
        store = (stage.job,)

    of_vm, of_node = mappers(Jobs())  # type: ignore[arg-type]
    here, elsewhere = vm(), vm("elsewhere")
    node = {"metadata": {"name": stage.entry()["nodeName"]}}
    assert list(of_vm(_change(here))) == ["team/digits"]
    assert list(of_vm(_change(elsewhere))) == []
    assert list(of_node(_change(node))) == ["team/digits"]
    beat = {**node, "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "x"}]}}
    assert not node_matters(_change(beat, node))
    tainted = {**node, "spec": {"taints": [{"key": "a"}]}}
    assert node_matters(_change(tainted, node))
    assert node_matters(_change(node))


def _change(new: Obj, old: Obj | None = None) -> Change:
    return Change("key", old, new)


def test_figures_for_prometheus() -> None:
    registry = CollectorRegistry()
    metrics = JobMetrics(registry)
    stage = Stage(job()).running()
    metrics.told(stage.job, stage.news, now=START)
    metrics.shown(stage.job, stage.status)
    place = {"cloud": "local", "zone": "local-a", "machine_type": "local", "model": "Spot"}
    of_job = {"namespace": "team", "job": "digits"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("corral_spot_machine_events_total", **place, event="given") == 1
    assert value("corral_spot_active_copies", **of_job) == 1
    first = stage.wishes[0]["instance"]
    stage.news.clear()
    stage.end(first)
    stage.look()
    metrics.told(stage.job, stage.news, now=START + 1)
    stage.news.clear()
    stage.running()
    metrics.told(stage.job, stage.news, now=START + 4)
    assert value("corral_spot_recovery_seconds_sum") == 3.0
    metrics.gone("team", "digits")
    metrics.gone("team", "never-shown")
    assert value("corral_spot_active_copies", **of_job) is None


def test_a_copy_that_cannot_start_says_why() -> None:
    stage = Stage(job()).running()
    pod = stage.pod()
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    pod["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "state": {"waiting": waiting}}],
    }
    stage.look()
    assert "ErrImagePull: no such image" in stage.status["message"]

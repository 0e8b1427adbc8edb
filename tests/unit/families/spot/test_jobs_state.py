"""The life of a spot job, step by step: machines, copies, notices, losses, ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
from spot_jobs_stage import START, Stage, job, vm

from corral.families.spot.jobs.replicas import attempt_of
from tests.support.matrix import seeds

Obj = dict[str, Any]


def kinds(stage: Stage) -> list[str]:
    return [news.kind for news in stage.news]


AHEAD = 730 * 86400.0
"""Seconds by which a clock is wrong."""


def test_a_job_asks_for_machines_starts_copies_and_ends() -> None:
    stage = Stage(job(spec={"replicas": 2})).look()
    assert [p["replica"] for p in stage.wishes] == [0, 1]
    assert stage.status["phase"] == "Pending"
    assert "2 of 2 machines are on their way" in stage.status["message"]
    assert stage.jobs == {}
    stage.make()
    stage.look()
    assert sorted(stage.jobs) == ["digits-replica-0-1", "digits-replica-1-2"]
    assert [p["readyTime"] is not None for p in stage.wishes] == [True, True]
    stage.run_pods()
    stage.look()
    assert (stage.status["phase"], stage.status["activeReplicas"]) == ("Running", 2)
    stage.now += 60
    stage.exit(0, replica=1)
    stage.look()
    assert stage.status["phase"] == "Succeeded"
    assert stage.wishes == []
    assert {p["endReason"] for p in stage.status["placements"]} == {"Finished"}
    assert list(stage.jobs) == ["digits-replica-1-2"], "the other copy is stopped"
    stage.look()
    assert stage.last.starts == []
    assert stage.status["cost"]["losses"] == 0


def test_a_lost_machine_is_replaced_at_once_and_its_copy_starts_anew() -> None:
    stage = Stage(job()).running()
    (first,) = [p["instance"] for p in stage.wishes]
    stage.now += 100
    stage.end(first)
    stage.look()
    assert stage.placement(first)["endReason"] == "Lost"
    (second,) = [p["instance"] for p in stage.wishes]
    assert second != first
    assert stage.last.pods and stage.last.pods[0][1] == 0, "nobody there could end the pod"
    assert stage.status["phase"] == "Restarting"
    assert stage.status["cost"]["losses"] == 1
    assert stage.status["cost"]["lostWorkSeconds"] == 100
    stage.make()
    stage.look()
    stage.run_pods()
    stage.look()
    assert stage.status["phase"] == "Running"
    assert stage.entry()["attempt"] == 2
    assert stage.entry()["nodeName"] == second


def test_work_that_another_copy_goes_on_with_is_not_lost() -> None:
    stage = Stage(job(spec={"replicas": 2})).running()
    stage.now += 50
    stage.end(stage.wishes[0]["instance"])
    stage.look()
    assert stage.status["cost"]["lostWorkSeconds"] == 0
    assert stage.status["phase"] == "Running"


@pytest.mark.parametrize("reason", ["StockOut", "QuotaExceeded", "AccountRefused", "BadRequest"])
def test_a_refused_place_is_not_asked_again_soon(reason: str) -> None:
    stage = Stage(job(), vm(zones=["local-b"])).look()
    (first,) = stage.wishes
    stage.end(first["instance"], reason)
    stage.look()
    assert stage.placement(first["instance"])["endReason"] == "Refused"
    if reason in ("QuotaExceeded", "AccountRefused"):  # both zones are of one region and cloud
        assert stage.wishes == []
        assert "waits" in stage.status["message"]
        assert stage.outcome.review_at > stage.now
    else:
        assert [p["zone"] for p in stage.wishes] == ["local-b"]
    assert stage.status["cost"]["losses"] == 0
    assert "Refused" in kinds(stage)


def test_copies_are_not_in_one_zone_where_that_costs_about_the_same() -> None:
    stage = Stage(job(spec={"replicas": 3}), vm(zones=["local-b"])).look()
    assert [p["zone"] for p in stage.wishes] == ["local-a", "local-b", "local-a"]
    made = vm(zones=["local-b"])
    place = {"cloud": "local", "region": "local", "machineType": "local"}
    made["status"]["offers"] = [
        {**place, "zone": zone, "provisioningModel": "Spot", "pricePerHour": price}
        for zone, price in (("local-a", 1.0), ("local-b", 1.5))
    ]
    dear = Stage(job(spec={"replicas": 2}), made).look()
    assert [p["zone"] for p in dear.wishes] == ["local-a", "local-a"]


def test_machines_of_this_computer_are_asked_for_again_after_seconds() -> None:
    stage = Stage(job()).look()
    stage.end(stage.wishes[0]["instance"], "StockOut")
    stage.look()
    assert stage.wishes == []
    assert stage.outcome.review_at <= stage.now + 5
    stage.now += 5
    assert len(stage.look().wishes) == 1


def test_on_a_notice_a_machine_is_asked_for_and_the_copy_saves_before_the_end() -> None:
    stage = Stage(job()).running()
    (first,) = [p["instance"] for p in stage.wishes]
    stage.notice(first, 30)
    stage.look()
    assert len(stage.wishes) == 2
    assert stage.entry()["phase"] == "Running", "it trains until the other machine is ready"
    stage.make()
    stage.look()
    assert stage.entry()["phase"] == "Stopping"
    ((_, grace),) = stage.last.pods
    assert 1 <= grace <= 30
    stage.exit(143)
    stage.look()
    assert stage.placement(first)["endReason"] == "Lost"
    assert stage.entry()["attempt"] == 2
    assert stage.entry()["nodeName"] == stage.wishes[0]["instance"] != first
    assert stage.status["cost"]["lostWorkSeconds"] == 0
    assert stage.status.get("failures") is None


def test_without_another_machine_the_copy_is_told_just_before_the_end() -> None:
    stage = Stage(job()).running()
    (first,) = [p["instance"] for p in stage.wishes]
    stage.notice(first, 30)
    stage.look()
    assert stage.outcome.review_at < stage.now + 30
    stage.now = stage.outcome.review_at
    stage.look()
    assert stage.entry()["phase"] == "Stopping"


def test_a_notice_that_is_too_short_lets_the_copy_train_on() -> None:
    stage = Stage(job()).running()
    stage.notice(stage.wishes[0]["instance"], 1)
    stage.look()
    assert stage.entry()["phase"] == "Running"
    assert len(stage.wishes) == 2
    assert stage.last.pods == []


def test_a_checkpoint_that_does_not_fit_is_not_begun() -> None:
    spec = {"placement": {"checkpointGiB": 200}}
    stage = Stage(job(spec=spec)).running()
    first = stage.wishes[0]["instance"]
    stage.notice(first, 30)
    for _ in range(4):
        stage.look()
        assert stage.entry()["phase"] == "Running"
        stage.now += 8
    stage.make()
    stage.look()
    assert stage.entry()["phase"] == "Stopping", "there is a better place to be"


def test_a_live_copy_is_asked_for_a_checkpoint_when_another_is_about_to_go() -> None:
    stage = Stage(job(spec={"replicas": 2})).running()
    dying = stage.wishes[0]["instance"]
    stage.notice(dying, 30)
    stage.look()
    assert stage.status["checkpointRequest"]["replica"] == 1
    ((pod, request),) = stage.last.requests
    assert request == dying
    assert pod["metadata"]["name"] == stage.pod(1)["metadata"]["name"]
    pod["metadata"]["annotations"] = {"training.dcnlab.com/checkpoint-request": request}
    assert stage.look().last.requests == []
    assert kinds(stage).count("Noticed") == 1


def test_a_copy_that_fails_is_tried_again_until_the_limit() -> None:
    stage = Stage(job(backoffLimit=1)).running()
    stage.exit(3)
    stage.look()
    assert stage.status["failures"] == 1
    assert len(stage.jobs) == 1, "not at once"
    stage.now = stage.outcome.review_at + 1
    stage.look()
    assert len(stage.jobs) == 2
    assert len(stage.wishes) == 1, "the machine is as good as before"
    stage.run_pods()
    stage.look()
    stage.exit(3)
    stage.look()
    assert stage.status["phase"] == "Failed"
    assert "exit code 3" in stage.status["message"]
    assert stage.wishes == []


def test_a_copy_that_a_wrong_clock_saw_fail_is_tried_again() -> None:
    """The clock was two years ahead when it failed, and is right again."""
    stage = Stage(job()).look()
    stage.make()
    stage.look().run_pods()
    stage.now += AHEAD
    stage.exit(3)
    stage.now -= AHEAD
    stage.look()
    assert stage.entry()["phase"] == "Failed"
    stage.now += stage.settings.retry + 1
    assert stage.look().entry()["attempt"] == 2


def test_a_job_that_a_wrong_clock_began_runs_too_long() -> None:
    stage = Stage(job(activeDeadlineSeconds=100))
    stage.now += AHEAD
    stage.look()
    stage.now -= AHEAD
    assert stage.look().outcome.review_at <= stage.now + 100
    stage.now += 99
    assert stage.look().status["phase"] != "Failed"
    stage.now += 1
    assert stage.look().status["message"] == "it ran for longer than 100 s"


def test_a_machine_is_thought_about_though_a_wrong_clock_did_so_last() -> None:
    stage = Stage(job()).look()
    stage.make()
    stage.look().run_pods()
    stage.now += AHEAD
    stage.look()
    assert stage.reviews[0] > stage.now
    stage.now -= AHEAD
    assert stage.look().reviews[0] == stage.now + 600


def test_a_copy_that_dies_with_its_machine_has_not_failed() -> None:
    stage = Stage(job()).running()
    (first,) = [p["instance"] for p in stage.wishes]
    stage.notice(first, 30)
    stage.exit(137)
    stage.look()
    assert stage.status.get("failures") is None
    assert stage.entry()["phase"] == "Lost"


def test_suspended_jobs_save_and_give_their_machines_back() -> None:
    stage = Stage(job(spec={"replicas": 2})).running()
    stage.job["spec"]["suspend"] = True
    stage.look()
    assert [entry["phase"] for entry in stage.status["jobStatuses"]] == ["Stopping", "Stopping"]
    assert len(stage.wishes) == 2, "machines stay until their copies have saved"
    for replica in (0, 1):
        stage.exit(143, replica)
    stage.look()
    assert stage.wishes == []
    assert stage.status["phase"] == "Suspended"
    stage.job["spec"]["suspend"] = False
    stage.running()
    assert (stage.status["phase"], stage.status["activeReplicas"]) == ("Running", 2)
    assert {entry["attempt"] for entry in stage.status["jobStatuses"]} == {3, 4}


def test_scaling_adds_and_takes_copies() -> None:
    stage = Stage(job()).running()
    stage.job["spec"]["replicas"] = 3
    stage.running()
    assert stage.status["activeReplicas"] == 3
    stage.job["spec"]["replicas"] = 1
    stage.look()
    for replica in (1, 2):
        stage.exit(143, replica)
    stage.look()
    assert [p["replica"] for p in stage.wishes] == [0]
    assert [entry["replica"] for entry in stage.status["jobStatuses"]] == [0]
    assert stage.status["phase"] == "Running"


def test_near_the_deadline_machines_are_on_demand() -> None:
    soon = {"deadline": "2027-01-15T08:30:00Z", "expectedSeconds": 600}
    stage = Stage(job(spec={"placement": {**soon, "onDemand": "Deadline"}})).look()
    assert START < 1_800_001_800.0  # the deadline is half an hour away
    assert stage.wishes[0]["provisioningModel"] == "OnDemand"
    never = Stage(job(spec={"placement": {**soon, "onDemand": "Never"}})).look()
    assert never.wishes[0]["provisioningModel"] == "Spot"
    always = Stage(job(spec={"placement": {"onDemand": "Always"}})).look()
    assert always.wishes[0]["provisioningModel"] == "OnDemand"


def test_costs_and_savings_are_by_the_prices_that_are_told() -> None:
    made = vm()
    place = {"cloud": "local", "region": "local", "zone": "local-a", "machineType": "local"}
    made["status"]["offers"] = [
        {**place, "provisioningModel": "Spot", "pricePerHour": 1.0},
        {**place, "provisioningModel": "OnDemand", "pricePerHour": 3.0},
    ]
    stage = Stage(job(), made).look()
    assert stage.wishes[0]["pricePerHour"] == 1.0
    stage.make(price=None)
    stage.look()
    stage.run_pods()
    stage.now += 3600
    stage.look()
    cost = stage.status["cost"]
    assert (cost["spot"], cost["total"], cost["onDemandEquivalent"]) == (1.0, 1.0, 3.0)
    assert cost["savingPercent"] == pytest.approx(66.7)
    stage.now += 3600
    stage.look()
    assert stage.status["cost"]["total"] == pytest.approx(2.0), "no second is charged twice"


def test_a_price_that_is_told_later_counts_too() -> None:
    made = vm()
    stage = Stage(job(), made).look()
    assert "pricePerHour" not in stage.wishes[0]
    place = {"cloud": "local", "region": "local", "zone": "local-a", "machineType": "local"}
    made["status"]["offers"] = [{**place, "provisioningModel": "Spot", "pricePerHour": 1.0}]
    stage.make(price=None)
    stage.look()
    stage.now += 1800
    stage.look()
    assert stage.status["cost"]["total"] == pytest.approx(0.5)


def test_without_machines_it_says_what_is_missing() -> None:
    stage = Stage(job(spec={"spotInstanceVMRef": {"name": "nowhere"}})).look()
    assert stage.wishes == []
    assert "there is no SpotInstanceVM nowhere" in stage.status["message"]


def test_the_interval_is_worked_out_where_it_is_auto() -> None:
    made = job()
    made["spec"]["checkpointConfig"]["checkpointInterval"] = "auto"
    assert Stage(made).look().status["checkpointIntervalSeconds"] > 0


def test_with_an_autoscaler_copies_are_made_without_machines() -> None:
    stage = Stage(job(spec={"replicas": 2, "placement": {"provisioner": "External"}})).look()
    assert stage.wishes == []
    assert len(stage.jobs) == 2
    pod = stage.jobs["digits-replica-0-1"]["spec"]["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart[0]["topologyKey"] == "kubernetes.io/hostname"
    stage.nodes["somewhere"] = {"metadata": {"name": "somewhere"}}
    stage.run_pods()
    stage.look()
    assert stage.status["phase"] == "Running"
    assert stage.entry()["nodeName"] == "somewhere"
    stage.nodes["somewhere"]["spec"] = {"taints": [{"key": "karpenter.sh/disrupted"}]}
    stage.look()
    assert stage.entry()["phase"] == "Stopping"
    for replica in (0, 1):
        stage.exit(143, replica)
    stage.look()
    assert {entry["attempt"] for entry in stage.status["jobStatuses"]} == {3, 4}


def test_an_autoscaled_node_that_is_gone_takes_its_copy_along() -> None:
    stage = Stage(job(spec={"placement": {"provisioner": "External"}})).look()
    stage.nodes["somewhere"] = {"metadata": {"name": "somewhere"}}
    stage.run_pods()
    stage.look()
    del stage.nodes["somewhere"]
    stage.look()
    assert stage.entry()["attempt"] == 2
    assert stage.last.pods[0][1] == 0


@pytest.mark.parametrize("seed", seeds(25, always=6))
def test_whatever_happens_the_job_ends_and_leaves_no_machine(seed: int) -> None:
    """Losses, notices, refusals and failures in any order, and a controller that is killed."""
    rng = random.Random(seed)
    stage = Stage(job(spec={"replicas": 2}, backoffLimit=1000), vm(zones=["local-b", "local-c"]))
    attempts: set[tuple[int, int]] = set()
    for _ in range(60):
        stage.now += rng.choice([0.1, 1.0, 30.0, 400.0])
        stage.look(killed=rng.random() < 0.3)
        for made in stage.jobs.values():
            attempts.add((attempt_of(made), id(made)))
        live = [p["instance"] for p in stage.wishes if p["instance"] in stage.nodes]
        what = rng.random()
        if what < 0.2 and live:
            stage.end(rng.choice(live), rng.choice(["Lost", "Preempted"]))
        elif what < 0.3 and live:
            stage.notice(rng.choice(live), rng.choice([0.5, 5, 30]))
        elif what < 0.4 and stage.wishes:
            waiting = [p["instance"] for p in stage.wishes if p["instance"] not in stage.nodes]
            if waiting:
                stage.end(rng.choice(waiting), rng.choice(["StockOut", "NotJoined", "Lost"]))
        elif what < 0.5:
            ready = [e for e in stage.status.get("jobStatuses", ()) if e["phase"] == "Running"]
            if ready and f"{ready[0]['name']}-x" in stage.pods:
                stage.exit(rng.choice([1, 137, 143]), ready[0]["replica"])
        else:
            stage.make()
            stage.run_pods()
            for entry in stage.status.get("jobStatuses", ()):
                pod = stage.pods.get(f"{entry['name']}-x")
                if pod and pod["metadata"].get("deletionTimestamp") and entry["name"] in stage.jobs:
                    stage.exit(143, entry["replica"])
    for _ in range(40):
        stage.now += 400.0
        stage.look()
        stage.make()
        stage.run_pods()
        for entry in stage.status["jobStatuses"]:
            pod = stage.pods.get(f"{entry['name']}-x")
            if pod and pod["metadata"].get("deletionTimestamp") and entry["name"] in stage.jobs:
                stage.exit(143, entry["replica"])
    stage.look()
    assert (stage.status["phase"], stage.status["activeReplicas"]) == ("Running", 2)
    assert len(stage.wishes) == 2
    stage.exit(0, replica=0)
    stage.look()
    stage.make()
    assert stage.status["phase"] == "Succeeded"
    alive = [e for v in stage.vms.values() for e in v["status"]["provisionedInstances"]]
    assert [e["name"] for e in alive if e["state"] != "TERMINATED"] == []
    assert len({attempt for attempt, _ in attempts}) == len(attempts), "no attempt is used twice"

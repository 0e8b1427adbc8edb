"""What is next for a backup; which images a job has, needs, and keeps."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.spot.backup import CheckpointBackupSpec
from corral.api.spot.kinds import BACKUP_FINALIZER, JOB_LABEL, REPLICA_LABEL
from corral.families.spot.backups.restores import (
    backup_for,
    backup_name,
    due,
    expendable,
    images_of,
    next_number,
)
from corral.families.spot.backups.state import Expired, Go, Over, Wait, next_step
from corral.kube.types import Obj
from corral.runtime.keys import format_time
from corral.runtime.owners import set_controller
from corral.runtime.sightings import Sightings

NOON = 1_800_000_000.0 - 1_800_000_000.0 % 3600


def backup(schedule: str = "immediately", *, made: float = NOON, **status: Any) -> Obj:
    return {
        "metadata": {"name": "b", "creationTimestamp": format_time(made)},
        "spec": {"schedule": schedule},
        "status": status,
    }


def spec(schedule: str = "immediately", *, seconds: int = 60) -> CheckpointBackupSpec:
    return CheckpointBackupSpec(schedule=schedule, timeout_seconds=seconds)


class TestOnce:
    def test_a_new_one_is_begun(self) -> None:
        assert next_step(backup(), spec(), NOON) == Go()

    def test_one_that_was_begun_is_gone_on_with(self) -> None:
        begun = backup(phase="Checkpointing", startTime=format_time(NOON))
        assert next_step(begun, spec(), NOON + 59) == Go(NOON)

    def test_one_that_a_wrong_clock_began_takes_too_long(self) -> None:
        ahead, known = NOON + 730 * 86400, Sightings()
        begun = backup(phase="ImagePushing", startTime=format_time(ahead))
        assert next_step(begun, spec(), NOON, sightings=known) == Go(ahead)
        assert next_step(begun, spec(), NOON + 59, sightings=known) == Go(ahead)
        assert next_step(begun, spec(), NOON + 60, sightings=known) == Expired()

    def test_one_that_takes_too_long_has_failed(self) -> None:
        begun = backup(phase="ImagePushing", startTime=format_time(NOON))
        assert next_step(begun, spec(), NOON + 60) == Expired()

    @pytest.mark.parametrize(
        "phase", ["Completed", "CompletedPodDeleted", "CompletedWithError", "Failed"]
    )
    def test_the_end_is_the_end(self, phase: str) -> None:
        ended = backup(phase=phase, startTime=format_time(NOON))
        assert next_step(ended, spec(), NOON + 10_000) == Over()


class TestSchedule:
    HOURLY = "0 * * * *"

    def test_the_first_time_is_waited_for(self) -> None:
        made = backup(self.HOURLY, made=NOON + 600)
        assert next_step(made, spec(self.HOURLY), NOON + 1200) == Wait(2400.0)
        assert next_step(made, spec(self.HOURLY), NOON + 3600) == Go()

    def test_every_end_is_followed_by_the_next_time(self) -> None:
        for phase in ("Completed", "Failed"):
            ended = backup(self.HOURLY, phase=phase, startTime=format_time(NOON))
            assert next_step(ended, spec(self.HOURLY), NOON + 600) == Wait(3000.0)
            assert next_step(ended, spec(self.HOURLY), NOON + 3600) == Go()

    def test_what_was_missed_is_made_up_for_once(self) -> None:
        ended = backup(self.HOURLY, phase="Completed", startTime=format_time(NOON))
        assert next_step(ended, spec(self.HOURLY), NOON + 5 * 3600) == Go()
        again = backup(self.HOURLY, phase="Completed", startTime=format_time(NOON + 5 * 3600))
        assert next_step(again, spec(self.HOURLY), NOON + 5 * 3600 + 5) == Wait(3595.0)

    def test_a_run_that_is_stuck_fails_and_the_next_one_comes(self) -> None:
        stuck = backup(self.HOURLY, phase="Checkpointing", startTime=format_time(NOON))
        assert next_step(stuck, spec(self.HOURLY), NOON + 61) == Expired()


# --- spot jobs -----------------------------------------------------------------------------------


def job(**config: Any) -> Obj:
    return {
        "apiVersion": "training.training.dcnlab.com/v1alpha1",
        "kind": "SpotInstanceJob",
        "metadata": {"name": "digits", "namespace": "team", "uid": "uid-1"},
        "spec": {
            "checkpointConfig": {
                "checkpointImageRepo": "registry.example.com/team/checkpoints",
                "checkpointInterval": "10m",
                "engine": "Directory",
                "directory": "/work",
                "keep": 2,
                **config,
            },
        },
    }


def pod(replica: int, *, started: float = NOON, phase: str = "Running") -> Obj:
    return {
        "metadata": {
            "name": f"digits-{replica}",
            "namespace": "team",
            "labels": {JOB_LABEL: "digits", REPLICA_LABEL: str(replica)},
        },
        "spec": {"nodeName": f"node-{replica}", "containers": [{"name": "trainer"}]},
        "status": {
            "phase": phase,
            "startTime": format_time(started),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def made(number: int, *, at: float = NOON, phase: str = "Completed", **more: Any) -> Obj:
    found = backup_for(job(), pod(0), number, **more)
    set_controller(found, job())
    found["status"] = {"phase": phase, "startTime": format_time(at)}
    if phase == "Completed":
        found["status"] |= {
            "checkpointImage": f"r/c:{number}",
            "lastCheckpointTime": format_time(at),
        }
    return found


class TestDue:
    def test_the_program_saves_itself(self) -> None:
        assert due(job(engine="Application"), [pod(0)], [], NOON + 9999).pod is None

    def test_one_interval_after_the_start(self) -> None:
        early = due(job(), [pod(0), pod(1)], [], NOON + 599)
        assert early.pod is None and early.wait == 1.0
        found = due(job(), [pod(1), pod(0)], [], NOON + 600)
        assert found.pod is not None and found.pod["metadata"]["name"] == "digits-0"

    def test_one_interval_after_the_last(self) -> None:
        backups = [made(1, at=NOON + 600)]
        assert due(job(), [pod(0)], backups, NOON + 1199).wait == 1.0
        assert due(job(), [pod(0)], backups, NOON + 1200).pod is not None

    def test_one_interval_after_a_wrong_clock_was_set_right(self) -> None:
        backups, known = [made(1, at=NOON + 730 * 86400)], Sightings()
        assert due(job(), [pod(0)], backups, NOON, sightings=known).wait == 600.0
        assert due(job(), [pod(0)], backups, NOON + 600, sightings=known).pod is not None

    def test_a_copy_has_one_at_a_time(self) -> None:
        stuck = made(1, phase="Checkpointing")
        assert due(job(), [pod(0)], [stuck], NOON + 9999).pod is None
        assert due(job(), [pod(0), pod(1)], [stuck], NOON + 599).wait == 1.0
        assert due(job(), [pod(0), pod(1)], [stuck], NOON + 9999).pod == pod(1)

    def test_one_of_a_copy_that_is_gone_holds_up_nothing(self) -> None:
        gone = made(1, phase="ImagePushing")
        gone["spec"]["podName"] = "digits-gone"
        assert due(job(), [pod(0)], [gone], NOON + 9999).pod == pod(0)

    def test_one_that_has_not_begun_counts_from_when_it_was_made(self) -> None:
        new = made(1, phase="")
        new["status"] = {}
        new["metadata"]["creationTimestamp"] = format_time(NOON + 600)
        assert due(job(), [pod(0), pod(1)], [new], NOON + 601).wait == 599.0

    def test_only_live_ones(self) -> None:
        gone = pod(0, phase="Succeeded")
        assert due(job(), [gone, pod(1)], [], NOON + 600).pod == pod(1)
        assert due(job(), [gone], [], NOON + 600).pod is None

    def test_a_request_does_not_wait_for_another(self) -> None:
        asked = job()
        asked["status"] = {"checkpointRequest": {"id": "now-1", "replica": 1}}
        stuck = made(1, phase="Checkpointing")
        found = due(asked, [pod(0), pod(1)], [stuck], NOON)
        assert found.pod == pod(1) and found.request == "now-1"
        answered = made(2, phase="Checkpointing", request="now-1")
        assert due(asked, [pod(0), pod(1)], [stuck, answered], NOON).pod is None


class TestImages:
    def test_newest_first_and_only_good_ones(self) -> None:
        backups = [
            made(1, at=NOON),
            made(3, at=NOON + 2),
            made(2, at=NOON + 1),
            made(4, at=NOON + 3, phase="Failed"),
        ]
        assert images_of(job(), backups) == ["r/c:3", "r/c:2", "r/c:1"]

    def test_those_of_another_job_are_not_its(self) -> None:
        stranger = made(1)
        stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-0"
        assert images_of(job(), [stranger]) == []

    def test_as_many_as_are_kept(self) -> None:
        backups = [made(number) for number in range(1, 5)]
        gone = expendable(job(), backups)
        assert [each["metadata"]["name"] for each in gone] == ["digits-backup-2", "digits-backup-1"]

    def test_failures_take_no_place_of_good_ones(self) -> None:
        bad = [made(number, phase="Failed") for number in range(3, 10)]
        gone = expendable(job(), [made(1), made(2), *bad])
        assert {each["metadata"]["name"] for each in gone} == {
            f"digits-backup-{number}" for number in range(3, 7)
        }

    def test_numbers_go_on(self) -> None:
        assert next_number(job(), []) == 1
        assert next_number(job(), [made(1), made(7)]) == 8


class TestBackup:
    def test_what_it_asks_for(self) -> None:
        config = {"checkpointRepoCredentialRef": {"name": "login"}, "timeoutSeconds": 90}
        found = backup_for(job(**config), pod(0), 3, request="now-1")
        assert found["metadata"]["finalizers"] == [BACKUP_FINALIZER]
        assert found["spec"] == {
            "podName": "digits-0",
            "nodeName": "node-0",
            "imageRepo": "registry.example.com/team/checkpoints",
            "engine": "Directory",
            "directory": "/work",
            "timeoutSeconds": 90,
            "immediate": True,
            "imageRepoCredentials": {"name": "login"},
        }

    def test_names_are_short(self) -> None:
        long = job()
        long["metadata"]["name"] = "x" * 200
        assert len(backup_name(long, 12)) == 63

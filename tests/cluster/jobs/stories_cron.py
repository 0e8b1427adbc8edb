"""Cron jobs, as far as they can be seen without waiting for the clock; and one that waits."""

from __future__ import annotations

import re
from typing import Any

from tests.cluster.jobs.stage import Obj, Stage, job_body, phase_of, plain, told_job
from tests.cluster.jobs.telling import story

NEW_YEAR = "0 0 1 1 *"


def make(stage: Stage, schedule: str = NEW_YEAR, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"from": "tick"}}, "spec": job_body("")["spec"]}
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }
    return stage.create("cronjobs", body)


def run_now(stage: Stage, cron_job: Obj, name: str) -> None:
    """What ``kubectl create job NAME --from=cronjob/tick`` sends."""
    template = cron_job["spec"]["jobTemplate"]
    meta = cron_job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    annotations = {"cronjob.kubernetes.io/instantiate": "manual"}
    labels = template["metadata"]["labels"]
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }
    stage.create("jobs", body)


def end(stage: Stage, name: str, *, well: bool = True) -> None:
    """The pod of a job starts and ends."""

    def pods() -> list[Obj]:
        return [
            pod
            for pod in stage.active()
            if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == name
        ]

    found = stage.wait(pods, f"a pod of {name}")
    (stage.succeed if well else stage.fail)(*found)
    kind = "Complete" if well else "Failed"
    stage.wait(
        lambda: (
            any(
                c["type"] == kind
                for c in ((stage.find("jobs", name) or {}).get("status") or {}).get(
                    "conditions", ()
                )
            )
            or stage.find("jobs", name) is None
        ),
        f"{name} ends",
    )


def told(stage: Stage) -> Any:
    cron_job = stage.find("cronjobs", "tick")
    status = (cron_job or {}).get("status") or {}
    jobs = sorted(stage.all("jobs"), key=lambda job: job["metadata"]["name"])
    return {
        "active": [
            {k: plain(v) for k, v in ref.items() if k in ("apiVersion", "kind", "name")}
            for ref in status.get("active", ())
        ],
        "times": [k for k in ("lastScheduleTime", "lastSuccessfulTime") if status.get(k)],
        "jobs": {plain(job["metadata"]["name"]): _told_child(job) for job in jobs},
        "pods": sorted(phase_of(pod) for pod in stage.all("pods")),
    }


def _told_child(job: Obj) -> Any:
    meta = job["metadata"]
    stamps = {
        key: re.sub(r"\d", "9", value) for key, value in (meta.get("annotations") or {}).items()
    }
    owners = [{k: v for k, v in o.items() if k != "uid"} for o in meta.get("ownerReferences", ())]
    labels = meta.get("labels", {})
    return {"status": told_job(job), "annotations": stamps, "owners": owners, "labels": labels}


@story
def a_run_by_hand(stage: Stage) -> None:
    run_now(stage, make(stage), "now")
    end(stage, "now")
    status = stage.wait(
        lambda: (stage.find("cronjobs", "tick") or {}).get("status", {}).get("lastSuccessfulTime")
    )
    assert status
    stage.mark_other("done", lambda: told(stage))


@story
def a_short_history(stage: Stage) -> None:
    cron_job = make(stage, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    cron_job["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0
    for name, well in (("first", True), ("second", True), ("third", False)):
        run_now(stage, cron_job, name)
        end(stage, name, well=well)
        stage.quiet(1.1)  # start times are whole seconds
    stage.wait(lambda: len(stage.all("jobs")) == 1)
    stage.wait(lambda: len(stage.all("pods")) == 1)
    stage.mark_other("one is kept", lambda: told(stage))


@story
def a_suspended_cron_job(stage: Stage) -> None:
    make(stage, "* * * * *", suspend=True)
    stage.quiet()
    stage.mark_other("nothing", lambda: told(stage))


@story
def a_cron_job_is_deleted(stage: Stage) -> None:
    run_now(stage, make(stage), "now")
    stage.wait(stage.active)
    stage.delete("cronjobs", "tick", propagationPolicy="Background")
    stage.wait(lambda: not stage.all("jobs") and not stage.all("pods"))
    stage.mark_other("all gone", lambda: told(stage))


@story
def every_minute(stage: Stage) -> None:
    """The only one that waits for the clock."""
    make(stage, "* * * * *", timeZone="Asia/Kolkata", concurrencyPolicy="Forbid")
    stage.wait(lambda: stage.all("jobs"), "a minute passes", limit=90)
    stage.wait(lambda: (stage.find("cronjobs", "tick") or {}).get("status", {}).get("active"))
    stage.wait(stage.active)
    stage.mark_other("begun", lambda: told(stage))
    end(stage, stage.all("jobs")[0]["metadata"]["name"])
    stage.wait(
        lambda: (stage.find("cronjobs", "tick") or {}).get("status", {}).get("lastSuccessfulTime")
    )
    stage.patch("cronjobs", "tick", {"spec": {"suspend": True}})
    stage.mark_other("done", lambda: told(stage))

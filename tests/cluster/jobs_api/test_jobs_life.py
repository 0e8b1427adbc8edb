"""Jobs that really run: followed, changed, restarted and explained."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from corral.client import Jobs, errors
from corral.client.events import event_time
from corral.kube.resources import RESOURCEQUOTAS
from tests.cluster.jobs_api.manifests_of_jobs import Obj, all_told, mpi, training
from tests.cluster.trainingjob.operating import Operator

KIND = "trainingjobs"
SECONDS = 60.0


async def test_every_phase_is_seen_and_the_end_is_summed_up(
    jobs: Jobs, namespace: str, operator: Operator
) -> None:
    script = "until [ -e go-$CORRAL_REPLICA ]; do sleep 0.05; done; rm go-$CORRAL_REPLICA"
    await jobs.create(KIND, namespace, training("good", script, replicas=2))
    phases: list[str] = []
    versions: list[str] = []
    watch = jobs.watch(KIND, namespace, "good")
    async with asyncio.timeout(2 * SECONDS), aclosing(watch) as changes:
        async for change in changes:
            versions.append(change.resource_version)
            if change.phase == "Running" and phases[-1:] != ["Running"]:
                phases.append("Running")
                for index in (0, 1):
                    touch = ["touch", f"go-{index}"]
                    await jobs.client.run(f"good-{index}", touch, namespace=namespace)
            elif phases[-1:] != [change.phase]:
                phases.append(change.phase)
            if change.phase == "Succeeded":
                break
    assert phases == ["Pending", "Running", "Succeeded"]
    watch = jobs.watch(KIND, namespace, "good", since=versions[0])
    async with asyncio.timeout(SECONDS), aclosing(watch) as changes:
        again = [(await anext(changes)).resource_version for _ in versions[1:]]
    assert again == versions[1:]

    found = await jobs.summary(KIND, namespace, "good")
    assert found.phase == "Succeeded" and found.duration_seconds is not None
    (replicas,) = found.replicas
    assert (replicas.role, replicas.desired, replicas.succeeded) == ("replica", 2, 2)
    assert [(pod.name, pod.role.index) for pod in found.pods] == [("good-0", 0), ("good-1", 1)]
    assert found.as_object()["completionTime"] >= found.as_object()["startTime"]
    told = await all_told(jobs, KIND, namespace, "good", last="Succeeded")
    assert {"Started", "Succeeded"} <= {event["reason"] for event in told}
    assert told == sorted(told, key=event_time)
    assert {event["involvedObject"]["kind"] for event in told} >= {"TrainingJob", "Pod"}
    assert "did what it should" in (await jobs.explain(KIND, namespace, "good")).headline


async def test_waiting(jobs: Jobs, namespace: str, operator: Operator) -> None:
    await jobs.create(KIND, namespace, training("brief"))
    done = await jobs.wait(KIND, namespace, "brief", "succeeded", timeout=SECONDS)
    assert done["status"]["phase"] == "Succeeded"
    with pytest.raises(errors.NeverHappens, match="is Succeeded and will not be Failed"):
        await jobs.wait(KIND, namespace, "brief", "Failed", timeout=SECONDS)
    with pytest.raises(errors.BadRequest, match="is ever in phase"):
        await jobs.wait(KIND, namespace, "brief", "Finished", timeout=SECONDS)
    with pytest.raises(errors.WaitTimeout, match="was not as it was waited for"):
        await jobs.wait(KIND, namespace, "brief", lambda obj: False, timeout=0.3)
    await jobs.delete(KIND, namespace, "brief")
    await jobs.wait(KIND, namespace, "brief", "Deleted", timeout=SECONDS)
    with pytest.raises(errors.NotFound):
        await jobs.wait(KIND, namespace, "brief", "Succeeded", timeout=SECONDS)


async def test_suspended_resumed_and_scaled(jobs: Jobs, namespace: str, operator: Operator) -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 3}
    job = training("pause", "trap 'exit 0' TERM; sleep 1000 & wait", replicas=1, elastic=elastic)
    await jobs.create(KIND, namespace, job)
    await jobs.wait(KIND, namespace, "pause", "Running", timeout=SECONDS)
    with pytest.raises(errors.Conflict, match="only a job that is over"):
        await jobs.restart(KIND, namespace, "pause")
    await jobs.suspend(KIND, namespace, "pause")
    held = await jobs.wait(KIND, namespace, "pause", "Suspended", timeout=SECONDS)
    assert held["spec"]["runPolicy"]["suspend"] is True
    found = await jobs.explain(KIND, namespace, "pause")
    assert found.headline == "TrainingJob pause is suspended."
    assert "`corral resume trainingjob/pause` lets it run" in found.hints
    await jobs.scale(KIND, namespace, "pause", replicas=2)
    await jobs.resume(KIND, namespace, "pause")

    def both_run(obj: dict[str, object]) -> bool:
        status = obj.get("status") or {}
        assert isinstance(status, dict)
        return status.get("phase") == "Running" and status["replicas"]["active"] == 2

    await jobs.wait(KIND, namespace, "pause", both_run, timeout=SECONDS)
    assert "is running" in (await jobs.explain(KIND, namespace, "pause")).headline
    with pytest.raises(errors.Invalid):
        await jobs.scale(KIND, namespace, "pause", replicas=-1)
    with pytest.raises(errors.NotSupported, match="cannot be suspended"):
        await jobs.suspend("spotinstancevms", namespace, "x")
    with pytest.raises(errors.NotSupported):
        await jobs.scale("checkpoints", namespace, "x", replicas=1)
    with pytest.raises(errors.NotSupported):
        await jobs.restart("checkpoints", namespace, "x")


async def test_a_training_that_runs_is_restarted_in_place(
    jobs: Jobs, namespace: str, operator: Operator
) -> None:
    script = "trap 'exit 0' TERM; sleep 1000 & wait"
    made = await jobs.create(KIND, namespace, training("long", script))
    await jobs.wait(KIND, namespace, "long", "Running", timeout=SECONDS)
    again = await jobs.restart(KIND, namespace, "long", force=True)
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    assert again["spec"]["runPolicy"]["suspend"] is False

    def second_attempt(obj: Obj) -> bool:
        return obj["status"].get("phase") == "Running" and obj["status"]["attempt"] == 2

    await jobs.wait(KIND, namespace, "long", second_attempt, timeout=SECONDS)


async def test_a_failed_job_says_why_and_is_restarted(
    jobs: Jobs, namespace: str, operator: Operator
) -> None:
    script = "echo out of luck; exit 7"
    made = await jobs.create(
        KIND, namespace, training("bad", script, runPolicy={"backoffLimit": 0})
    )
    await jobs.wait(KIND, namespace, "bad", "Failed", timeout=SECONDS)
    found = await jobs.explain(KIND, namespace, "bad")
    assert found.headline == "TrainingJob bad failed: replica 0 failed with exit code 7."
    assert "read what it wrote: `corral logs trainingjob/bad`" in found.hints
    with pytest.raises(errors.Conflict, match="cannot be suspended any more"):
        await jobs.suspend(KIND, namespace, "bad")

    again = await jobs.restart(KIND, namespace, "bad")
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert again["metadata"]["labels"] == made["metadata"]["labels"]
    assert again["metadata"]["annotations"]["note"] == "bad"
    assert "corral.dev/restarted-at" in again["metadata"]["annotations"]
    assert again["spec"] == made["spec"]
    ended = await jobs.wait(KIND, namespace, "bad", "Failed", timeout=SECONDS)
    assert ended["metadata"]["uid"] == again["metadata"]["uid"]


async def test_what_jobs_wait_for(jobs: Jobs, namespace: str, operator: Operator) -> None:
    huge = {"requests": {"cpu": "9999"}}
    await jobs.create(KIND, namespace, training("huge", resources=huge, replicas=2))

    def unschedulable(obj: dict[str, object]) -> bool:
        return "Insufficient cpu" in str(obj.get("status"))

    await jobs.wait(KIND, namespace, "huge", unschedulable, timeout=SECONDS)
    found = await jobs.explain(KIND, namespace, "huge")
    assert "a node with enough free cpu" in found.headline, found
    assert any("0/1 nodes are available" in reason for reason in found.reasons), found
    assert any("ask for less cpu" in hint for hint in found.hints), found

    await jobs.create(KIND, namespace, training("odd", image="nobody/knows:1"))
    await jobs.wait(
        KIND, namespace, "odd", lambda obj: "ErrImage" in str(obj.get("status")), timeout=SECONDS
    )
    found = await jobs.explain(KIND, namespace, "odd")
    assert found.headline == "TrainingJob odd cannot get its image."
    assert any("nobody/knows:1" in reason for reason in found.reasons), found

    broken = training("broken")
    broken["spec"]["env"] = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "a"}}}
    ]
    await jobs.create(KIND, namespace, broken)
    await jobs.wait(
        KIND, namespace, "broken", lambda obj: "absent" in str(obj.get("status")), timeout=SECONDS
    )
    found = await jobs.explain(KIND, namespace, "broken")
    assert "cannot be set up" in found.headline, found
    assert any("absent" in reason for reason in found.reasons), found


async def test_a_quota_is_named(jobs: Jobs, namespace: str, operator: Operator) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    await jobs.client.create(RESOURCEQUOTAS, quota, namespace=namespace)
    await jobs.create(KIND, namespace, training("poor"))
    await jobs.wait(
        KIND,
        namespace,
        "poor",
        lambda obj: "exceeded quota" in str(obj.get("status")),
        timeout=SECONDS,
    )
    found = await jobs.explain(KIND, namespace, "poor")
    assert found.headline == "TrainingJob poor waits for room in the quota of its namespace."
    assert any("exceeded quota: small" in reason for reason in found.reasons), found


async def test_nobody_looks_after_it(jobs: Jobs, namespace: str) -> None:
    await jobs.create("mpijobs", namespace, mpi("alone"))
    found = await jobs.explain("mpijobs", namespace, "alone")
    assert found.phase == "Pending"
    assert "just created" in found.headline or "waits for" in found.headline

"""Who may report, what becomes of it, and what pods are told; on the API server."""

from __future__ import annotations

import io

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.families.trainingjob.checkpoints.janitor import janitor_name
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.operator.reports import ReportSettings
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    Pod,
    Stage,
    staged,
    volume_manifest,
)

CLAIM = {"pvc": {"size": "1Gi"}}


async def test_progress_reaches_the_status(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM)
    pod = await stage.pod(job)
    answer = await pod.report(step=1, total=100, epoch=2, metrics={"loss": 0.5, "bad": None})
    assert answer == {
        "checkpointAt": None,
        "checkpointNow": None,
        "delete": [],
        "interval": 600.0,
        "stop": False,
    }
    progress = (await stage.get_job("mnist"))["status"]["progress"]
    assert {name: progress[name] for name in ("step", "totalSteps", "epoch", "percent")} == {
        "step": 1,
        "totalSteps": 100,
        "epoch": 2,
        "percent": 1,
    }
    assert progress["metrics"] == {"loss": 0.5}
    assert "etaSeconds" not in progress
    await pod.report(step=50, total=100, metrics={"accuracy": 0.9})
    await pod.report(step=100, total=100, metrics={"accuracy": 1})
    progress = (await stage.get_job("mnist"))["status"]["progress"]
    assert progress["metrics"] == {"accuracy": 1}
    assert (progress["percent"], progress["etaSeconds"]) == (100, 0)
    assert "epoch" not in progress


async def test_what_waits_is_written_in_the_end(stage: Stage) -> None:
    pod = await stage.pod(await stage.job("mnist", CLAIM))
    for step in range(1, 6):
        await pod.report(step=step)

    async def written() -> bool:
        return (await stage.get_job("mnist"))["status"]["progress"]["step"] == 5

    await stage.until(written)


async def test_only_the_master_makes_progress(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM, replicas=2)
    await (await stage.pod(job, replica=1, world=2)).report(step=9)
    assert "progress" not in (await stage.get_job("mnist"))["status"]


async def test_who_may_report(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM)
    pod = await stage.pod(job)
    other = await stage.job("other", CLAIM)
    stranger = await stage.pod(other)
    made = await stage.client.get(PODS, "mnist-0", namespace=stage.namespace)
    elsewhere = await stage.token(made, audience="somebody-else")
    body = {"step": 1}
    for token, status, said in (
        ("", 401, "send the pod's service-account token"),
        ("nonsense", 401, "the token is not valid"),
        (elsewhere, 401, "the token is not valid"),
        (stranger.token, 403, "other-0 is not a pod of TrainingJob mnist"),
    ):
        found, answer = await pod.post("report", body, token=token)
        assert (found, said in answer["error"]) == (status, True), (token[:10], answer)
    gone = Pod(stage.http, stage.url("nothing"), pod.token)
    assert (await gone.post("report", body))[0] == 404
    abroad = Pod(stage.http, stage.url("mnist").replace(stage.namespace, "default"), pod.token)
    assert (await abroad.post("report", body))[0] == 403
    assert "progress" not in (await stage.get_job("mnist"))["status"]


async def test_a_pod_that_lies_about_its_owner(stage: Stage) -> None:
    """A label alone makes no pod of a job."""
    await stage.job("mnist", CLAIM)
    made = await stage.client.create(
        PODS,
        {
            "metadata": {
                "name": "liar",
                "namespace": stage.namespace,
                "labels": {"trainingjob": "mnist", "replica-id": "0"},
            },
            "spec": {"containers": [{"name": "x", "image": "x"}], "nodeSelector": {"no": "where"}},
        },
    )
    liar = Pod(stage.http, stage.url("mnist"), await stage.token(made))
    assert (await liar.post("report", {"step": 1}))[0] == 403


async def test_malformed_bodies(stage: Stage) -> None:
    pod = await stage.pod(await stage.job("mnist", CLAIM))
    for body in ({"step": -1}, {"metrics": {"loss": "low"}}, {"rejected": [{}]}, []):
        status, answer = await pod.post("report", body)  # type: ignore[arg-type]
        assert (status, bool(answer["error"])) == (400, True), body
    headers = {"Authorization": f"Bearer {pod.token}"}
    large = io.BytesIO(b"x" * (1 << 21))
    async with stage.http.post(f"{pod.url}/report", data=large, headers=headers) as big:
        assert big.status == 413
    async with stage.http.get(f"{pod.url}/report", headers=headers) as wrong:
        assert wrong.status == 405
        assert (await wrong.json())["error"] == "use POST"


async def test_too_many_requests(client: KubeClient, namespace: str) -> None:
    settings = ReportSettings(requests_per_second=3.0)
    async with staged(client, namespace, settings=settings) as stage:
        pod = await stage.pod(await stage.job("mnist", CLAIM))
        found = [(await pod.post("report", {}))[0] for _ in range(10)]
        assert found[0] == 200
        assert 429 in found


async def test_announced_on_a_volume(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM)
    pod = await stage.pod(job)
    manifest = volume_manifest(job, 7, metrics={"loss": 0.25})
    body = {"id": manifest["id"], "manifest": manifest, "duration": 2.0, "request": "now"}
    first = await pod.good("checkpoints", body)
    assert (
        first == await pod.good("checkpoints", body) == {"name": "mnist-000001", "phase": "Ready"}
    )
    found = (await stage.checkpoints())["mnist-000001"]
    assert found["spec"]["uri"] == f"pvc://mnist-checkpoints/{manifest['id']}"
    assert found["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert found["status"] == {"phase": "Ready", "bytes": 3, "durationSeconds": 2.0}
    altered = {**manifest, "step": 8}
    status, answer = await pod.post("checkpoints", {**body, "manifest": altered})
    assert (status, "altered" in answer["error"]) == (400, True)
    foreign = volume_manifest({"metadata": {"uid": "another"}}, 9)
    ignored = await pod.good("checkpoints", {"id": foreign["id"], "manifest": foreign})
    assert ignored == {"name": None, "phase": None}
    assert len(await stage.phases()) == 1


async def test_a_request_is_answered(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM)
    pod = await stage.pod(job)
    await stage.client.patch(
        TRAININGJOBS,
        "mnist",
        namespace=stage.namespace,
        patch={"metadata": {"annotations": {"training.corral.dev/checkpoint-requested": "r1"}}},
    )

    async def asked() -> bool:
        return (await pod.report(step=1))["checkpointNow"] == "r1"

    await stage.until(asked)
    manifest = volume_manifest(job, 1)
    await pod.good("checkpoints", {"id": manifest["id"], "manifest": manifest, "request": "r1"})

    async def answered() -> bool:
        return (await pod.report(step=2))["checkpointNow"] is None

    await stage.until(answered)


async def test_replicas_are_told_one_step(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM, replicas=2, interval="1ms")
    master = await stage.pod(job, world=2)
    second = await stage.pod(job, replica=1, world=2)

    assert (await master.report(step=99, sharded=False))["checkpointAt"] is None

    async def planned() -> int | None:
        at: int | None = (await master.report(step=100, sharded=True))["checkpointAt"]
        return at

    at = await stage.until(planned)
    assert at >= 105

    async def same() -> bool:
        return (await second.report(step=100))["checkpointAt"] == at

    await stage.until(same)
    assert (await second.report(step=at))["checkpointAt"] is None, "too late for that one"


async def test_retention_on_a_claim_is_the_pods(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM, retention={"keepLast": 1})
    pod = await stage.pod(job)
    await stage.client.patch(
        PODS,
        "mnist-0",
        namespace=stage.namespace,
        patch={"status": {"phase": "Running"}},
        subresource="status",
    )
    manifests = [volume_manifest(job, step) for step in (1, 2)]
    for manifest in manifests:
        await pod.good("checkpoints", {"id": manifest["id"], "manifest": manifest})

    async def told() -> bool:
        return (await pod.report())["delete"] == [manifests[0]["id"]]

    await stage.until(told)
    assert set(await stage.phases()) == {"mnist-000001", "mnist-000002"}, "data first"
    await pod.report(deleted=[manifests[0]["id"]])
    await stage.until_phases({"mnist-000002": "Ready"})
    assert (await pod.report())["delete"] == []


async def test_a_janitor_deletes_where_no_pod_runs(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM, retention={"keepLast": 1})
    pod = await stage.pod(job)
    manifests = [volume_manifest(job, step) for step in (1, 2, 3)]
    for manifest in manifests:
        await pod.good("checkpoints", {"id": manifest["id"], "manifest": manifest})
    name = janitor_name("mnist")

    async def play() -> bool:
        """The node that runs janitors; there may be several, one after the other."""
        found = await stage.client.list_all(
            PODS, stage.namespace, label_selector="training.corral.dev/checkpoint-janitor=mnist"
        )
        for janitor in found["items"]:
            command = janitor["spec"]["containers"][0]["command"]
            assert command[:4] == ["python3", "-m", "corral.inpod.remove", "/checkpoints"]
            assert manifests[2]["id"] not in command
            if (janitor.get("status") or {}).get("phase") != "Succeeded":
                await stage.client.patch(
                    PODS,
                    name,
                    namespace=stage.namespace,
                    patch={"status": {"phase": "Succeeded"}},
                    subresource="status",
                )
        return await stage.phases() == {"mnist-000003": "Ready"}

    await stage.until(play)
    await stage.until_gone(PODS, name)


async def test_checkpoints_on_a_claim_go_with_the_job(stage: Stage) -> None:
    job = await stage.job("mnist", CLAIM)
    pod = await stage.pod(job)
    manifest = volume_manifest(job, 1)
    await pod.good("checkpoints", {"id": manifest["id"], "manifest": manifest})
    await stage.client.delete(TRAININGJOBS, "mnist", namespace=stage.namespace)
    await stage.until_gone(CHECKPOINTS, "mnist-000001")

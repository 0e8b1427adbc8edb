"""Every route, on jobs that really run."""

from __future__ import annotations

from typing import Any

from corral.client.logs.frames import MEDIA_TYPE, FrameReader
from tests.cluster.gateway.gateways import Somebody
from tests.cluster.jobs_api.manifests_of_jobs import mpi, training
from tests.cluster.objects import eventually

WRITES = "for i in 1 2 3; do echo line $i; done"


def at(namespace: str, plural: str = "trainingjobs", rest: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}{rest}"


def phase(somebody: Somebody, path: str) -> str:
    return str(somebody.get(f"{path}/status").json()["phase"])


def test_a_job_from_its_creation_to_its_end(admin: Somebody, namespace: str, operator: Any) -> None:
    made = admin.ask("POST", at(namespace), training("one", WRITES, replicas=2))
    assert made.status == 201, made.body
    one = made.headers["location"]
    assert one == at(namespace, rest="/one")
    seen = [said["phase"] for _, event, said in until_over(admin, f"{one}/watch?view=phase")]
    assert seen[-1] == "Succeeded"
    assert list(dict.fromkeys(seen)) == sorted(set(seen), key=seen.index)
    status = admin.get(f"{one}/status").json()
    assert status["replicas"][0]["succeeded"] == 2
    whole = "line 1\nline 2\nline 3\n"
    assert admin.get(f"{one}/logs").body.decode().count(whole) == 2
    assert admin.get(f"{one}/logs?role=replica&index=1&tailLines=1").body == b"line 3\n"
    stamped = admin.get(f"{one}/logs?index=0&role=replica&timestamps=true").body.decode()
    assert all(line[:2] == "20" and "Z line" in line for line in stamped.splitlines())
    events = [event["reason"] for event in admin.get(f"{one}/events").json()["items"]]
    assert len(events) >= 2
    assert admin.get(f"{one}/explain").json()["phase"] == "Succeeded"


def until_over(somebody: Somebody, path: str) -> list[tuple[str, str, Any]]:
    found = []
    for event in somebody.events(path):
        found.append(event)
        if event[2].get("phase") in ("Succeeded", "Failed"):
            break
    return found


def test_frames_of_a_log_go_on_at_any_place(admin: Somebody, namespace: str, operator: Any) -> None:
    admin.ask("POST", at(namespace), training("framed", WRITES))
    one = at(namespace, rest="/framed")
    eventually(lambda: phase(admin, one) == "Succeeded", seconds=60)
    reader = FrameReader()
    frames = list(reader.feed(admin.get(f"{one}/logs", Accept=MEDIA_TYPE).body))
    assert b"".join(found.data for found in frames) == b"line 1\nline 2\nline 3\n"
    assert reader.between
    rest = admin.get(f"{one}/logs?position={frames[-1].position}", Accept=MEDIA_TYPE)
    assert b"line" not in rest.body
    assert admin.get(f"{one}/logs?position=nonsense").status == 400


def test_suspend_resume_scale_restart_delete(
    admin: Somebody, namespace: str, operator: Any
) -> None:
    one = at(namespace, rest="/acted")
    admin.ask("POST", at(namespace), training("acted", "sleep 600", replicas=1))
    eventually(lambda: phase(admin, one) == "Running", seconds=60)
    assert admin.ask("POST", f"{one}/suspend").status == 200
    eventually(lambda: phase(admin, one) == "Suspended", seconds=60)
    assert admin.ask("PUT", f"{one}/scale", {"replicas": 2}).status == 200
    assert admin.ask("POST", f"{one}/resume").status == 200
    eventually(lambda: running(admin, one) == 2, seconds=60)
    refused = admin.ask("POST", f"{one}/restart", headers={"If-Match": '"another"'})
    assert refused.status == 412, refused.body
    assert admin.ask("POST", f"{one}/restart?force=true").status == 200
    assert admin.ask("DELETE", one).status in (200, 202)
    eventually(lambda: admin.get(one).status == 404, seconds=60)


def running(somebody: Somebody, path: str) -> int:
    found = somebody.get(f"{path}/status").json()["replicas"]
    return int(found[0]["running"]) if found else 0


def test_the_logs_of_a_launcher_and_of_a_worker(
    admin: Somebody, namespace: str, mpi_operator: Any
) -> None:
    one = at(namespace, "mpijobs", "/pi")
    job = mpi("pi", workers=2)
    for role, script in (
        ("Launcher", "echo I launch; sleep 600"),
        ("Worker", "echo I work; sleep 600"),
    ):
        container = {"name": "mpi", "image": "busybox", "command": ["sh", "-c", script]}
        template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 2}}
        job["spec"]["mpiReplicaSpecs"][role]["template"] = template
    assert admin.ask("POST", at(namespace, "mpijobs"), job).status == 201
    eventually(lambda: admin.get(f"{one}/logs/worker/1").body == b"I work\n", seconds=60)
    eventually(lambda: admin.get(f"{one}/logs/launcher").body == b"I launch\n", seconds=60)
    assert admin.get(f"{one}/logs").body.count(b"I work") == 2
    assert admin.get(f"{one}/logs/worker/7").body == b""
    admin.ask("DELETE", one)

"""Pods begin, run, restart and end as their specs say."""

from __future__ import annotations

import pytest

from tests.cluster.objects import eventually
from tests.cluster.pods.pods import Pods, condition, container, is_ready, shell, terminated


def test_runs_to_completion(pods: Pods) -> None:
    pods.run("done", shell("echo hello; echo problem >&2"))
    pod = pods.phase("done", "Succeeded")
    assert terminated(pod)["exitCode"] == 0
    assert terminated(pod)["reason"] == "Completed"
    assert pod["status"]["podIP"]
    assert pod["status"]["hostIP"] == "127.0.0.1"
    assert pod["status"]["startTime"]
    assert pod["status"]["qosClass"] == "BestEffort"
    assert sorted(pods.log("done").splitlines()) == ["hello", "problem"]
    assert condition(pod, "PodScheduled") == "True"
    assert condition(pod, "Initialized") == "True"
    assert condition(pod, "Ready") == "False"


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 3", 3, "Error"), ("kill -9 $$$$", 137, "Error"), ("kill -15 $$$$", 143, "Error")],
    ids=["exit", "sigkill", "sigterm"],
)
def test_exit_codes_and_signals(pods: Pods, script: str, code: int, reason: str) -> None:
    pods.run("fails", shell(script))
    pod = pods.phase("fails", "Failed")
    assert terminated(pod)["exitCode"] == code
    assert terminated(pod)["reason"] == reason


def test_unknown_program(pods: Pods) -> None:
    pods.run("missing", {"name": "main", "image": "busybox", "command": ["no-such-program"]})
    pod = pods.phase("missing", "Failed")
    assert terminated(pod)["exitCode"] == 128
    assert "executable file not found" in terminated(pod)["message"]


def test_ready_while_it_runs(pods: Pods) -> None:
    pods.run("runs", shell("sleep 1000"))
    pod = pods.ready("runs")
    state = container(pod)
    assert state["ready"] and state["started"] and state["restartCount"] == 0
    assert state["state"]["running"]["startedAt"]
    assert condition(pod, "ContainersReady") == "True"
    pods.delete("runs")
    pods.gone("runs")


def test_restarts_with_back_off(pods: Pods) -> None:
    pods.run("again", shell("exit 1"), restartPolicy="Always")
    pod = pods.wait("again", lambda p: container(p)["restartCount"] >= 1)
    assert pod["status"]["phase"] == "Running"
    pod = pods.wait("again", lambda p: "waiting" in container(p)["state"])
    assert container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 1
    eventually(lambda: "BackOff" in [reason for reason, _ in pods.events("again")])


def test_on_failure_restarts_only_failures(pods: Pods) -> None:
    script = "test -f /data/second && exit 0; touch /data/second; exit 1"
    mount = [{"name": "data", "mountPath": "/data"}]
    # where there are no mounts, paths inside a script are not translated: the variable is
    body = shell(
        script.replace("/data/", "$DATA/"),
        volumeMounts=mount,
        env=[{"name": "DATA", "value": "/data"}],
    )
    pods.run("once", body, restartPolicy="OnFailure", volumes=[{"name": "data", "emptyDir": {}}])
    pod = pods.phase("once", "Succeeded")
    assert container(pod)["restartCount"] == 1


def test_init_containers_run_in_order(pods: Pods) -> None:
    volume = [{"name": "data", "emptyDir": {}}]
    mount = {
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "env": [{"name": "DATA", "value": "/data"}],
    }
    first = {**shell("echo first >> $DATA/order", **mount), "name": "first"}
    second = {**shell("echo second >> $DATA/order", **mount), "name": "second"}
    text = pods.output(
        "ordered", shell("cat $DATA/order", **mount), initContainers=[first, second], volumes=volume
    )
    assert text == "first\nsecond\n"


def test_failing_init_container_fails_the_pod(pods: Pods) -> None:
    pods.run("stuck", shell("true"), initContainers=[{**shell("exit 7"), "name": "init"}])
    pod = pods.phase("stuck", "Failed")
    assert terminated(pod, "init")["exitCode"] == 7
    assert container(pod)["state"]["waiting"]["reason"] == "PodInitializing"
    assert condition(pod, "Initialized") == "False"


def test_sidecar_starts_first_and_ends_last(pods: Pods) -> None:
    sidecar = {
        **shell("trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.05; done"),
        "name": "side",
        "restartPolicy": "Always",
    }
    pods.run("with-side", shell("echo main"), initContainers=[sidecar])
    pod = pods.phase("with-side", "Succeeded")
    assert terminated(pod)["exitCode"] == 0
    assert terminated(pod, "side")["exitCode"] == 0
    assert pods.log("with-side", "side") == "up\nbye\n"


def test_grace_period(pods: Pods) -> None:
    stubborn = "trap '' TERM; echo up; while true; do sleep 0.05; done"
    pods.run("stubborn", shell(stubborn), terminationGracePeriodSeconds=1)
    pods.ready("stubborn")
    eventually(lambda: pods.log("stubborn") == "up\n")
    pods.delete("stubborn")
    pods.gone("stubborn")


def test_asks_before_it_kills(pods: Pods) -> None:
    """The last status is seen by whoever watches; a finalizer keeps the object to look at."""
    polite = "trap 'exit 5' TERM; echo up; while true; do sleep 0.05; done"
    pods.run("polite", shell(polite), metadata={"finalizers": ["example.test/look"]})
    pods.ready("polite")
    eventually(lambda: pods.log("polite") == "up\n")
    pods.delete("polite")
    pod = pods.wait("polite", lambda p: "terminated" in container(p)["state"])
    assert terminated(pod)["exitCode"] == 5
    pods.objects.patch("v1", "pods", "polite", {"metadata": {"finalizers": None}})
    pods.gone("polite")


def test_deadline(pods: Pods) -> None:
    pods.run("late", shell("sleep 1000"), activeDeadlineSeconds=1)
    pod = pods.phase("late", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("policy", ["File", "FallbackToLogsOnError"])
def test_termination_message(pods: Pods, policy: str) -> None:
    write = "echo because > $MESSAGE; exit 1" if policy == "File" else "echo because; exit 1"
    body = shell(
        write,
        env=[{"name": "MESSAGE", "value": "/dev/termination-log"}],
        terminationMessagePolicy=policy,
    )
    pods.run("message", body)
    assert terminated(pods.phase("message", "Failed"))["message"] == "because\n"


def test_readiness_probe(pods: Pods) -> None:
    probe = {"exec": {"command": ["sh", "-c", "test -f $DATA/ready"]}, "periodSeconds": 1}
    body = shell(
        "sleep 1; touch $DATA/ready; sleep 1000",
        readinessProbe=probe,
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        env=[{"name": "DATA", "value": "/data"}],
    )
    pods.run("probed", body, volumes=[{"name": "data", "emptyDir": {}}])
    pod = pods.wait("probed", lambda p: "running" in container(p)["state"])
    assert not is_ready(pod)
    pods.ready("probed")


def test_liveness_probe_restarts(pods: Pods) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    pods.run("dead", shell("sleep 1000", livenessProbe=probe), restartPolicy="Always",
             terminationGracePeriodSeconds=0)  # fmt: skip
    pod = pods.wait("dead", lambda p: container(p)["restartCount"] >= 1)
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 137
    expected = {"Unhealthy", "Killing"}
    eventually(lambda: expected <= {reason for reason, _ in pods.events("dead")})


def test_post_start_and_pre_stop(pods: Pods) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started > $DATA/hooks"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> $DATA/hooks"]}},
    }
    body = shell(
        "trap 'cat $DATA/hooks; exit 0' TERM; echo up; while true; do sleep 0.05; done",
        lifecycle=hooks,
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        env=[{"name": "DATA", "value": "/data"}],
    )
    volumes = [{"name": "data", "emptyDir": {}}]
    pods.run("hooked", body, volumes=volumes, metadata={"finalizers": ["example.test/look"]})
    pods.ready("hooked")
    eventually(lambda: pods.log("hooked") == "up\n")
    pods.delete("hooked")
    pods.wait("hooked", lambda p: "terminated" in container(p)["state"])
    assert pods.log("hooked") == "up\nstarted\nstopping\n"
    pods.objects.patch("v1", "pods", "hooked", {"metadata": {"finalizers": None}})
    pods.gone("hooked")


def test_image_that_is_not_mapped(pods: Pods) -> None:
    pods.run("odd", {"name": "main", "image": "example.test/odd:1", "command": ["true"]})
    pod = pods.wait("odd", lambda p: (container(p)["state"].get("waiting") or {}).get("message"))
    waiting = container(pod)["state"]["waiting"]
    assert "image map" in waiting["message"]
    assert pod["status"]["phase"] == "Pending"


def test_does_not_fit(pods: Pods) -> None:
    """A pod bound by hand to a node that has no room is refused, not run."""
    body = shell("true", resources={"requests": {"cpu": "1000"}})
    pods.run("huge", body, nodeName=pods.node.name, nodeSelector=None)
    pod = pods.phase("huge", "Failed")
    assert pod["status"]["reason"] == "OutOfcpu"

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.backoff import Backoff, words
from corral.cluster.node.container.messages import termination_message
from corral.cluster.node.container.restarts import should_restart
from corral.cluster.node.pod.lifecycle import PodMachine
from corral.cluster.node.pod.transitions import (
    Action,
    Deleted,
    Evicted,
    Exited,
    HookDone,
    PostStart,
    Probed,
    SandboxReady,
    Start,
    Started,
    StartFailed,
    Stop,
)
from corral.cluster.node.timestamps import format_time

T = 1_800_000_000.0
READY = SandboxReady(ips=("127.1.0.5",))


def pod(*main: dict[str, Any], init: list[dict[str, Any]] | None = None, **spec: Any) -> Any:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "containers": list(main) or [{"name": "main", "image": "i"}],
            "initContainers": init or [], **spec,
        },
        "status": {},
    }  # fmt: skip


class World:
    """A machine with a clock; actions are collected."""

    def __init__(self, value: Any) -> None:
        self.now = T
        self.machine = PodMachine(value, T)
        self.ids: dict[str, int] = {}

    def __call__(self, event: Any, *, after: float = 0.0) -> list[Action]:
        self.now += after
        return self.machine.handle(event, self.now)

    def ready(self) -> list[Action]:
        return self(READY)

    def started(self, name: str = "main", **more: Any) -> list[Action]:
        self.ids[name] = self.ids.get(name, -1) + 1
        return self(Started(name=name, id=f"{name}-{self.ids[name]}", at=self.now), **more)

    def exited(self, name: str = "main", code: int = 0, **more: Any) -> list[Action]:
        after = more.pop("after", 0.0)
        self.now += after
        identity = f"{name}-{self.ids[name]}"
        return self(Exited(name=name, id=identity, at=self.now, exit_code=code, **more))

    def wake(self) -> list[Action]:
        at = self.machine.wake_at()
        assert at is not None
        self.now = at
        return self.machine.tick(at)

    def status(self) -> Any:
        return self.machine.status(self.now, host_ips=("10.0.0.1",))

    def container(self, name: str = "main") -> Any:
        status = self.status()
        every = status["containerStatuses"] + status.get("initContainerStatuses", [])
        return next(s for s in every if s["name"] == name)

    def condition(self, kind: str) -> Any:
        found = next(c for c in self.status()["conditions"] if c["type"] == kind)
        return found["status"], found.get("reason", ""), found.get("message", "")


def names(actions: list[Action]) -> list[str]:
    return [f"{type(action).__name__} {action.name}" for action in actions]


# -- one container -------------------------------------------------------------------------------


def test_from_pending_to_succeeded() -> None:
    world = World(pod(restartPolicy="Never"))
    status = world.status()
    assert status["phase"] == "Pending"
    assert world.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert world.condition("PodReadyToStartContainers")[0] == "False"
    assert world.condition("Ready") == (
        "False", "ContainersNotReady", "containers with unready status: [main]",
    )  # fmt: skip
    assert world.condition("Initialized")[0] == "True"
    assert world.ready() == [Start(name="main", attempt=0)]
    assert world.condition("PodReadyToStartContainers")[0] == "True"
    world.now += 1
    assert world.started() == []
    status = world.status()
    assert (status["phase"], status["podIP"], status["hostIP"]) == (
        "Running", "127.1.0.5", "10.0.0.1",
    )  # fmt: skip
    assert status["startTime"] == format_time(T)
    assert world.container() == {
        "name": "main", "image": "i", "imageID": "", "containerID": "corral://main-0",
        "ready": True, "started": True, "restartCount": 0, "lastState": {},
        "state": {"running": {"startedAt": format_time(T + 1)}},
    }  # fmt: skip
    assert world.condition("Ready") == ("True", "", "")
    assert world.exited(after=5) == []
    status = world.status()
    assert status["phase"] == "Succeeded" and world.machine.finished
    assert world.container()["state"] == {
        "terminated": {
            "exitCode": 0, "reason": "Completed", "containerID": "corral://main-0",
            "startedAt": format_time(T + 1), "finishedAt": format_time(T + 6),
        }
    }  # fmt: skip
    assert (world.container()["ready"], world.container()["started"]) == (False, False)
    for kind in ("Ready", "ContainersReady"):
        assert world.condition(kind) == ("False", "PodCompleted", "")
    assert world.condition("Initialized") == ("True", "PodCompleted", "")
    assert [c["type"] for c in status["conditions"]] == [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "code", "phase", "again"),
    [
        ("Never", 0, "Succeeded", False), ("Never", 3, "Failed", False),
        ("OnFailure", 0, "Succeeded", False), ("OnFailure", 3, "Running", True),
        ("Always", 0, "Running", True), ("Always", 3, "Running", True),
    ],
)  # fmt: skip
def test_restart_policy(policy: str, code: int, phase: str, again: bool) -> None:
    world = World(pod(restartPolicy=policy))
    world.ready()
    world.started()
    assert names(world.exited(code=code)) == (["Start main"] if again else [])
    assert world.status()["phase"] == phase
    if phase == "Failed":
        assert world.condition("Ready") == ("False", "PodFailed", "")
        assert world.container()["state"]["terminated"]["reason"] == "Error"


@pytest.mark.parametrize(
    ("details", "reason", "message"),
    [
        ({"oom_killed": True}, "OOMKilled", None),
        ({"message": "why"}, "Error", "why"),
        (
            {"lost": True},
            "ContainerStatusUnknown",
            "The container could not be located when the pod was terminated",
        ),
    ],
)
def test_reasons(details: dict[str, Any], reason: str, message: str | None) -> None:
    world = World(pod(restartPolicy="Never"))
    world.ready()
    world.started()
    world.exited(code=137, **details)
    state = world.container()["state"]["terminated"]
    assert (state["exitCode"], state["reason"], state.get("message")) == (137, reason, message)


def test_crash_loop() -> None:
    """At once, then 10 s, 20 s, 40 s, 80 s, 160 s, and 5 min from then on."""
    world = World(pod())
    actions = world.ready()
    waits = []
    for round_ in range(9):
        assert actions == [Start(name="main", attempt=round_)]
        world.started()
        assert world.container()["restartCount"] == round_
        actions = world.exited(code=1, after=1)
        if actions:
            waits.append(0)
            continue
        container = world.container()
        ended = world.now
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 1
        assert world.status()["phase"] == "Running"
        assert world.machine.tick(world.now + 1) == []
        actions = world.wake()
        waits.append(int(world.now - ended))
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert (
        "back-off 5m0s restarting failed container=main pod=p_ns(u)"
        == (container["state"]["waiting"]["message"])
    )


def test_a_long_run_forgives() -> None:
    world = World(pod())
    world.ready()
    for _ in range(3):
        world.started()
        if not world.exited(code=1, after=1):
            world.wake()
    world.started()
    assert names(world.exited(code=1, after=601)) == ["Start main"]


def test_backoff_words() -> None:
    assert [words(s) for s in (10, 80, 160, 300)] == ["10s", "1m20s", "2m40s", "5m0s"]
    assert Backoff().until(5.0) == 5.0


def test_start_errors() -> None:
    world = World(pod())
    world.ready()
    world(
        StartFailed(
            name="main", reason="CreateContainerConfigError", message='secret "s" not found'
        )
    )
    assert world.container()["state"]["waiting"] == {
        "reason": "CreateContainerConfigError", "message": 'secret "s" not found',
    }  # fmt: skip
    assert world.status()["phase"] == "Pending"
    assert world.wake() == [Start(name="main", attempt=0)]
    assert world.now == T + 10


@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_program_that_cannot_run(policy: str) -> None:
    world = World(pod(restartPolicy=policy))
    world.ready()
    event = StartFailed(name="main", reason="RunContainerError", message="no", terminated=True)
    actions = world(event)
    container = world.container()
    if policy == "Never":
        assert world.status()["phase"] == "Failed"
        assert container["state"]["terminated"]["reason"] == "StartError"
        assert container["state"]["terminated"]["exitCode"] == 128
    else:
        assert names(actions) == ["Start main"]
        world(event)
        container = world.container()
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["reason"] == "StartError"


@pytest.mark.parametrize(
    ("container", "code", "again"),
    [
        ({}, 0, False), ({"restartPolicy": "Always"}, 0, True),
        ({"restartPolicy": "OnFailure"}, 0, False), ({"restartPolicy": "OnFailure"}, 1, True),
        ({"restartPolicy": "Never", "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}, 42, True),
        ({"restartPolicy": "Never", "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}]}, 42, False),
    ],
)  # fmt: skip
def test_container_restart_rules(container: dict[str, Any], code: int, again: bool) -> None:
    assert should_restart(container, {"restartPolicy": "Never"}, code) is again


# -- init containers and sidecars ------------------------------------------------------------------

SIDE = {"name": "side", "restartPolicy": "Always"}


def test_init_containers_in_order() -> None:
    world = World(pod(init=[{"name": "one"}, {"name": "two"}], restartPolicy="Never"))
    assert names(world.ready()) == ["Start one"]
    assert world.container()["state"]["waiting"]["reason"] == "PodInitializing"
    assert world.condition("Initialized") == (
        "False", "ContainersNotInitialized", "containers with incomplete status: [one two]",
    )  # fmt: skip
    world.started("one")
    assert world.status()["phase"] == "Pending"
    assert names(world.exited("one")) == ["Start two"]
    assert world.container("one")["ready"] is True
    world.started("two")
    assert names(world.exited("two")) == ["Start main"]
    world.started()
    assert world.status()["phase"] == "Running"
    assert world.condition("Initialized")[0] == "True"


def test_init_container_fails() -> None:
    world = World(pod(init=[{"name": "one"}], restartPolicy="Never"))
    world.ready()
    world.started("one")
    assert world.exited("one", 1) == []
    assert world.status()["phase"] == "Failed" and world.machine.finished


def test_init_container_is_retried() -> None:
    world = World(pod(init=[{"name": "one"}]))
    world.ready()
    world.started("one")
    assert names(world.exited("one", 1)) == ["Start one"]
    world.started("one")
    assert world.exited("one", 1) == []
    assert world.container("one")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert world.status()["phase"] == "Pending"
    assert names(world.wake()) == ["Start one"]


def test_sidecar_lives_with_the_pod() -> None:
    world = World(pod(init=[SIDE, {"name": "one"}], restartPolicy="Never"))
    assert names(world.ready()) == ["Start side"]
    assert names(world.started("side")) == ["Start one"]
    world.started("one")
    assert names(world.exited("one")) == ["Start main"]
    world.started()
    assert names(world.exited("side", 1)) == ["Start side"]  # even though the pod's policy is Never
    world.started("side")
    assert world.status()["phase"] == "Running"
    assert world.exited() == [Stop(name="side", grace=30.0, why="done")]
    assert world.status()["phase"] == "Running" and not world.machine.finished
    world.exited("side", 143)
    assert world.status()["phase"] == "Succeeded" and world.machine.finished


def test_sidecar_with_startup_probe_holds_the_others() -> None:
    world = World(pod(init=[{**SIDE, "startupProbe": {}}]))
    world.ready()
    assert world.started("side") == []
    assert world.container("side")["started"] is False
    assert names(world(Probed(name="side", kind="startup", ok=True))) == ["Start main"]


# -- probes and hooks ------------------------------------------------------------------------------


def test_readiness() -> None:
    world = World(pod({"name": "main", "readinessProbe": {}}))
    world.ready()
    world.started()
    assert (world.container()["ready"], world.container()["started"]) == (False, True)
    world(Probed(name="main", kind="readiness", ok=True))
    assert world.condition("Ready")[0] == "True"
    world(Probed(name="main", kind="readiness", ok=False))
    assert world.condition("ContainersReady")[1] == "ContainersNotReady"


def test_liveness_restarts() -> None:
    probe = {"terminationGracePeriodSeconds": 3}
    world = World(pod({"name": "main", "livenessProbe": probe}))
    world.ready()
    world.started()
    event = Probed(name="main", kind="liveness", ok=False)
    assert world(event) == [Stop(name="main", grace=3.0, why="liveness probe failed")]
    assert world(event) == []
    assert names(world.exited(code=143)) == ["Start main"]


def test_post_start() -> None:
    world = World(pod({"name": "main", "lifecycle": {"postStart": {}}}))
    world.ready()
    assert world.started() == [PostStart(name="main")]
    assert world.container()["ready"] is False
    world(HookDone(name="main"))
    assert world.container()["ready"] is True
    world.exited(code=1)
    world.started()
    assert names(world(HookDone(name="main", error="no"))) == ["Stop main"]


def test_readiness_gates() -> None:
    value = pod(readinessGates=[{"conditionType": "x/y"}])
    world = World(value)
    world.ready()
    world.started()
    assert world.condition("Ready") == (
        "False", "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "x/y" does not exist.',
    )  # fmt: skip
    value["status"]["conditions"] = [{"type": "x/y", "status": "True"}]
    assert world.condition("Ready")[0] == "True"
    assert world.status()["conditions"][0] == {"type": "x/y", "status": "True"}


def test_conditions_keep_their_time() -> None:
    value = pod()
    world = World(value)
    value["status"] = world.status()
    world.now += 10
    world.ready()
    world.started()
    times = {c["type"]: c["lastTransitionTime"] for c in world.status()["conditions"]}
    assert times["PodScheduled"] == format_time(T) and times["Ready"] == format_time(T + 10)


# -- endings -------------------------------------------------------------------------------------


def test_deletion_main_first_then_sidecars_last_one_first() -> None:
    init = [SIDE, {"name": "side2", "restartPolicy": "Always"}]
    world = World(pod({"name": "a"}, {"name": "b"}, init=init))
    world.ready()
    for name in ("side", "side2", "a", "b"):
        world.started(name)
    assert names(world(Deleted(grace=20))) == ["Stop b", "Stop a"]
    assert world.exited("a", 143) == []
    assert world.exited("b", 0, after=5) == [Stop(name="side2", grace=15.0, why="deleted")]
    assert names(world.exited("side2", 143)) == ["Stop side"]
    assert not world.machine.finished
    world.exited("side", 143)
    assert world.machine.finished and world.status()["phase"] == "Failed"


def test_sidecars_do_not_wait_beyond_the_grace_period() -> None:
    world = World(pod(init=[SIDE]))
    world.ready()
    world.started("side")
    world.started()
    world(Deleted(grace=5))
    assert world.wake() == [Stop(name="side", grace=2.0, why="deleted")]
    assert world.now == T + 5


def test_shorter_grace_period() -> None:
    world = World(pod())
    world.ready()
    world.started()
    world(Deleted(grace=30))
    assert world(Deleted(grace=0)) == [Stop(name="main", grace=0, why="deleted")]
    assert world(Deleted(grace=10)) == []


def test_deleted_while_it_starts() -> None:
    world = World(pod(restartPolicy="Never"))
    world.ready()
    assert world(Deleted(grace=1)) == []
    assert not world.machine.finished
    assert names(world.started()) == ["Stop main"]
    world.exited(code=0)
    assert world.status()["phase"] == "Succeeded"


def test_deleted_before_it_started() -> None:
    world = World(pod())
    world(Deleted(grace=30))
    assert world.machine.finished and world.status()["phase"] == "Failed"
    assert world.container()["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert world(READY) == []


def test_deleted_in_a_back_off() -> None:
    world = World(pod())
    world.ready()
    world.started()
    world.exited(code=1)
    world.started()
    world.exited(code=7)
    world(Deleted(grace=30))
    assert world.machine.finished and world.machine.wake_at() is None
    assert world.container()["state"]["terminated"]["exitCode"] == 7


def test_active_deadline() -> None:
    world = World(pod(activeDeadlineSeconds=60))
    world.ready()
    world.started()
    assert world.wake() == [Stop(name="main", grace=30.0, why="deadline")]
    assert world.now == T + 60
    world.exited(code=143)
    status = world.status()
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"


def test_eviction() -> None:
    world = World(pod())
    world.ready()
    world.started()
    assert names(world(Evicted(reason="Evicted", message="no room"))) == ["Stop main"]
    world.exited(code=137)
    assert (world.status()["phase"], world.status()["reason"]) == ("Failed", "Evicted")


# -- an agent that was restarted -------------------------------------------------------------------


def test_restore_running() -> None:
    fresh = PodMachine(pod(init=[{"name": "one"}]), T)
    actions = fresh.restore(
        {
            "one": [
                Started(name="one", id="1", at=T),
                Exited(name="one", id="1", at=T, exit_code=0),
            ],
            "main": [Started(name="main", id="2", at=T, attempt=4)],
        },
        T + 5,
        ips=READY.ips,
    )
    assert actions == []
    status = fresh.status(T + 5)
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["restartCount"] == 4


def test_restore_ended_meanwhile() -> None:
    fresh = PodMachine(pod(restartPolicy="Never"), T)
    events: list[Started | Exited] = [
        Started(name="main", id="1", at=T), Exited(name="main", id="1", at=T + 2, exit_code=3)
    ]  # fmt: skip
    assert fresh.restore({"main": events}, T + 9, ips=READY.ips) == []
    assert fresh.status(T + 9)["phase"] == "Failed" and fresh.finished


# -- messages --------------------------------------------------------------------------------------


def test_termination_messages(tmp_path: Path) -> None:
    file, log = tmp_path / "message", tmp_path / "0.log"
    log.write_text("2026-01-02T03:04:05.000000001Z stdout F from the log\n")

    def message(policy: str = "File", failed: bool = True) -> str:
        return termination_message(file, policy=policy, failed=failed, log=log)

    file.write_text("")
    assert message() == ""
    assert message("FallbackToLogsOnError") == "from the log\n"
    assert message("FallbackToLogsOnError", failed=False) == ""
    file.write_text("a" * 10 + "b" * 4096)
    assert message("FallbackToLogsOnError") == "b" * 4096
    file.unlink()
    assert message().startswith("Error on reading termination log")
    assert termination_message(None, policy="File", failed=True, log=log) == ""

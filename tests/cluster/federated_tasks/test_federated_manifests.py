"""Every manifest of the group applies unchanged, and reaches the phase that is implied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wasmtime
import yaml

from corral.families.federated import learning, wiring
from corral.families.federated.settings import FederatedSettings
from corral.oci import Artifacts, Layer, Reference, endpoints
from corral.runtime import Manager
from tests.backends import Node
from tests.cluster.federated_tasks.tasking import API, ELSEWHERE, Obj, Tasks, condition, saying
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread
from tests.registries import RunningRegistry

EXAMPLES = Path(__file__).parents[3] / "examples" / "propeller"
MODULE = "application/vnd.wasm.content.layer.v1+wasm"
PROPLETS = ("proplet-1", "proplet-2", "proplet-3")
CLIENT = """
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open
    (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write
    (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "update[1,2.5]")
  (data (i32.const 96) "result.json{\\22num_samples\\22: 5, \\22format\\22: \\22json-f64\\22}")
  (func $put (param $name i32) (param $length i32) (param $count i32) (local $bad i32)
    (local.set $bad (call $open (i32.const 3) (i32.const 0) (local.get $name) (local.get $length)
      (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 32)))
    (if (local.get $bad) (then (call $exit (local.get $bad))))
    (i32.store (i32.const 0) (i32.add (local.get $name) (local.get $length)))
    (i32.store (i32.const 4) (local.get $count))
    (drop (call $write (i32.load (i32.const 32)) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (call $put (i32.const 64) (i32.const 6) (i32.const 7))
    (call $put (i32.const 96) (i32.const 11) (i32.const 40))))
"""
"""A client that gives the same update every time: what it learns is of no interest here."""
SERVICE = '(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))'
IMAGES = {
    "wasm/image-processor:v1.0.0": saying('{"images": 3}'),
    "wasm/hello:v1.0.0": saying("hello"),
    "wasm/data-processor:v1.0.0": saying('{"rows": 7}'),
    "wasm/analytics:v2.1.0": saying('{"mean": 1.5}'),
    "wasm/my-task:v1.0.0": saying('{"ok": true}'),
    "wasm/service:v1.0.0": SERVICE,
    "fl-client:v1.0.0": CLIENT,
}


@pytest.fixture(scope="module")
def images(registry: RunningRegistry) -> None:
    """The modules and the model that the manifests name."""

    async def push() -> None:
        async with Artifacts(registry.registries(ELSEWHERE)) as artifacts:
            for name, text in IMAGES.items():
                where = Reference.parse(f"oci://{ELSEWHERE}/{name}")
                layer = Layer(MODULE, bytes(wasmtime.wat2wasm(text)))
                await artifacts.push(where, [layer], artifact_type=MODULE)
            where = Reference.parse(f"oci://{ELSEWHERE}/models/exp-001:round-5")
            model = Layer("application/vnd.corral.model.v1+json-f64", b"[1,2.5]")
            await artifacts.push(where, [model], artifact_type="application/vnd.corral.model.v1")

    asyncio.run(push())


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str, nodes: dict[str, Node], registry: RunningRegistry, images: None
) -> Iterator[OperatorThread]:
    """All controllers of the group."""
    pairs = registry.pairs(ELSEWHERE)
    tasks = FederatedSettings(registry=registry.base, registry_map=pairs, waiting_retry=0.5)
    rounds = learning.LearningSettings(registry=registry.base, registries=endpoints(pairs))

    def add(manager: Manager) -> None:
        wiring.register(manager, tasks)
        learning.register(manager, rounds)

    operator = OperatorThread(kubeconfig, add).start()
    yield operator
    operator.kill()


@pytest.fixture
def tasks(objects: Objects, operator: OperatorThread) -> Tasks:
    """Three proplets that are devices at the edge, by the labels of the manifests."""
    tasks = Tasks(objects)
    for number, name in enumerate(PROPLETS):
        tasks.proplet(name, ("one", "two")[number % 2], {"proplet-type": "edge"})
    return tasks


def applied(tasks: Tasks, *names: str) -> None:
    """Apply manifests as they are; an unknown field is refused."""
    for name in names:
        obj = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
        path = tasks.objects.path(API, f"{obj['kind'].lower()}s") + "?fieldValidation=Strict"
        reply = tasks.objects.backend.request("POST", path, obj)
        assert reply.code == 201, reply.body


def reached(
    tasks: Tasks, plural: str, name: str, check: Callable[[Obj], Any], *, seconds: float = 120
) -> Obj:
    last: list[Obj] = [{}]

    def good() -> bool:
        last[0] = dict(tasks.objects.get(API, plural, name).get("status") or {})
        return bool(check(last[0]))

    try:
        eventually(good, seconds=seconds)
    except AssertionError:
        raise AssertionError((name, last[0])) from None
    return last[0]


def test_tasks_groups_and_models(tasks: Tasks) -> None:
    applied(tasks, "edge-devices", "gpu-proplets", "model-exp-001-round-5")
    tasks.group_status("edge-devices", lambda status: status.get("availableProplets") == 3)
    runs = ("image-processor", "hello-wasm", "data-processor", "edge-analytics", "my-wasm-task")
    applied(tasks, "custom-wasm-task", "wasm-service", "fl-training-task", *runs)
    results = {name: tasks.phase(name, "Completed", seconds=120).get("results") for name in runs}
    assert results == {
        "image-processor": {"images": 3},
        "hello-wasm": None,
        "data-processor": {"rows": 7},
        "edge-analytics": {"mean": 1.5},
        "my-wasm-task": {"ok": True},
    }
    assert tasks.status("edge-analytics")["propletId"] in PROPLETS
    learned = tasks.phase("fl-training-task", "Completed")["results"]
    assert (learned["num_samples"], learned["round_id"]) == (5, "round-1")
    assert (learned["job_id"], learned["update_b64"]) == ("exp-001", "WzEsMi41XQ==")
    service = tasks.phase("wasm-service", "Running")
    assert service["jobRef"]["kind"] == "Deployment"
    custom = tasks.phase("custom-wasm-task", "Failed")
    assert condition(custom, "Ready")["reason"] == "InvalidSpec"
    gpu = tasks.group_status("gpu-proplets", lambda status: status.get("conditions"))
    assert (gpu["totalProplets"], gpu["availableProplets"]) == (0, 0)
    reached(
        tasks,
        "modelcheckpoints",
        "model-exp-001-round-5",
        lambda status: status.get("phase") == "Ready",
    )


@pytest.mark.parametrize(
    "name", ["fl-experiment", "my-fl-experiment", "mnist-fl-experiment", "fl-mnist-experiment"]
)
def test_jobs(tasks: Tasks, name: str) -> None:
    """A round of each; all rounds of one are run elsewhere, by a client that learns."""
    applied(tasks, name)
    status = reached(
        tasks, "federatedjobs", name, lambda status: status.get("completedRounds", 0) >= 1
    )
    assert status["phase"] in ("Running", "Completed")
    assert "/models:round-" in status["aggregatedModelRef"]
    tasks.objects.delete(API, "federatedjobs", name)


def test_a_round_whose_job_is_absent(tasks: Tasks) -> None:
    name = "round-1-fl-mnist-experiment"
    applied(tasks, name)
    status = reached(
        tasks, "trainingrounds", name, lambda status: status.get("phase") == "Completed"
    )
    assert status["updatesReceived"] >= status["updatesRequired"] == 2
    # The third may have been late: its task is gone then.
    done = next(p["propletId"] for p in status["participants"] if p.get("updateReceived"))
    config = tasks.objects.get("v1", "configmaps", f"{name}-{done}-config")
    assert "FL_JOB_ID" not in config["data"]
    assert config["data"]["ROUND_ID"] == "round-1"

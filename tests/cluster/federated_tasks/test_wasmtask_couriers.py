"""Participants' tasks: the model comes to them, their update goes away, whatever they are."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from corral.oci import Artifacts, Layer, Reference
from tests.cluster.federated_tasks.tasking import Tasks, condition, module
from tests.registries import RunningRegistry

ROUND = {"ROUND_ID": "round-1", "FL_JOB_ID": "exp-1"}
WRITER = """
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open
    (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write
    (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "update")
  (data (i32.const 80) "\\01\\02\\03\\04")
  (data (i32.const 96) "result.json")
  (data (i32.const 112) "{\\22num_samples\\22: 5}")
  (func $put (param $name i32) (param $length i32) (param $from i32) (param $count i32)
    (local $bad i32)
    ;; the folder of the participant is the last of those it was given: 3 is /fl, 4 the module's
    (local.set $bad (call $open (i32.const 4) (i32.const 0) (local.get $name) (local.get $length)
      (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 32)))
    (if (local.get $bad) (then (call $exit (local.get $bad))))
    (i32.store (i32.const 0) (local.get $from))
    (i32.store (i32.const 4) (local.get $count))
    (drop (call $write (i32.load (i32.const 32)) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (call $put (i32.const 64) (i32.const 6) (i32.const 80) (i32.const 4))
    (call $put (i32.const 96) (i32.const 11) (i32.const 112) (i32.const 18))))
"""
"""Writes an update of four bytes, and a result."""


def python(script: str) -> dict[str, Any]:
    return {"imageUrl": "python:3.12", "cliArgs": ["python", "-c", script]}


def test_a_small_update_travels_in_the_message(tasks: Tasks) -> None:
    tasks.create("small", file=module(WRITER), env=ROUND)
    status = tasks.phase("small", "Completed")
    assert status["resultSource"] == "termination-message"
    results = status["results"]
    assert base64.b64decode(results.pop("update_b64")) == b"\1\2\3\4"
    assert results == {
        "num_samples": 5,
        "task_id": "small",
        "job_id": "exp-1",
        "round_id": "round-1",
        "proplet_id": status["propletId"],
    }


def test_a_large_one_is_an_artifact(tasks: Tasks, registry: RunningRegistry) -> None:
    script = (
        "import json, os; d = os.environ['FL_DIR']; "
        "open(f'{d}/update', 'wb').write(bytes(range(256)) * 4096); "
        "json.dump({'update_envelope': {'num_samples': 9, 'format': 'f32-le'}}, "
        "open(f'{d}/result.json', 'w'))"
    )
    metadata = {"labels": {"federated-job": "job-1"}}
    tasks.create("large", **python(script), env=ROUND, metadata=metadata)
    envelope = tasks.phase("large", "Completed")["results"]["update_envelope"]
    prefix = f"oci://registry.corral.local/{tasks.objects.namespace}/job-1/updates:large@"
    assert envelope["update_ref"].startswith(prefix)
    assert envelope["update_bytes"] == 1 << 20

    async def read() -> bytes:
        async with Artifacts(registry.registries()) as artifacts:
            where = Reference.parse(envelope["update_ref"])
            manifest = await artifacts.manifest(where)
            assert manifest.layers[0].media_type == "application/vnd.corral.update.v1+f32-le"
            return b"".join([p async for p in artifacts.stream(where, manifest.layers[0])])

    assert asyncio.run(read()) == bytes(range(256)) * 4096


def test_the_model_is_there_before_the_task(tasks: Tasks, registry: RunningRegistry) -> None:
    async def push() -> str:
        async with Artifacts(registry.registries()) as artifacts:
            where = Reference.parse(f"{registry.base}/models/global:round-1")
            layer = Layer("application/octet-stream", b"global weights")
            return str((await artifacts.push(where, [layer], artifact_type="a/b")).reference)

    reference = asyncio.run(push())
    script = (
        "import json, os; text = open('/fl/model').read(); "
        "json.dump({'num_samples': 1, 'saw': text}, open('/fl/result.json', 'w'))"
    )
    env = {**ROUND, "FL_GLOBAL_UPDATE_REF": reference}
    tasks.create("second", **python(script), env=env)
    assert tasks.phase("second", "Completed")["results"]["saw"] == "global weights"


def test_progress_while_it_trains(tasks: Tasks) -> None:
    script = (
        "import json, time; json.dump({'epoch': 3}, open('/fl/progress.json', 'w')); "
        "time.sleep(3600)"
    )
    tasks.create("training", **python(script), env=ROUND)
    status = tasks.wait("training", lambda status: status.get("results"))
    assert (status["phase"], status["results"]) == ("Running", {"epoch": 3})
    assert condition(status, "Partial")["status"] == "True"


def test_a_failure_leaves_no_update(tasks: Tasks) -> None:
    script = "open('/fl/update', 'wb').write(bytes(9)); raise SystemExit('out of data')"
    tasks.create("fails", **python(script), env=ROUND)
    status = tasks.phase("fails", "Failed")
    assert "out of data" in status["error"] and "exit code 1" in status["error"]
    assert "results" not in status


def test_what_cannot_be_delivered_fails_the_task(tasks: Tasks) -> None:
    text = json.dumps({"metrics": "x" * 5000})
    tasks.create("much", **python(f"open('/fl/result.json', 'w').write('{text}')"), env=ROUND)
    status = tasks.phase("much", "Failed")
    assert status["error"].startswith("the update was not delivered: result.json makes a message")


def test_a_task_that_is_quicker_than_its_courier(tasks: Tasks) -> None:
    script = "echo '{\"num_samples\": 4}' > $FL_DIR/result.json"
    tasks.process("quick", script, env=ROUND)
    assert tasks.phase("quick", "Completed")["results"]["num_samples"] == 4

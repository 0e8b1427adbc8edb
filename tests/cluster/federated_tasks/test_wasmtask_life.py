"""WasmTasks: bound to a proplet, run, ended, and what they leave."""

from __future__ import annotations

from tests.cluster.federated_tasks.tasking import Tasks, condition, module, saying
from tests.cluster.objects import eventually


def test_a_module_that_comes_with_the_task(tasks: Tasks) -> None:
    tasks.create("hello", file=module(saying('{"output": 42}')), env={"A": "1"})
    status = tasks.phase("hello", "Completed")
    assert status["results"] == {"output": 42}
    assert status["resultSource"] == "log"
    assert status["propletId"] == status["nodeName"] in ("one", "two")
    assert status["jobRef"]["name"] == "hello-job"
    assert status["startTime"] <= status["finishTime"]
    assert condition(status, "Ready")["reason"] == "Completed"
    (pod,) = tasks.pods("hello")
    assert pod["spec"]["nodeName"] == status["nodeName"]
    assert pod["spec"]["runtimeClassName"] == "wasm"
    config = tasks.objects.get("v1", "configmaps", "hello-config")
    assert config["data"] == {"A": "1", "wasm_file_provided": "true"}
    (owner,) = config["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("WasmTask", "hello", True)
    eventually(lambda: {"Scheduled", "Completed"} <= set(tasks.events("hello")))


def test_its_variables(tasks: Tasks) -> None:
    script = (
        'printf \'{"proplet": "%s", "task": "%s", "a": "%s", "mode": "%s", "inputs": %s}\' '
        '"$PROPLET_ID" "$TASK_ID" "$A" "$TASK_MODE" "$TASK_INPUTS" > /dev/termination-log'
    )
    tasks.process(
        "told", script, env={"A": "x", "TASK_ID": "no"}, mode="infer", inputs=[1, 2],
        propletId="two",
    )  # fmt: skip
    status = tasks.phase("told", "Completed")
    assert status["resultSource"] == "termination-message"
    assert status["results"] == {
        "proplet": "two", "task": "told", "a": "x", "mode": "infer", "inputs": [1, 2],
    }  # fmt: skip


def test_a_failure_says_why(tasks: Tasks) -> None:
    tasks.create("broken", file=module(saying("no good", 3)), restartPolicy="Never")
    status = tasks.phase("broken", "Failed")
    assert status["error"].startswith("Job has reached the specified backoff limit: ")
    assert "exit code 3" in status["error"] and "no good" in status["error"]
    assert condition(status, "Ready")["reason"] == "JobFailed"


def test_a_file_that_is_not_base64(tasks: Tasks) -> None:
    tasks.create("custom-wasm-task", file="<base64-encoded-wasm-binary>")
    status = tasks.phase("custom-wasm-task", "Failed")
    assert status["error"].startswith("spec.file is not base64: ")
    assert condition(status, "Ready")["reason"] == "InvalidSpec"


def test_what_is_deleted_goes_whole(tasks: Tasks) -> None:
    tasks.process("gone", "sleep 3600")
    tasks.phase("gone", "Running")
    tasks.objects.delete("propeller.absmach.io/v1alpha1", "wasmtasks", "gone")
    eventually(lambda: tasks.objects.find("batch/v1", "jobs", "gone-job") is None)
    eventually(lambda: not tasks.pods("gone"), seconds=60)
    eventually(lambda: tasks.objects.find("v1", "configmaps", "gone-config") is None)


def test_cancelled(tasks: Tasks) -> None:
    tasks.process("late", "sleep 3600")
    tasks.phase("late", "Running")
    annotations = {"propeller.absmach.io/cancelled": "the round is over"}
    tasks.objects.patch(
        "propeller.absmach.io/v1alpha1", "wasmtasks", "late",
        {"metadata": {"annotations": annotations}},
    )  # fmt: skip
    status = tasks.phase("late", "Failed")
    assert status["error"] == "cancelled: the round is over"
    eventually(lambda: not tasks.pods("late"), seconds=60)


def test_a_daemon_runs_until_it_is_deleted(tasks: Tasks) -> None:
    tasks.process("wasm-service", "sleep 3600", daemon=True, restartPolicy="Always")
    status = tasks.phase("wasm-service", "Running")
    assert status["jobRef"]["kind"] == "Deployment"
    (pod,) = tasks.pods("wasm-service")
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["spec"]["nodeName"] == status["nodeName"]
    assert tasks.objects.find("batch/v1", "jobs", "wasm-service-job") is None


def test_partial_results_while_it_runs(tasks: Tasks) -> None:
    script = "echo '{\"step\": 1}'; until [ -e /tmp/go ]; do sleep 0.1; done; sleep 3600"
    tasks.process("long", script, monitoringProfile={"enabled": True, "interval": 1})
    status = tasks.wait("long", lambda status: status.get("results"))
    assert (status["phase"], status["results"]) == ("Running", {"step": 1})
    assert condition(status, "Partial")["status"] == "True"
    (pod,) = tasks.pods("long")
    tasks.objects.patch(
        "v1", "pods", pod["metadata"]["name"],
        {"metadata": {"annotations": {"propeller.absmach.io/progress": '{"step": 2}'}}},
    )  # fmt: skip
    tasks.wait("long", lambda status: status["results"] == {"step": 2})


def test_a_function_with_its_inputs(tasks: Tasks) -> None:
    add = """(module (func (export "add") (param i64 i64) (result i64)
      (i64.add (local.get 0) (local.get 1))))"""
    tasks.create("add", file=module(add), inputs=[2, 40], mode="infer")
    status = tasks.phase("add", "Completed")
    assert (status["results"], status["resultSource"]) == ({"output": 42}, "termination-message")

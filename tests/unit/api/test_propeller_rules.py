"""What objects of propeller.absmach.io must be like beyond their schema."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from corral.api.propeller.kinds import FederatedJob, PropletGroup, TrainingRound, WasmTask
from corral.api.propeller.rules import invalid_spec, module_bytes
from corral.api.propeller.strategies import AVERAGING, STRATEGIES, canonical
from corral.learning.strategies import STRATEGIES as ENGINE
from corral.learning.strategies import Averaging

Obj = dict[str, Any]


def task(**spec: Any) -> Obj:
    return made("WasmTask", spec)


def made(kind: str, spec: Obj, name: str = "x") -> Obj:
    return {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def job(name: str = "x", **spec: Any) -> Obj:
    return made(
        "FederatedJob",
        {
            "experimentId": "e",
            "modelRef": "oci://r/m:1",
            "taskWasmImage": "oci://r/c:1",
            "participants": [{"propletId": "p1"}, {"propletId": "p2"}],
            "kOfN": 2,
            "timeoutSeconds": 60,
            "rounds": {"total": 3},
            "aggregator": {"algorithm": "fedavg"},
            **spec,
        },
        name,
    )


def problems(kind: Any, obj: Obj, old: Obj | None = None) -> list[str]:
    return [str(problem) for problem in kind.validate(obj, old)]


# --- tasks ---------------------------------------------------------------------------------------


def test_a_task_needs_a_module() -> None:
    assert problems(WasmTask, task()) == [
        "spec.imageUrl: Required value: imageUrl or file is required"
    ]
    assert problems(WasmTask, task(imageUrl="oci://r/a:1")) == []
    assert problems(WasmTask, task(file="AGFzbQ==")) == []


def test_a_task_is_not_changed() -> None:
    old = task(imageUrl="a")
    assert problems(WasmTask, task(imageUrl="a"), old) == []
    (said,) = problems(WasmTask, task(imageUrl="b"), old)
    assert said.startswith("spec: Forbidden: a task runs once")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mode": "learn"}, "spec.mode"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"monitoringProfile": {"interval": -1}}, "spec.monitoringProfile.interval"),
        ({"inputs": ["1"]}, "spec.inputs[0]"),
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"volumes": [{"name": "fl"}]}, "spec.volumes[0].name"),
        ({"volumes": [{"name": "corral-token"}]}, "spec.volumes[0].name"),
        ({"volumes": [{}]}, "spec.volumes[0].name"),
        ({"volumeMounts": [{"name": "a"}]}, "spec.volumeMounts[0].mountPath"),
    ],
)
def test_a_task_that_is_wrong(spec: Obj, field: str) -> None:
    assert [p.field for p in WasmTask.validate(task(imageUrl="a", **spec))] == [field]


def test_a_name_leaves_room_for_the_job() -> None:
    assert WasmTask.validate(made("WasmTask", {"imageUrl": "a"}, "x" * 59)) == []
    (problem,) = WasmTask.validate(made("WasmTask", {"imageUrl": "a"}, "x" * 60))
    assert problem.field == "metadata.name"


def test_warnings_about_tasks() -> None:
    assert WasmTask.warnings(task(imageUrl="oci://r/a:1")) == []
    (said,) = WasmTask.warnings(task(file="<placeholder>"))
    assert said.startswith("spec.file is not base64: ") and said.endswith("; the task will fail")
    both = task(imageUrl="a", file="AGFzbQ==", propletId="p", propletGroupRef={"name": "g"})
    assert [said.split(" is ")[0] for said in WasmTask.warnings(both)] == [
        "spec.imageUrl",
        "spec.propletGroupRef",
    ]


def test_a_module_may_have_line_breaks() -> None:
    assert module_bytes("AGFz\n  bQ==\n") == b"\0asm"
    with pytest.raises(ValueError, match=r"spec\.file is not base64"):
        module_bytes("AGFzb")


# --- groups --------------------------------------------------------------------------------------


def test_an_unknown_algorithm_of_a_group() -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "scheduling": {"algorithm": "fastest"}}
    (said,) = problems(PropletGroup, made("PropletGroup", spec))
    assert said.startswith('spec.scheduling.algorithm: Unsupported value: "fastest"')
    for algorithm in ("round-robin", "least-loaded", "random", "affinity", "advanced"):
        spec["scheduling"] = {"algorithm": algorithm}
        assert problems(PropletGroup, made("PropletGroup", spec)) == []


# --- jobs ----------------------------------------------------------------------------------------

INVALID: list[tuple[Obj, str]] = [
    ({"experimentId": ""}, "experimentId is required"),
    ({"modelRef": ""}, "modelRef is required"),
    ({"taskWasmImage": ""}, "taskWasmImage is required"),
    ({"participants": []}, "at least one participant is required"),
    ({"kOfN": 0}, "kOfN must be greater than 0"),
    ({"kOfN": -1}, "kOfN must be greater than 0"),
    ({"kOfN": 3}, "kOfN cannot be greater than number of participants"),
    ({"experimentId": "", "kOfN": 9}, "experimentId is required"),
]


@pytest.mark.parametrize(("spec", "why"), INVALID)
def test_what_the_contract_lets_in_and_fails(spec: Obj, why: str) -> None:
    obj = job(**spec)
    assert FederatedJob.validate(obj) == []
    assert invalid_spec(FederatedJob.read(obj).spec) == why
    assert FederatedJob.warnings(obj) == [f"{why}; the job will fail with InvalidSpec"]


def test_a_good_job_has_nothing_to_be_said_about() -> None:
    assert invalid_spec(FederatedJob.read(job()).spec) == ""
    assert FederatedJob.warnings(job()) == []
    assert FederatedJob.warnings(job(rounds={"total": 0})) == [
        "spec.rounds.total: less than 1 counts as 1"
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"participants": [{"propletId": "a"}] * 2}, "spec.participants[1].propletId"),
        ({"participants": [{"propletId": "A"}]}, "spec.participants[0].propletId"),
        ({"participants": [{"propletId": "a" * 60}]}, "metadata.name"),
        ({"rounds": {"total": 1, "onTimeout": "wait"}}, "spec.rounds.onTimeout"),
        ({"rounds": {"total": 1, "minUpdates": 0}}, "spec.rounds.minUpdates"),
        ({"rounds": {"total": 1, "strategy": "random"}}, "spec.rounds.strategy"),
        ({"template": {"volumes": [{"name": "fl"}]}}, "spec.template.volumes[0].name"),
    ],
)  # fmt: skip
def test_a_job_that_can_never_work(spec: Obj, field: str) -> None:
    assert [p.field for p in FederatedJob.validate(job(**spec))] == [field]


def test_a_round_is_judged_by_the_same_rules() -> None:
    spec = {
        "roundId": "round-1", "federatedJobRef": {}, "modelRef": "m", "taskWasmImage": "i",
        "participants": ["a", "a"], "kOfN": 1, "timeoutSeconds": 1,
        "aggregator": {"algorithm": "best"},
    }  # fmt: skip
    fields = [p.field for p in TrainingRound.validate(made("TrainingRound", spec))]
    assert fields == ["spec.participants[1]", "spec.aggregator.algorithm"]


# --- aggregators ---------------------------------------------------------------------------------


def aggregated(algorithm: str, config: Any = None, **more: Any) -> list[str]:
    section = {"algorithm": algorithm, **({} if config is None else {"config": config}), **more}
    return problems(FederatedJob, job(aggregator=section))


def test_the_table_says_what_the_engine_says() -> None:
    assert list(STRATEGIES) == list(ENGINE)
    for name, kind in ENGINE.items():
        known = STRATEGIES[name]
        assert list(known) == list(kind.parameters), name
        for key, number in kind.parameters.items():
            mine = known[key]
            assert (mine.low, mine.high, mine.whole, mine.open) == (
                number.low, number.high, number.whole, number.open,
            )  # fmt: skip
        assert (name in AVERAGING) is issubclass(kind, Averaging)


@pytest.mark.parametrize("name", ["", "FedAvg", *STRATEGIES])
def test_algorithms_that_there_are(name: str) -> None:
    assert aggregated(name, {}) == aggregated(name) == []
    assert canonical(name) in STRATEGIES


def test_an_algorithm_that_there_is_not() -> None:
    (said,) = aggregated("fedbest", {"mu": 1})
    assert said.startswith('spec.aggregator.algorithm: Unsupported value: "fedbest": supported')


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("fedavg", {"mu": 1}, 'config.mu: Unsupported value: "mu": supported values: "format"'),
        ("fedprox", {"mu": "1"}, 'config.mu: Invalid value: "1": must be a number'),
        ("fedprox", {"mu": True}, "config.mu: Invalid value: true: must be a number"),
        ("fedprox", {"mu": -1}, "config.mu: Invalid value: -1: must be in [0, inf]"),
        ("fedavgm", {"momentum": 1.0}, "config.momentum: Invalid value: 1.0: must be in [0, 1)"),
        ("krum", {"byzantine": 1.5}, "config.byzantine: Invalid value: 1.5: must be a whole"),
        ("trimmed-mean", {"fraction": 0.5}, "config.fraction: Invalid value: 0.5: must be in [0"),
        ("fedavg", [1], "config: Invalid value: [1]: must be an object"),
        ("fedavg", {"format": 5}, "config.format: Invalid value: 5: must be the name of a format"),
    ],
)  # fmt: skip
def test_a_config_that_is_wrong(name: str, config: Any, said: str) -> None:
    (found,) = aggregated(name, config)
    assert found.startswith(f"spec.aggregator.{said}")


def test_privacy_needs_a_mean() -> None:
    privacy = {"clip": 1.0, "noise": 0.5, "epsilon": 3}
    assert aggregated("fedadam", {"tau": 0.1}, privacy=privacy) == []
    (said,) = aggregated("median", privacy=privacy)
    assert said.startswith("spec.aggregator.privacy: ")


def test_admission_does_not_wait_for_the_engine() -> None:
    script = (
        "import sys; from corral.api.propeller.kinds import FederatedJob; "
        "FederatedJob.validate({}); print('numpy' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "False"

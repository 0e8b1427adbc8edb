"""Rules of TrainingJobs beyond the schema."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api import all_crds, kind_of
from corral.api.fields import span_seconds
from corral.api.training.kinds import Checkpoint, TrainingJob, merged_template
from tests.cluster.webhooks_runtime.training_cases import FULL, PVC, changed, job, storage

Obj = dict[str, Any]


def problems(obj: Obj, old: Obj | None = None) -> list[str]:
    return [str(problem) for problem in TrainingJob.validate(obj, old)]


RULES: dict[str, tuple[Obj, list[str]]] = {
    "no container": (
        {**job(), "spec": {}},
        ["spec.template.spec.containers: Required value: or set spec.image"],
    ),
    "no image": (
        job(image=None, template={"spec": {"containers": [{"name": "a"}]}}),
        ["spec.template.spec.containers[0].image: Required value"],
    ),
    "names of containers": (
        job(
            template={
                "spec": {
                    "containers": [
                        {"name": "a", "image": "x"},
                        {"name": "a", "image": "x"},
                        {"image": "x"},
                    ]
                }
            }
        ),
        [
            'spec.template.spec.containers[1].name: Duplicate value: "a"',
            "spec.template.spec.containers[2].name: Required value",
        ],
    ),
    "restart policy": (
        job(template={"spec": {"restartPolicy": "Always"}}),
        [
            'spec.template.spec.restartPolicy: Unsupported value: "Always": '
            'supported values: "Never", "OnFailure"'
        ],
    ),
    "containers no list": (
        job(template={"spec": {"containers": {}}}),
        ["spec.template.spec.containers: Invalid value: {}: must be a list"],
    ),
    "size": (
        job(checkpoint=storage(pvc={"size": "0"})),
        ['spec.checkpoint.storage.pvc.size: Invalid value: "0": must be greater than zero'],
    ),
    "restore": (
        job(checkpoint={"storage": PVC, "restore": {"from": "Best Of"}}),
        [
            'spec.checkpoint.restore.from: Invalid value: "Best Of": must be Latest, None, the '
            "name of a Checkpoint, or a URI"
        ],
    ),
}


@pytest.mark.parametrize("obj,expected", RULES.values(), ids=RULES)
def test_rules(obj: Obj, expected: list[str]) -> None:
    assert problems(obj) == expected


@pytest.mark.parametrize("source", ["Latest", "None", "mnist-000012", "s3://bucket/a/b"])
def test_sources_to_restore_from(source: str) -> None:
    assert problems(job(checkpoint={"storage": PVC, "restore": {"from": source}})) == []


def test_mistakes_of_schema_and_rules_come_together() -> None:
    found = problems(
        job(
            framework="mxnet",
            template={"spec": {"restartPolicy": "Always"}},
            checkpoint={"interval": "soon", "storage": {}},
        )
    )
    assert [text.partition(":")[0] for text in found] == [
        "spec.framework",
        "spec.checkpoint.interval",
        "spec.template.spec.restartPolicy",
        "spec.checkpoint.storage",
    ]


def test_no_rule_speaks_of_what_is_wrong_already() -> None:
    found = problems(job(replicas="four", elastic={"minReplicas": 2, "maxReplicas": 8}))
    assert [text.partition(":")[0] for text in found] == ["spec.replicas"]


def test_an_object_without_a_spec() -> None:
    obj = job()
    del obj["spec"]
    assert problems(obj) == ["spec: Required value"]


@pytest.mark.parametrize(
    "name,text",
    [
        ("x" * 57, "metadata.name: Too long: may not be more than 56 bytes"),
        (
            "1st",
            'metadata.name: Invalid value: "1st": metadata.name in body should match '
            "'^[a-z]([-a-z0-9]*[a-z0-9])?$'",
        ),
    ],
)
def test_names(name: str, text: str) -> None:
    assert problems({**job(), "metadata": {"name": name}}) == [text]


# --- changes -----------------------------------------------------------------------------------

SUSPENDED: Obj = {"suspend": True}
RUNNING = "may only be changed while the job is suspended"
CHANGED: dict[str, tuple[Obj, Obj, list[str]]] = {
    "image": (job(), job(image="y"), [f"spec.image: Forbidden: {RUNNING}"]),
    "image while suspended": (job(runPolicy=SUSPENDED), job(image="y"), []),
    "suspend and change at once": (
        job(),
        job(image="y", runPolicy=SUSPENDED),
        [f"spec.image: Forbidden: {RUNNING}"],
    ),
    "replicas": (job(), job(replicas=2), [f"spec.replicas: Forbidden: {RUNNING} or elastic"]),
    "replicas of elastic": (
        job(elastic={"maxReplicas": 3}),
        job(elastic={"maxReplicas": 4}, replicas=4),
        [],
    ),
    "elastic": (job(), job(elastic={"maxReplicas": 1}), [f"spec.elastic: Forbidden: {RUNNING}"]),
    "checkpoint": (
        job(),
        job(checkpoint={"storage": PVC}),
        [f"spec.checkpoint: Forbidden: {RUNNING}"],
    ),
    "checkpoint details": (
        job(checkpoint={"storage": PVC}),
        job(checkpoint={"storage": PVC, "interval": "1h", "retention": {"keepLast": 1}}),
        [],
    ),
    "run policy": (job(), job(runPolicy={"backoffLimit": 9, "suspend": True}), []),
    "several": (
        job(),
        job(framework="jax", command=["x"], serviceAccount={"create": False}),
        [
            'spec.framework: Invalid value: "jax": field is immutable',
            "spec.serviceAccount.create: Invalid value: false: field is immutable",
            f"spec.command: Forbidden: {RUNNING}",
        ],
    ),
    "defaults written out": (job(), job(replicas=1, runPolicy={"suspend": False}), []),
}


@pytest.mark.parametrize("old,new,expected", CHANGED.values(), ids=CHANGED)
def test_changes(old: Obj, new: Obj, expected: list[str]) -> None:
    assert problems(new, old) == expected


def test_a_damaged_old_object_is_not_held_against_the_new_one() -> None:
    assert problems(job(), {"spec": []}) == []


# --- warnings ----------------------------------------------------------------------------------

WARNED: dict[str, tuple[Obj, str]] = {
    "elastic": (job(elastic={"maxReplicas": 2}), "spec.elastic: without spec.checkpoint"),
    "interval": (
        job(checkpoint={"storage": PVC}, runPolicy={"activeDeadlineSeconds": 600}),
        "spec.checkpoint.interval: is not less than",
    ),
    "ttl": (job(runPolicy={"ttlSecondsAfterFinished": 0}), "spec.runPolicy.ttlSeconds"),
    "image": (
        job(template={"spec": {"containers": [{"name": "a", "image": "y"}]}}),
        "spec.image: replaces the image",
    ),
    "one node": (
        job(
            replicas=2,
            checkpoint=storage(pvc={"size": "1Gi", "accessModes": ["ReadWriteOnce"]}),
        ),
        "spec.checkpoint.storage.pvc.accessModes: without ReadWriteMany",
    ),
    "local": (job(checkpoint=storage(local={})), "spec.checkpoint.storage.local: is for embedded"),
}


@pytest.mark.parametrize("obj,beginning", WARNED.values(), ids=WARNED)
def test_warnings(obj: Obj, beginning: str) -> None:
    (text,) = TrainingJob.warnings(obj)
    assert text.startswith(beginning)


def test_no_warnings_about_nothing() -> None:
    assert TrainingJob.warnings(job()) == []
    assert TrainingJob.warnings({**job(), "spec": 1}) == []


# --- the rest ----------------------------------------------------------------------------------


def test_the_shorthand_is_merged_into_the_first_container() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "old",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                },
                {"name": "side", "image": "side"},
            ]
        },
    }
    spec = {
        "template": template,
        "image": "new",
        "command": ["run"],
        "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}],
        "resources": {"limits": {"cpu": 4}, "requests": {"cpu": 2}},
    }
    merged = merged_template(spec)
    assert merged["spec"]["containers"] == [
        {
            "name": "main",
            "image": "new",
            "command": ["run"],
            "env": [
                {"name": "A", "value": "9"},
                {"name": "B", "value": "2"},
                {"name": "C", "value": "3"},
            ],
            "resources": {"limits": {"cpu": 4, "memory": "1Gi"}, "requests": {"cpu": 2}},
        },
        {"name": "side", "image": "side"},
    ]
    assert template["spec"]["containers"][0]["image"] == "old"
    assert merged_template({"image": "x"}) == {
        "spec": {"containers": [{"name": "trainer", "image": "x"}]}
    }
    assert merged_template({}) == {}


def test_reading() -> None:
    read = TrainingJob.read(FULL)
    assert read.spec.elastic is not None and read.spec.elastic.max_replicas == 8
    assert read.spec.checkpoint is not None
    assert read.spec.checkpoint.storage.chosen() == ["pvc"]
    assert read.spec.elastic.metrics[0].model_dump() == {"type": "Pods", "pods": {"x": 1}}
    assert read.metadata["name"] == "mnist"
    assert TrainingJob.read(job()).spec.run_policy.restart_scope == "All"


def test_validating_and_reading_leave_the_object_alone() -> None:
    obj = changed(job(), replicas=None)
    before = repr(obj)
    TrainingJob.validate(obj, obj)
    TrainingJob.read(obj)
    TrainingJob.warnings(obj)
    assert repr(obj) == before


@pytest.mark.parametrize(
    "text,seconds", [("90s", 90), ("1h30m", 5400), ("1.5m", 90), ("5ms", 0.005)]
)
def test_spans(text: str, seconds: float) -> None:
    assert span_seconds(text) == seconds


def test_a_wrong_span() -> None:
    with pytest.raises(ValueError, match="no length of time"):
        span_seconds("1d")


def test_definitions_are_new_objects() -> None:
    first = all_crds()
    first[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert all_crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    names = [crd["metadata"]["name"] for crd in first]
    assert names[:3] == [
        "trainingjobs.training.corral.dev",
        "checkpoints.training.corral.dev",
        "mpijobs.kubeflow.org",
    ]


def test_kinds_of_objects() -> None:
    assert kind_of(job()) is TrainingJob
    assert kind_of({"apiVersion": "v1", "kind": "Pod"}) is None


def test_what_a_checkpoint_is_never_changes() -> None:
    old = {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "Checkpoint",
        "metadata": {"name": "mnist-1"},
        "spec": {"jobRef": {"name": "mnist"}, "step": 1, "uri": "s3://b/1"},
    }
    files = [{"path": "a", "size": 1, "sha256": "0" * 64}]
    assert Checkpoint.validate({**old, "spec": {**old["spec"], "files": files}}, old) == []
    new = {**old, "spec": {**old["spec"], "step": 2, "jobRef": {"name": "b"}}}
    assert [str(p) for p in Checkpoint.validate(new, old)] == [
        'spec.jobRef: Invalid value: {"name":"b"}: field is immutable',
        "spec.step: Invalid value: 2: field is immutable",
    ]

"""TrainingJobs with mistakes, and which fields an API server must complain about.

The same table is checked against the models, against the embedded server's compiled schema, and
against servers, so that all of them agree.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Obj = dict[str, Any]


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": {"image": "train:1", **spec},
    }


def storage(**kinds: Any) -> Obj:
    return {"storage": kinds}


PVC: Obj = {"pvc": {"size": "50Gi"}}
FULL = job(
    framework="pytorch",
    replicas=4,
    procsPerReplica="auto",
    template={"spec": {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"a": "b"}}},
    command=["python", "train.py"],
    args=["--epochs", "3"],
    env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
    resources={"limits": {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": "1"}},
    elastic={"minReplicas": 2, "maxReplicas": 8, "metrics": [{"type": "Pods", "pods": {"x": 1}}]},
    runPolicy={
        "suspend": False,
        "backoffLimit": 3,
        "activeDeadlineSeconds": 86400,
        "ttlSecondsAfterFinished": 3600,
        "cleanPodPolicy": "Running",
        "restartScope": "All",
    },
    checkpoint={
        "interval": "10m",
        "mountPath": "/checkpoints",
        "storage": PVC,
        "retention": {
            "keepLast": 3,
            "keepEvery": 10,
            "keepBest": {"metric": "loss", "mode": "min"},
            "maxAge": "168h",
        },
        "restore": {"from": "Latest"},
    },
    scheduling={
        "queue": "team-a",
        "priorityClassName": "high",
        "gang": True,
        "topology": {"key": "topology.kubernetes.io/rack", "mode": "Preferred"},
        "gpu": {"model": "H100", "mig": ""},
    },
    network={"policy": "Isolated", "mesh": "Disabled"},
    serviceAccount={"create": True, "annotations": {"role": "r"}},
)

GOOD: dict[str, Obj] = {
    "least": job(),
    "everything": FULL,
    "procs number": job(procsPerReplica=8),
    "whole float": job(runPolicy={"backoffLimit": 2.0}),
    "nulls are absent": job(replicas=None, elastic=None, runPolicy=None),
    "empty parts": job(runPolicy={}, scheduling={}, network={}, serviceAccount={}),
    "s3": job(checkpoint=storage(s3={"bucket": "b", "region": "r", "secretRef": {"name": "s"}})),
    "azure": job(checkpoint=storage(azure={"account": "a", "container": "c"})),
    "local": job(checkpoint=storage(local={})),
    "unknown fields": job(mistyped=1, runPolicy={"mistyped": 1}),
    "retention part": job(checkpoint={"storage": PVC, "retention": {"keepBest": {"metric": "a"}}}),
}

BAD: dict[str, tuple[Obj, list[str]]] = {
    "framework": (job(framework="mxnet"), ["spec.framework"]),
    "no replicas": (job(replicas=0), ["spec.replicas"]),
    "replicas text": (job(replicas="4"), ["spec.replicas"]),
    "replicas fraction": (job(replicas=1.5), ["spec.replicas"]),
    "replicas true": (job(replicas=True), ["spec.replicas"]),
    "procs word": (job(procsPerReplica="many"), ["spec.procsPerReplica"]),
    "procs zero": (job(procsPerReplica=0), ["spec.procsPerReplica"]),
    "template list": (job(template=[]), ["spec.template"]),
    "image number": (job(image=1), ["spec.image"]),
    "long image": (job(image="x" * 1025), ["spec.image"]),
    "args item": (job(args=["a", 1]), ["spec.args[1]"]),
    "env nameless": (job(env=[{"value": "x"}]), ["spec.env[0].name"]),
    "env empty name": (job(env=[{"name": ""}]), ["spec.env[0].name"]),
    "quantity": (job(resources={"limits": {"cpu": "2 cores"}}), ["spec.resources.limits.cpu"]),
    "elastic open": (job(elastic={"minReplicas": 1}), ["spec.elastic.maxReplicas"]),
    "metric type": (
        job(elastic={"maxReplicas": 1, "metrics": [{"type": "Moon"}]}),
        ["spec.elastic.metrics[0].type"],
    ),
    "suspend word": (job(runPolicy={"suspend": "yes"}), ["spec.runPolicy.suspend"]),
    "policies": (
        job(runPolicy={"cleanPodPolicy": "Some", "restartScope": "Pod", "backoffLimit": -1}),
        [
            "spec.runPolicy.backoffLimit",
            "spec.runPolicy.cleanPodPolicy",
            "spec.runPolicy.restartScope",
        ],
    ),
    "deadline": (
        job(runPolicy={"activeDeadlineSeconds": 0}),
        ["spec.runPolicy.activeDeadlineSeconds"],
    ),
    "interval": (
        job(checkpoint={"storage": PVC, "interval": "soon"}),
        ["spec.checkpoint.interval"],
    ),
    "mount path": (
        job(checkpoint={"storage": PVC, "mountPath": "checkpoints"}),
        ["spec.checkpoint.mountPath"],
    ),
    "no storage": (job(checkpoint={}), ["spec.checkpoint.storage"]),
    "no bucket": (job(checkpoint=storage(s3={})), ["spec.checkpoint.storage.s3.bucket"]),
    "keep none": (
        job(checkpoint={"storage": PVC, "retention": {"keepLast": 0}}),
        ["spec.checkpoint.retention.keepLast"],
    ),
    "topology": (
        job(scheduling={"topology": {"mode": "Near"}}),
        ["spec.scheduling.topology.key", "spec.scheduling.topology.mode"],
    ),
    "network": (
        job(network={"policy": "Open", "mesh": 1}),
        ["spec.network.mesh", "spec.network.mesh", "spec.network.policy"],
    ),
    "annotations": (
        job(serviceAccount={"annotations": {"a": 1}}),
        ["spec.serviceAccount.annotations.a"],
    ),
    "several at once": (
        job(framework="", replicas=-1, network=[]),
        ["spec.framework", "spec.network", "spec.replicas"],
    ),
    # rules of the definition
    "bounds": (job(elastic={"minReplicas": 3, "maxReplicas": 2}, replicas=3), [
        "spec.elastic.minReplicas", "spec.replicas",
    ]),
    "below": (job(elastic={"minReplicas": 2, "maxReplicas": 3}), ["spec.replicas"]),
    "above": (job(elastic={"minReplicas": 2, "maxReplicas": 3}, replicas=4), ["spec.replicas"]),
    "two storages": (
        job(checkpoint=storage(**PVC, local={})),
        ["spec.checkpoint.storage"],
    ),
    "no kind of storage": (job(checkpoint={"storage": {}}), ["spec.checkpoint.storage"]),
}  # fmt: skip
"""Objects that servers refuse, and the fields of all causes in order."""


def changed(base: Obj, **spec: Any) -> Obj:
    out = deepcopy(base)
    out["spec"].update(spec)
    return out


WITH_PVC = job(checkpoint={"storage": PVC})
CHANGES: dict[str, tuple[Obj, Obj, list[str]]] = {
    "framework": (job(), job(framework="jax"), ["spec.framework"]),
    "storage": (
        WITH_PVC,
        job(checkpoint=storage(pvc={"size": "60Gi"})),
        ["spec.checkpoint.storage"],
    ),
    "mount path": (
        WITH_PVC,
        job(checkpoint={"storage": PVC, "mountPath": "/other"}),
        ["spec.checkpoint.mountPath"],
    ),
}
"""Changes that servers refuse by the definition alone."""

"""The objects of a TrainingJob beside its pods, as they should be. No I/O.

* The headless Service gives pods their names, from the moment they have addresses: replicas look
  for each other before they are ready. It has no ports, for the rendezvous port is not the same in
  every attempt.
* The master Service leads to the metrics of replica 0.
* The NetworkPolicy of an ``Isolated`` job concerns what comes in: replicas of the job may reach
  each other, everybody may reach a port that the template calls ``metrics``, and that is all. What
  goes out is not restricted: where data, models and checkpoints come from is not known here.
* The claim can be mounted by many nodes as soon as there may be several replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.names import (
    JOB_LABEL,
    REPLICA_LABEL,
    claim_name,
    job_labels,
    master_service_name,
    service_name,
)
from corral.families.trainingjob.objects.gangs import Gang
from corral.kube.resources import (
    NETWORKPOLICIES,
    PERSISTENTVOLUMECLAIMS,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from corral.kube.types import Obj

__all__ = [
    "METRICS_PORT",
    "Child",
    "children",
    "claim",
    "headless_service",
    "master_service",
    "metrics_port",
    "needs_account",
    "network_policy",
    "pod_group",
    "service_account",
]

METRICS: Final = "metrics"
METRICS_PORT: Final = 9090
"""Where metrics are looked for if the template has no port of the name ``metrics``."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object, and where it goes."""

    resource: Resource
    obj: Obj


def children(job: Obj, generation: Generation, *, gang: Gang | None = None) -> list[Child]:
    """Everything that the job should have beside its pods."""
    spec: Obj = job["spec"]
    wanted = [
        Child(SERVICES, headless_service(job)),
        Child(SERVICES, master_service(job)),
    ]
    if needs_account(spec):
        wanted.append(Child(SERVICEACCOUNTS, service_account(job)))
    if (spec.get("network") or {}).get("policy", "Isolated") == "Isolated":
        wanted.append(Child(NETWORKPOLICIES, network_policy(job)))
    if _claim_spec(spec) is not None:
        wanted.append(Child(PERSISTENTVOLUMECLAIMS, claim(job)))
    if gang is not None:
        wanted.append(Child(gang.resource, pod_group(job, generation, gang)))
    return wanted


def headless_service(job: Obj) -> Obj:
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, service_name(name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: name},
        },
    }


def master_service(job: Obj) -> Obj:
    name = job["metadata"]["name"]
    declared = metrics_port(job["spec"])
    metadata = _metadata(job, master_service_name(name))
    if declared is not None:
        metadata["annotations"] = {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(declared),
        }
    port = declared or METRICS_PORT
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "selector": {JOB_LABEL: name, REPLICA_LABEL: "0"},
            "ports": [{"name": METRICS, "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def metrics_port(spec: Obj) -> int | None:
    """The port of the template that is called ``metrics``."""
    pod = (spec.get("template") or {}).get("spec") or {}  # no shorthand is about ports
    for container in pod.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == METRICS and port.get("containerPort"):
                return int(port["containerPort"])
    return None


def needs_account(spec: Obj) -> bool:
    """Whether the job has a ServiceAccount of its own; not if the template names another."""
    pod = (spec.get("template") or {}).get("spec") or {}
    named = pod.get("serviceAccountName") or pod.get("serviceAccount")
    return bool((spec.get("serviceAccount") or {}).get("create", True)) and not named


def service_account(job: Obj) -> Obj:
    metadata = _metadata(job, job["metadata"]["name"])
    annotations = (job["spec"].get("serviceAccount") or {}).get("annotations")
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def network_policy(job: Obj) -> Obj:
    name = job["metadata"]["name"]
    replicas = {"matchLabels": {JOB_LABEL: name}}
    ingress: list[Obj] = [{"from": [{"podSelector": replicas}]}]
    declared = metrics_port(job["spec"])
    if declared is not None:
        ingress.append({"ports": [{"port": declared, "protocol": "TCP"}]})
    return {
        "apiVersion": NETWORKPOLICIES.api_version,
        "kind": "NetworkPolicy",
        "metadata": _metadata(job, name),
        "spec": {"podSelector": replicas, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def claim(job: Obj) -> Obj:
    """The claim for checkpoints; the job must ask for one."""
    storage = _claim_spec(job["spec"])
    assert storage is not None, "the job keeps its checkpoints in a claim"
    spec: Obj = {
        "accessModes": storage.get("accessModes") or [_access_mode(job["spec"])],
        "resources": {"requests": {"storage": storage["size"]}},
    }
    if storage.get("storageClassName") is not None:
        spec["storageClassName"] = storage["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(job, claim_name(job["metadata"]["name"])),
        "spec": spec,
    }


def pod_group(job: Obj, generation: Generation, gang: Gang) -> Obj:
    """All replicas of the generation at once, or none: fewer would wait for each other in vain."""
    spec: Obj = {"minMember": generation.world}
    priority = (job["spec"].get("scheduling") or {}).get("priorityClassName")
    if priority and gang.resource.group != "scheduling.x-k8s.io":
        spec["priorityClassName"] = priority
    return {
        "apiVersion": gang.resource.api_version,
        "kind": gang.resource.kind,
        "metadata": _metadata(job, job["metadata"]["name"]),
        "spec": spec,
    }


def _claim_spec(spec: Obj) -> Obj | None:
    found: Obj | None = ((spec.get("checkpoint") or {}).get("storage") or {}).get("pvc")
    return found


def _access_mode(spec: Obj) -> str:
    most = max(spec.get("replicas", 1), (spec.get("elastic") or {}).get("maxReplicas", 1))
    return "ReadWriteMany" if most > 1 else "ReadWriteOnce"


def _metadata(job: Obj, name: str) -> Obj:
    return {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": job_labels(job["metadata"]["name"]),
    }

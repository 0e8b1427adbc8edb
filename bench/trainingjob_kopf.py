"""The peer: an operator for TrainingJobs as kopf's documentation teaches, with its defaults.

Handlers are functions, children are adopted and created with the official client, the status is
what `patch.status` says, and pods are followed by an index and an event handler. It makes the same
objects as ours: service account, headless service, master service, network policy and one pod per
replica, with the same labels and rendezvous variables.

    kopf run --all-namespaces --standalone bench/trainingjob_kopf.py
"""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes

GROUP, VERSION, PLURAL = "training.corral.dev", "v1alpha1", "trainingjobs"
JOB_LABEL, REPLICA_LABEL = "trainingjob", "replica-id"
PORT = 29500
METRICS_PORT = 9090


def labelled(job: str) -> dict[str, str]:
    return {JOB_LABEL: job, "app.kubernetes.io/managed-by": "kopf"}


def account(job: str) -> dict[str, Any]:
    return {"metadata": {"name": job, "labels": labelled(job)}}


def headless_service(job: str) -> dict[str, Any]:
    return {
        "metadata": {"name": job, "labels": labelled(job)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: job},
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }


def master_service(job: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{job}-master", "labels": labelled(job)},
        "spec": {
            "selector": {JOB_LABEL: job, REPLICA_LABEL: "0"},
            "ports": [{"name": "metrics", "port": METRICS_PORT}],
        },
    }


def network_policy(job: str) -> dict[str, Any]:
    own = {"podSelector": {"matchLabels": {JOB_LABEL: job}}}
    return {
        "metadata": {"name": job, "labels": labelled(job)},
        "spec": {
            "podSelector": {"matchLabels": {JOB_LABEL: job}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [own]}, {"ports": [{"port": METRICS_PORT}]}],
        },
    }


def pod(job: str, namespace: str, spec: kopf.Spec, index: int) -> dict[str, Any]:
    world = str(spec["replicas"])
    master = f"{job}-0.{job}.{namespace}.svc"
    env = {
        "MASTER_ADDR": master,
        "MASTER_PORT": str(PORT),
        "RANK": str(index),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": world,
        "PET_NNODES": world,
        "PET_NODE_RANK": str(index),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": str(PORT),
        "CORRAL_JOB": job,
        "CORRAL_NAMESPACE": namespace,
        "CORRAL_REPLICA": str(index),
        "CORRAL_REPLICAS": world,
        "CORRAL_ATTEMPT": "1",
        "CORRAL_FRAMEWORK": spec["framework"],
    }
    container = {
        "name": "main",
        "image": spec["image"],
        "command": list(spec["command"]),
        "resources": dict(spec.get("resources") or {}),
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"name": "rendezvous", "containerPort": PORT}],
    }
    return {
        "metadata": {
            "name": f"{job}-{index}",
            "labels": {**labelled(job), REPLICA_LABEL: str(index)},
        },
        "spec": {
            "hostname": f"{job}-{index}",
            "subdomain": job,
            "restartPolicy": "Never",
            "serviceAccountName": job,
            "containers": [container],
        },
    }


@kopf.on.create(GROUP, VERSION, PLURAL)
def create_job(
    spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, logger: kopf.Logger, **_: Any
) -> None:
    core, networking = kubernetes.client.CoreV1Api(), kubernetes.client.NetworkingV1Api()
    children = [
        (core.create_namespaced_service_account, account(name)),
        (core.create_namespaced_service, headless_service(name)),
        (core.create_namespaced_service, master_service(name)),
        (networking.create_namespaced_network_policy, network_policy(name)),
    ]
    children += [
        (core.create_namespaced_pod, pod(name, namespace, spec, index))
        for index in range(spec["replicas"])
    ]
    for create, body in children:
        kopf.adopt(body)
        try:
            create(namespace=namespace, body=body)
        except kubernetes.client.ApiException as error:
            if error.status != 409:  # made by an attempt that failed later
                raise
    # Not the phase: this is written after the handler, when pods may run already.
    patch.status["replicas"] = {"desired": spec["replicas"]}
    logger.info("%d pods were created", spec["replicas"])


@kopf.index("pods", labels={JOB_LABEL: kopf.PRESENT})
def phases(name: str, namespace: str, labels: kopf.Labels, status: kopf.Status, **_: Any) -> Any:
    return {(namespace, labels[JOB_LABEL]): (name, status.get("phase"))}


@kopf.on.event("pods", labels={JOB_LABEL: kopf.PRESENT})
def pod_changed(
    namespace: str,
    labels: kopf.Labels,
    status: kopf.Status,
    memo: kopf.Memo,
    phases: kopf.Index[Any, Any],
    **_: Any,
) -> None:
    if memo.get("phase") == status.get("phase"):
        return
    memo.phase = status.get("phase")
    job = labels[JOB_LABEL]
    found = [phase for _, phase in phases.get((namespace, job), [])]
    running, done = found.count("Running"), found.count("Succeeded")
    if status.get("phase") == "Pending":
        return  # the create handler says so
    phase = "Running" if running else "Succeeded" if done == len(found) else "Pending"
    counts = {"active": running, "ready": running, "succeeded": done}
    body = {"status": {"phase": phase, "replicas": counts}}
    kubernetes.client.CustomObjectsApi().patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, PLURAL, job, body
    )

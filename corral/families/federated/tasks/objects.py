"""The objects of a WasmTask: ConfigMap, Secret, and a Job or for daemons a Deployment. No I/O.

The pod is bound to the node of its proplet. A module is run by the runtime class ``wasm``; whatever
has no ``oci://`` in front is an ordinary image. A task of a round has couriers beside it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import orjson

from corral.api.propeller.kinds import WasmTask
from corral.api.propeller.rules import module_bytes
from corral.api.propeller.tasks import WasmTaskSpec
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names
from corral.families.federated.tasks.couriers import courier_parts
from corral.kube.resources import DEPLOYMENTS, JOBS, Resource
from corral.kube.types import Obj

__all__ = [
    "config_map",
    "is_learning",
    "module_secret",
    "runs_module",
    "workload",
    "workload_kind",
]

SCHEME: Final = "oci://"
RUNTIME_CLASS: Final = "wasm"
INPUTS_ANNOTATION: Final = "wasm.corral.dev/inputs"
"""On the pod: the arguments of the function that a module exports, as JSON."""
FUNCTION_ANNOTATION: Final = "wasm.corral.dev/function"
"""On the pod: the function that is meant, where a module has several."""
_MODULE_VOLUME: Final = "corral-module"


def is_learning(spec: WasmTaskSpec) -> bool:
    """Whether it is a participant's task of a round."""
    return "ROUND_ID" in (spec.env or {})


def runs_module(spec: WasmTaskSpec) -> bool:
    """Whether what it runs is a WebAssembly module."""
    if spec.runtime_class_name is not None:
        return spec.runtime_class_name == RUNTIME_CLASS
    return bool(spec.file) or (spec.image_url or "").startswith(SCHEME)


def workload_kind(spec: WasmTaskSpec) -> Resource:
    """A daemon never completes, so it is no Job."""
    return DEPLOYMENTS if spec.daemon else JOBS


def config_map(task: WasmTask) -> Obj:
    """The variables of the task."""
    spec = task.spec
    data = dict(spec.env or {})
    if spec.file:
        data["wasm_file_provided"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(task, names.config_name(task.name)),
        "data": data,
    }


def module_secret(task: WasmTask) -> Obj | None:
    """The module that came with the task.

    Raises:
        ValueError: it is not base64.
    """
    if not task.spec.file:
        return None
    module = base64.b64encode(module_bytes(task.spec.file)).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(task, names.module_name(task.name)),
        "type": "Opaque",
        "data": {names.MODULE: module},
    }


def workload(
    task: WasmTask, proplet: Proplet, settings: FederatedSettings, *, attempt: int = 0
) -> Obj:
    """The Job or Deployment that runs the task on the proplet."""
    spec = task.spec
    labels = {
        names.TASK_LABEL: task.name,
        names.ATTEMPT_LABEL: str(attempt),
        names.PROPLET_ID_LABEL: _label_value(proplet.id),
    }
    pod = {
        "metadata": {
            "labels": {**labels, names.JOB_NAME_LABEL: names.job_name(task.name)},
            **({"annotations": annotations} if (annotations := _annotations(task)) else {}),
        },
        "spec": _pod_spec(task, proplet, settings),
    }
    metadata = {**_metadata(task, names.job_name(task.name)), "labels": labels}
    if spec.daemon:
        chosen = {names.TASK_LABEL: task.name, names.ATTEMPT_LABEL: str(attempt)}
        return {
            "apiVersion": DEPLOYMENTS.api_version,
            "kind": DEPLOYMENTS.kind,
            "metadata": metadata,
            "spec": {
                "replicas": 1,
                # Two of one daemon at once on one proplet would be one too many.
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": chosen},
                "template": pod,
            },
        }
    body: Obj = {"backoffLimit": _backoff_limit(spec, settings), "template": pod}
    if spec.active_deadline_seconds is not None:
        body["activeDeadlineSeconds"] = spec.active_deadline_seconds
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata,
        "spec": body,
    }


def restart_policy(spec: WasmTaskSpec) -> str:
    """Of the pod; a Job cannot have Always, and a round does not wait for repetitions."""
    if spec.daemon:
        return "Always"
    if spec.restart_policy in ("OnFailure", "Never"):
        return spec.restart_policy
    return "Never" if is_learning(spec) and not spec.restart_policy else "OnFailure"


def _backoff_limit(spec: WasmTaskSpec, settings: FederatedSettings) -> int:
    if spec.backoff_limit is not None:
        return spec.backoff_limit
    return 0 if restart_policy(spec) == "Never" else settings.backoff_limit


def _metadata(task: WasmTask, name: str) -> Obj:
    return {
        "name": name,
        "namespace": task.metadata.get("namespace"),
        "labels": {names.TASK_LABEL: task.name},
    }


def _label_value(id: str) -> str:
    """Ids of nodes may be longer than labels."""
    return id[:63].rstrip("-._")


def _annotations(task: WasmTask) -> dict[str, str]:
    """For modules that are no programs: the function of the task's name is called with these."""
    spec = task.spec
    if not spec.inputs or not runs_module(spec):
        return {}
    inputs = orjson.dumps(spec.inputs).decode()
    return {INPUTS_ANNOTATION: inputs, FUNCTION_ANNOTATION: task.name}


# --- the pod -------------------------------------------------------------------------------------


def _pod_spec(task: WasmTask, proplet: Proplet, settings: FederatedSettings) -> Obj:
    spec = task.spec
    volumes: list[Obj] = [dict(volume) for volume in spec.volumes or ()]
    container = _container(task, proplet, settings)
    if spec.file:
        secret = {"secretName": names.module_name(task.name)}
        volumes.append({"name": _MODULE_VOLUME, "secret": secret})
    out: Obj = {
        "restartPolicy": restart_policy(spec),
        "containers": [container],
        "affinity": _bound_to(proplet.node),
        "enableServiceLinks": False,
    }
    if proplet.tolerations:
        out["tolerations"] = [dict(toleration) for toleration in proplet.tolerations]
    if spec.runtime_class_name or (spec.runtime_class_name is None and runs_module(spec)):
        out["runtimeClassName"] = spec.runtime_class_name or RUNTIME_CLASS
    if spec.service_account_name:
        out["serviceAccountName"] = spec.service_account_name
    else:
        # A module is given its volumes: one with a token is nothing for strangers' code.
        out["automountServiceAccountToken"] = False
    if spec.image_pull_secrets:
        out["imagePullSecrets"] = [{"name": ref.name} for ref in spec.image_pull_secrets]
    if is_learning(spec):
        parts = courier_parts(task, proplet.id, settings)
        volumes += parts.volumes
        container["env"] += parts.task_env
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *parts.task_mounts]
        out["initContainers"] = parts.init_containers
        out["terminationGracePeriodSeconds"] = settings.delivery_grace
    if volumes:
        out["volumes"] = volumes
    return out


def _container(task: WasmTask, proplet: Proplet, settings: FederatedSettings) -> Obj:
    spec = task.spec
    out: Obj = {
        "name": names.CONTAINER,
        "image": settings.module_image if spec.file else _image(spec.image_url or ""),
        "env": _environment(task, proplet),
        "envFrom": [{"configMapRef": {"name": names.config_name(task.name)}}],
        # What a task says at its end is found though it wrote no message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    mounts: list[Mapping[str, Any]] = list(spec.volume_mounts or ())
    if spec.file:
        out["command"] = [f"{names.MODULE_DIR}/{names.MODULE}"]
        mounts.append({"name": _MODULE_VOLUME, "mountPath": names.MODULE_DIR, "readOnly": True})
    if spec.cli_args:
        out["args"] = list(spec.cli_args)
    if spec.resources is not None:
        out["resources"] = spec.resources.model_dump(by_alias=True, exclude_none=True)
    if mounts:
        out["volumeMounts"] = [dict(mount) for mount in mounts]
    return out


def _image(url: str) -> str:
    return url.removeprefix(SCHEME)


def _environment(task: WasmTask, proplet: Proplet) -> list[Obj]:
    """Over the ConfigMap's: who and where the task is, and what its spec says beside variables."""
    spec = task.spec
    env = {"PROPLET_ID": proplet.id, "TASK_ID": task.name}
    if spec.mode:
        env["TASK_MODE"] = spec.mode
    if spec.inputs:
        env["TASK_INPUTS"] = orjson.dumps(spec.inputs).decode()
    profile = spec.monitoring_profile
    if profile is not None and profile.enabled:
        env["TASK_MONITORING"] = orjson.dumps(
            profile.model_dump(by_alias=True, exclude_none=True)
        ).decode()
    return [{"name": name, "value": value} for name, value in env.items()]


def _bound_to(node: str) -> Obj:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

"""The couriers of a participant's task: what carries the model to it and its update away. No I/O.

Both are ordinary processes, also beside a module, and have credentials that the task has not. They
share the folder ``/fl`` with it. What they do is in `corral.inpod.courier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from corral.api.propeller import ROUND_LABEL, WasmTask
from corral.controllers.federated.settings import FederatedSettings
from corral.controllers.federated.tasks import names
from corral.kube.types import Obj

__all__ = ["Parts", "courier_parts", "update_reference"]

_FL_VOLUME: Final = "fl"
_TOKEN_VOLUME: Final = "corral-token"
_LOGINS_VOLUME: Final = "corral-logins"
_TOKEN_DIR: Final = "/var/run/secrets/corral"
_LOGINS_DIR: Final = "/var/run/secrets/corral-registries"
_TOLD: Final = (
    "ROUND_ID",
    "MODEL_URI",
    "FL_JOB_ID",
    "FL_GLOBAL_VERSION",
    "FL_GLOBAL_UPDATE_REF",
    "FL_GLOBAL_UPDATE_B64",
    "FL_GLOBAL_UPDATE_FORMAT",
)
"""Variables of the task that couriers go by."""
_ENDED_VOLUME: Final = "corral-ended"
_ENDED_DIR: Final = "/var/run/corral-courier"
_DELIVER: Final = (
    "trap ': > \"$CORRAL_ENDED\"' TERM; python -m corral.inpod.courier deliver & "
    "while kill -0 $! 2>/dev/null; do wait $!; done"
)
"""A shell is there at once: a task may have ended before Python has started."""
_RESOURCES: Final = {"requests": {"cpu": "10m", "memory": "32Mi"}}


@dataclass(frozen=True, slots=True)
class Parts:
    """What the couriers add to a pod."""

    init_containers: list[Obj]
    volumes: list[Obj]
    task_env: list[Obj]
    task_mounts: list[Obj]


def update_reference(task: WasmTask, registry: str) -> str:
    """Where a large update is put: ``<registry>/<namespace>/<job>/updates:<task>``."""
    labels = task.metadata.get("labels") or {}
    job = labels.get(names.JOB_LABEL) or labels.get(ROUND_LABEL) or task.name
    return f"{registry.rstrip('/')}/{task.metadata['namespace']}/{job}/updates:{task.name}"


def courier_parts(task: WasmTask, proplet: str, settings: FederatedSettings) -> Parts:
    """The folder, and the two containers."""
    env = task.spec.env or {}
    volumes: list[Obj] = [
        {"name": _FL_VOLUME, "emptyDir": {}},
        {"name": _TOKEN_VOLUME, "projected": {"sources": [_token()]}},
        {"name": _ENDED_VOLUME, "emptyDir": {}},
    ]
    mounts: list[Obj] = [
        {"name": _FL_VOLUME, "mountPath": names.FL_DIR},
        {"name": _TOKEN_VOLUME, "mountPath": _TOKEN_DIR, "readOnly": True},
    ]
    told = _told(task, proplet, settings)
    secrets = [ref.name for ref in task.spec.image_pull_secrets or () if ref.name]
    if secrets:
        volumes.append({"name": _LOGINS_VOLUME, "projected": {"sources": _logins(secrets)}})
        mounts.append({"name": _LOGINS_VOLUME, "mountPath": _LOGINS_DIR, "readOnly": True})
        told["CORRAL_REGISTRY_LOGINS"] = _LOGINS_DIR
    command = ["python", "-m", "corral.inpod.courier", "fetch"]
    fetch = _courier(names.FETCHER, command, settings, told, mounts)
    told = {**told, "CORRAL_ENDED": f"{_ENDED_DIR}/ended"}
    mounts = [*mounts, {"name": _ENDED_VOLUME, "mountPath": _ENDED_DIR}]
    deliver = _courier(names.COURIER, ["sh", "-c", _DELIVER], settings, told, mounts)
    deliver["restartPolicy"] = "Always"
    wanted = any(env.get(name) for name in ("FL_GLOBAL_UPDATE_REF", "FL_GLOBAL_UPDATE_B64"))
    fetched = wanted or str(env.get("MODEL_URI") or "").startswith("oci://")
    return Parts(
        init_containers=[fetch, deliver] if fetched else [deliver],
        volumes=volumes,
        task_env=[{"name": "FL_DIR", "value": names.FL_DIR}],
        task_mounts=[{"name": _FL_VOLUME, "mountPath": names.FL_DIR}],
    )


def _courier(
    name: str,
    command: list[str],
    settings: FederatedSettings,
    told: dict[str, str],
    mounts: list[Obj],
) -> Obj:
    return {
        "name": name,
        "image": settings.courier_image,
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [{"name": key, "value": value} for key, value in told.items()],
        "volumeMounts": [dict(mount) for mount in mounts],
        "resources": {kind: dict(amounts) for kind, amounts in _RESOURCES.items()},
    }


def _told(task: WasmTask, proplet: str, settings: FederatedSettings) -> dict[str, str]:
    env = task.spec.env or {}
    registry = env.get("FL_REGISTRY") or settings.registry
    out = {key: env[key] for key in _TOLD if env.get(key)}
    out["PROPLET_ID"] = proplet
    out["TASK_ID"] = task.name
    out["FL_DIR"] = names.FL_DIR
    out["CORRAL_REGISTRY_TOKEN"] = f"{_TOKEN_DIR}/token"
    # Nodes without mounts rewrite paths in variables, and in no other place.
    out["CORRAL_TERMINATION_LOG"] = "/dev/termination-log"
    if registry:
        out["FL_UPDATE_REF"] = update_reference(task, registry)
    pairs = dict(pair.split("=", 1) for pair in settings.registry_map if "=" in pair)
    if pairs:
        out["CORRAL_REGISTRIES"] = orjson.dumps(pairs).decode()
    return out


def _token() -> Obj:
    return {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}


def _logins(secrets: list[str]) -> list[Obj]:
    return [
        {
            "secret": {
                "name": name,
                "items": [{"key": ".dockerconfigjson", "path": f"{name}.json"}],
            }
        }
        for name in secrets
    ]

"""Couriers: what carries a model to a pod's container and what it made away. No I/O.

Both are ordinary processes, also beside a module, and have credentials that the container has not.
They share the folder ``/fl`` with it. What they do is in `corral.podtools.uploader`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from corral.kube.types import Obj
from corral.oci.own import AUDIENCE
from corral.podtools.commands import UPLOADER, python_command

__all__ = ["COURIER", "FETCHER", "FL_DIR", "Parts", "courier_parts"]

FL_DIR: Final = "/fl"
COURIER: Final = "deliver"
FETCHER: Final = "fetch-model"
_FL_VOLUME: Final = "fl"
_TOKEN_VOLUME: Final = "corral-token"
_LOGINS_VOLUME: Final = "corral-logins"
_TOKEN_DIR: Final = "/var/run/secrets/corral"
_LOGINS_DIR: Final = "/var/run/secrets/corral-registries"
_ENDED_VOLUME: Final = "corral-ended"
_ENDED_DIR: Final = "/var/run/corral-courier"
_DELIVER: Final = (
    f"trap ': > \"$CORRAL_ENDED\"' TERM; {' '.join(python_command(UPLOADER, 'deliver'))} & "
    "while kill -0 $! 2>/dev/null; do wait $!; done"
)
"""A shell is there at once: a container may have ended before Python has started."""
_RESOURCES: Final = {"requests": {"cpu": "10m", "memory": "32Mi"}}


@dataclass(frozen=True, slots=True)
class Parts:
    """What the couriers add to a pod."""

    init_containers: list[Obj]
    volumes: list[Obj]
    task_env: list[Obj]
    task_mounts: list[Obj]


def courier_parts(
    told: Mapping[str, str],
    *,
    image: str,
    registry_map: Sequence[str],
    fetches: bool,
    secrets: Sequence[str] = (),
) -> Parts:
    """The folder, and the one or two containers.

    ``told`` are their variables (see `corral.podtools.uploader`), ``registry_map`` is ``NAME=URL``
    of registries, ``secrets`` name those with logins for them.
    """
    volumes: list[Obj] = [
        {"name": _FL_VOLUME, "emptyDir": {}},
        {"name": _TOKEN_VOLUME, "projected": {"sources": [_token()]}},
        {"name": _ENDED_VOLUME, "emptyDir": {}},
    ]
    mounts: list[Obj] = [
        {"name": _FL_VOLUME, "mountPath": FL_DIR},
        {"name": _TOKEN_VOLUME, "mountPath": _TOKEN_DIR, "readOnly": True},
    ]
    env = {
        **told,
        "FL_DIR": FL_DIR,
        "CORRAL_REGISTRY_TOKEN": f"{_TOKEN_DIR}/token",
        # Nodes without mounts rewrite paths in variables, and in no other place.
        "CORRAL_TERMINATION_LOG": "/dev/termination-log",
    }
    pairs = dict(pair.split("=", 1) for pair in registry_map if "=" in pair)
    if pairs:
        env["CORRAL_REGISTRIES"] = orjson.dumps(pairs).decode()
    if secrets:
        volumes.append({"name": _LOGINS_VOLUME, "projected": {"sources": _logins(secrets)}})
        mounts.append({"name": _LOGINS_VOLUME, "mountPath": _LOGINS_DIR, "readOnly": True})
        env["CORRAL_REGISTRY_LOGINS"] = _LOGINS_DIR
    fetch = _courier(FETCHER, python_command(UPLOADER, "fetch"), image, env, mounts)
    env = {**env, "CORRAL_ENDED": f"{_ENDED_DIR}/ended"}
    mounts = [*mounts, {"name": _ENDED_VOLUME, "mountPath": _ENDED_DIR}]
    deliver = _courier(COURIER, ["sh", "-c", _DELIVER], image, env, mounts)
    deliver["restartPolicy"] = "Always"
    return Parts(
        init_containers=[fetch, deliver] if fetches else [deliver],
        volumes=volumes,
        task_env=[{"name": "FL_DIR", "value": FL_DIR}],
        task_mounts=[{"name": _FL_VOLUME, "mountPath": FL_DIR}],
    )


def _courier(
    name: str, command: list[str], image: str, env: Mapping[str, str], mounts: list[Obj]
) -> Obj:
    return {
        "name": name,
        "image": image,
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "volumeMounts": [dict(mount) for mount in mounts],
        "resources": {kind: dict(amounts) for kind, amounts in _RESOURCES.items()},
    }


def _token() -> Obj:
    """For registries alone: it says nothing to the API server, and no other token may push."""
    source = {"path": "token", "expirationSeconds": 3600, "audience": AUDIENCE}
    return {"serviceAccountToken": source}


def _logins(secrets: Sequence[str]) -> list[Obj]:
    return [
        {
            "secret": {
                "name": name,
                "items": [{"key": ".dockerconfigjson", "path": f"{name}.json"}],
            }
        }
        for name in secrets
    ]

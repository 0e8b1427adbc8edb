"""What a task has given: the routes by which a result is found, in the order of the contract.

Job annotation, termination message, ConfigMap, Secret, pod annotation; and last, which is ours, the
last line of the log. The first that is a JSON object wins. What the couriers of a participant say
in their termination message comes before what the task itself says there: it is the same, with the
payload or where that is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.api.propeller.kinds import PROGRESS_ANNOTATION, RESULT_ANNOTATION
from corral.families.federated.tasks import names
from corral.kube.client import KubeClient
from corral.kube.errors import Forbidden, NotFound
from corral.kube.resources import CONFIGMAPS, SECRETS
from corral.kube.types import Obj
from corral.runtime.pods.failures import LogLimits, log_lines
from corral.runtime.pods.jsonresults import as_object, last_object

__all__ = [
    "ROUTES",
    "Extracted",
    "courier_error",
    "extract",
    "partial_annotation",
]

JOB_ANNOTATION: Final = "job-annotation"
MESSAGE: Final = "termination-message"
CONFIGMAP: Final = "configmap"
SECRET: Final = "secret"
POD_ANNOTATION: Final = "pod-annotation"
LOG: Final = "log"
ROUTES: Final = (JOB_ANNOTATION, MESSAGE, CONFIGMAP, SECRET, POD_ANNOTATION, LOG)
_KEY: Final = "result"


@dataclass(frozen=True, slots=True)
class Extracted:
    """A result, and by which route it came."""

    source: str
    results: Obj


def partial_annotation(pods: Sequence[Obj]) -> Obj | None:
    """What a running task has annotated its pod with."""
    found = (as_object(_annotation(pod, PROGRESS_ANNOTATION)) for pod in pods)
    return next((result for result in found if result is not None), None)


def courier_error(pods: Sequence[Obj]) -> str:
    """Why an update could not be delivered; empty where none was to be, or it was."""
    for pod in _succeeded(pods):
        said = as_object(_message(pod, names.COURIER)) or {}
        if said.get("courier_error"):
            return str(said["courier_error"])
    return ""


async def extract(
    client: KubeClient, task: str, job: Obj, pods: Sequence[Obj], limits: LogLimits
) -> Extracted | None:
    """The result of a task whose Job has succeeded; none where there is none.

    Raises:
        ApiError: it could not be looked for.
    """
    namespace = job["metadata"]["namespace"]
    name = names.result_name(task)
    routes: tuple[tuple[str, Callable[[], Awaitable[Obj | None]]], ...] = (
        (JOB_ANNOTATION, _ready(as_object(_annotation(job, RESULT_ANNOTATION)))),
        (MESSAGE, _ready(_from_messages(pods))),
        (CONFIGMAP, lambda: _from_config_map(client, name, namespace)),
        (SECRET, lambda: _from_secret(client, name, namespace)),
        (POD_ANNOTATION, _ready(_from_annotations(pods))),
        (LOG, lambda: _from_log(client, pods, limits)),
    )
    for source, find in routes:
        results = await find()
        if results is not None:
            return Extracted(source, results)
    return None


def _ready(results: Obj | None) -> Callable[[], Awaitable[Obj | None]]:
    async def found() -> Obj | None:
        return results

    return found


def _annotation(obj: Obj, name: str) -> Any:
    return (obj["metadata"].get("annotations") or {}).get(name)


def _succeeded(pods: Sequence[Obj]) -> list[Obj]:
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"]


def _from_messages(pods: Sequence[Obj]) -> Obj | None:
    for pod in _succeeded(pods)[:1]:
        delivered = as_object(_message(pod, names.COURIER))
        if delivered is not None and "courier_error" not in delivered:
            return delivered
        own = as_object(_message(pod, names.CONTAINER))
        if own is not None:
            return own
    return None


def _message(pod: Obj, container: str) -> str:
    """The termination message of a container; also of its life before the present one."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for found in status.get(kind) or ():
            if found.get("name") != container:
                continue
            for state in ("state", "lastState"):
                ended = (found.get(state) or {}).get("terminated") or {}
                if ended.get("message"):
                    return str(ended["message"])
    return ""


async def _from_config_map(client: KubeClient, name: str, namespace: str) -> Obj | None:
    try:
        found = await client.get(CONFIGMAPS, name, namespace=namespace)
    except NotFound:
        return None
    return as_object((found.get("data") or {}).get(_KEY))


async def _from_secret(client: KubeClient, name: str, namespace: str) -> Obj | None:
    try:
        found = await client.get(SECRETS, name, namespace=namespace)
    except (NotFound, Forbidden):
        return None
    try:
        text = base64.b64decode((found.get("data") or {}).get(_KEY) or "")
    except (binascii.Error, ValueError):
        return None
    return as_object(text)


def _from_annotations(pods: Sequence[Obj]) -> Obj | None:
    found = (as_object(_annotation(pod, RESULT_ANNOTATION)) for pod in pods)
    return next((result for result in found if result is not None), None)


async def _from_log(client: KubeClient, pods: Sequence[Obj], limits: LogLimits) -> Obj | None:
    for pod in _succeeded(pods)[:1]:
        return last_object(await log_lines(client, pod, names.CONTAINER, limits))
    return None

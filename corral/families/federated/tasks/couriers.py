"""The arguments of a task's couriers (see `corral.runtime.pods.couriers`). No I/O."""

from __future__ import annotations

from typing import Final

from corral.api.propeller.kinds import ROUND_LABEL, WasmTask
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks import names
from corral.runtime.pods import couriers
from corral.runtime.pods.couriers import Parts

__all__ = ["courier_parts", "update_reference"]

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


def update_reference(task: WasmTask, registry: str) -> str:
    """Where a large update is put: ``<registry>/<namespace>/<job>/updates:<task>``."""
    labels = task.metadata.get("labels") or {}
    job = labels.get(names.JOB_LABEL) or labels.get(ROUND_LABEL) or task.name
    return f"{registry.rstrip('/')}/{task.metadata['namespace']}/{job}/updates:{task.name}"


def courier_parts(task: WasmTask, proplet: str, settings: FederatedSettings) -> Parts:
    """The folder, and the two containers."""
    env = task.spec.env or {}
    wanted = any(env.get(name) for name in ("FL_GLOBAL_UPDATE_REF", "FL_GLOBAL_UPDATE_B64"))
    return couriers.courier_parts(
        _told(task, proplet, settings),
        image=settings.courier_image,
        registry_map=settings.registry_map,
        fetches=wanted or str(env.get("MODEL_URI") or "").startswith("oci://"),
        secrets=[ref.name for ref in task.spec.image_pull_secrets or () if ref.name],
    )


def _told(task: WasmTask, proplet: str, settings: FederatedSettings) -> dict[str, str]:
    env = task.spec.env or {}
    registry = env.get("FL_REGISTRY") or settings.registry
    out = {key: env[key] for key in _TOLD if env.get(key)}
    out["PROPLET_ID"] = proplet
    out["TASK_ID"] = task.name
    if registry:
        out["FL_UPDATE_REF"] = update_reference(task, registry)
    return out

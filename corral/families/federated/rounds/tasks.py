"""The WasmTasks of a round: what each participant is told. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from corral.api.propeller.kinds import (
    AGGREGATED_ANNOTATION,
    PARTICIPANT_LABEL,
    ROUND_ID_LABEL,
    ROUND_LABEL,
    WASMTASKS,
)
from corral.api.propeller.rules import task_name
from corral.families.federated.view import JOB_LABEL, RoundView
from corral.kube.types import Obj

__all__ = ["global_update", "task_of"]

_LISTS: Final = ("volumes", "volumeMounts", "imagePullSecrets")
_MU: Final = 0.01
"""Of fedprox, where nothing is said; as the engine has it."""


def global_update(round_: Obj) -> Obj:
    """The envelope of the model that the round before gave; empty where there is none."""
    text = (round_["metadata"].get("annotations") or {}).get(AGGREGATED_ANNOTATION)
    if not text:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def task_of(view: RoundView, participant: str, update: Mapping[str, Any]) -> Obj:
    """The task of a participant; ``update`` is the envelope of the global model."""
    template = _merged(view.template, view.templates.get(participant) or {})
    secrets = template.get("imagePullSecrets") or []
    if view.secret and {"name": view.secret} not in secrets:
        template["imagePullSecrets"] = [*secrets, {"name": view.secret}]
    return {
        "apiVersion": WASMTASKS.api_version,
        "kind": WASMTASKS.kind,
        "metadata": {
            "name": task_name(view.name, participant),
            "namespace": view.namespace,
            "labels": {
                ROUND_LABEL: view.name,
                ROUND_ID_LABEL: view.round_id,
                PARTICIPANT_LABEL: participant,
                JOB_LABEL: view.job,
            },
        },
        "spec": {
            **template,
            "imageUrl": view.image,
            "mode": "train",
            "daemon": False,
            "cliArgs": list(template.get("cliArgs") or ()),
            "propletId": participant,
            "env": {**(template.get("env") or {}), **_environment(view, participant, update)},
        },
    }


def _environment(view: RoundView, participant: str, update: Mapping[str, Any]) -> dict[str, str]:
    env = {"ROUND_ID": view.round_id, "MODEL_URI": view.model_ref, "PROPLET_ID": participant}
    if view.experiment:
        env["FL_JOB_ID"] = view.experiment
    if view.hyperparams is not None:
        env["HYPERPARAMS"] = orjson.dumps(view.hyperparams).decode()
    if view.repository:
        env["FL_REGISTRY"] = view.repository
    if view.algorithm == "fedprox":
        mu = view.config.get("mu", _MU)
        env["FL_CLIENT_CONFIG"] = orjson.dumps({"mu": mu}).decode()
    for name, key in (
        ("FL_GLOBAL_VERSION", "global_version"),
        ("FL_GLOBAL_UPDATE_B64", "update_b64"),
        ("FL_GLOBAL_UPDATE_REF", "update_ref"),
        ("FL_GLOBAL_UPDATE_FORMAT", "format"),
    ):
        value = update.get(key)
        if isinstance(value, str) and value:
            env[name] = value
    if view.format:
        env.setdefault("FL_GLOBAL_UPDATE_FORMAT", view.format)
    return env


def _merged(template: Obj, own: Obj) -> Obj:
    """The participant's own template before that of all."""
    merged: Obj = {**template, **{key: value for key, value in own.items() if value is not None}}
    for key in _LISTS:
        both = [*(own.get(key) or ()), *(template.get(key) or ())]
        if both:
            merged[key] = both
    env = {**(template.get("env") or {}), **(own.get("env") or {})}
    if env:
        merged["env"] = env
    return merged

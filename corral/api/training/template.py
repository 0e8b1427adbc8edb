"""The pod template of a TrainingJob with the shorthand merged into it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from corral.kube.types import Obj

__all__ = ["TRAINER", "merged_template"]

TRAINER = "trainer"
"""The name of the container that is made where the template has none."""


def merged_template(spec: Obj) -> Obj:
    """A new PodTemplateSpec: ``spec.template`` with image, command, args, env and resources.

    The shorthand is about the first container and wins over it: image, command and args replace,
    environment and resources are merged by name.
    """
    template = deepcopy(spec.get("template") or {})
    short = {key: deepcopy(spec[key]) for key in _MERGED if spec.get(key) is not None}
    if not short:
        return template
    containers = template.setdefault("spec", {}).setdefault("containers", [])
    if not containers:
        containers.append({"name": TRAINER})
    first = containers[0]
    first.setdefault("name", TRAINER)
    for key, value in short.items():
        first[key] = _MERGED[key](first.get(key), value)
    return template


def _replaced(old: Any, new: Any) -> Any:
    return new


def _merged_env(old: list[Obj] | None, new: list[Obj]) -> list[Obj]:
    """Variables may refer to earlier ones: those known keep their place, others come last."""
    changed = {variable["name"]: variable for variable in new}
    kept = [changed.pop(variable.get("name", ""), variable) for variable in old or ()]
    return [*kept, *changed.values()]


def _merged_resources(old: Obj | None, new: Obj) -> Obj:
    out = dict(old or {})
    for key, value in new.items():
        out[key] = {**(out.get(key) or {}), **value} if isinstance(value, dict) else value
    return out


_MERGED = {
    "image": _replaced,
    "command": _replaced,
    "args": _replaced,
    "env": _merged_env,
    "resources": _merged_resources,
}

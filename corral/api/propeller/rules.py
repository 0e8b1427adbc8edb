"""What objects of ``propeller.absmach.io`` must be like beyond their schema; pure functions.

Two kinds of mistakes: what can never work is refused at admission; what the contract lets in and
then fails (`invalid_spec`) is admitted with a warning.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from corral.api.propeller.learning import (
    Aggregator,
    FederatedJobSpec,
    Participant,
    TrainingRoundSpec,
)
from corral.api.propeller.strategies import aggregator_problems
from corral.api.propeller.tasks import TaskTemplate, WasmTaskSpec
from corral.kube.problems import FieldError, duplicate, forbidden_field, invalid_value, required

__all__ = [
    "MAX_TASK_NAME",
    "aggregator_rules",
    "change_problems",
    "invalid_spec",
    "module_bytes",
    "name_problems",
    "participant_problems",
    "participants_of",
    "round_name",
    "source_problems",
    "task_name",
    "task_remarks",
    "template_problems",
]

Found = Iterator[FieldError]
MAX_TASK_NAME: Final = 59
"""The Job of a task is called ``<task>-job``, and that is a label of its pods."""
_ID = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_RESERVED: Final = frozenset({"fl"})
_VOLUME = "is a volume of the operator's own; choose another name"


def round_name(job: str, number: int) -> str:
    """``round-<n>-<job>``."""
    return f"round-{number}-{job}"


def task_name(round_: str, proplet: str) -> str:
    """``<round>-<propletId>``."""
    return f"{round_}-{proplet}"


# --- tasks -------------------------------------------------------------------------------------


def source_problems(spec: WasmTaskSpec) -> Found:
    if not spec.image_url and not spec.file:
        yield required("spec.imageUrl", "imageUrl or file is required")


def template_problems(template: TaskTemplate, path: str = "spec") -> Found:
    for i, volume in enumerate(template.volumes or ()):
        name = volume.get("name")
        if not isinstance(name, str) or not name:
            yield required(f"{path}.volumes[{i}].name")
        elif name in _RESERVED or name.startswith("corral-"):
            yield invalid_value(f"{path}.volumes[{i}].name", name, _VOLUME)
    for i, mount in enumerate(template.volume_mounts or ()):
        for key in ("name", "mountPath"):
            if not mount.get(key):
                yield required(f"{path}.volumeMounts[{i}].{key}")


def module_bytes(file: str) -> bytes:
    """The module of a task's ``file``.

    Raises:
        ValueError: it is not base64; the text says so.
    """
    try:
        return base64.b64decode("".join(file.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"spec.file is not base64: {error}") from error


def task_remarks(spec: WasmTaskSpec) -> Iterator[str]:
    if spec.file:
        try:
            module_bytes(spec.file)
        except ValueError as error:
            yield f"{error}; the task will fail"
        if spec.image_url:
            yield "spec.imageUrl is ignored: spec.file takes precedence"
    if spec.proplet_id and spec.proplet_group_ref is not None and spec.proplet_group_ref.name:
        yield "spec.propletGroupRef is ignored: spec.propletId takes precedence"


def change_problems(spec: WasmTaskSpec, old: WasmTaskSpec) -> Found:
    """A task runs once: what it is cannot change."""
    if spec != old:
        yield forbidden_field("spec", "a task runs once; make another task instead of changing it")


# --- learning ----------------------------------------------------------------------------------


def invalid_spec(spec: FederatedJobSpec) -> str:
    """Why a job cannot run, in the contract's order and words; empty where it can."""
    if not spec.experiment_id:
        return "experimentId is required"
    if not spec.model_ref:
        return "modelRef is required"
    if not spec.task_wasm_image:
        return "taskWasmImage is required"
    if not spec.participants:
        return "at least one participant is required"
    if spec.k_of_n <= 0:
        return "kOfN must be greater than 0"
    if spec.k_of_n > len(spec.participants):
        return "kOfN cannot be greater than number of participants"
    return ""


def participant_problems(path: str, ids: Sequence[str]) -> Found:
    """Ids become names of tasks, and each of them counts once."""
    seen = Counter[str]()
    for i, proplet in enumerate(ids):
        seen[proplet] += 1
        if seen[proplet] > 1:
            yield duplicate(path.format(i), proplet)
        elif not _ID.match(proplet):
            why = "must consist of lower case letters, digits, '-' and '.', as names of objects do"
            yield invalid_value(path.format(i), proplet, why)


def name_problems(longest_round: str, ids: Sequence[str], name: str) -> Found:
    """The task with the longest name must still have a Job."""
    longest = max(ids, key=len, default="")
    task = task_name(longest_round, longest)
    if name and longest and len(task) > MAX_TASK_NAME:
        why = (
            f"its task {task} would have {len(task)} characters, at most {MAX_TASK_NAME} are "
            "possible: shorten the name or the propletId"
        )
        yield invalid_value("metadata.name", name, why)


def aggregator_rules(aggregator: Aggregator, path: str = "spec.aggregator") -> Found:
    private = aggregator.privacy is not None
    return aggregator_problems(path, aggregator.algorithm, aggregator.config, private=private)


def participants_of(spec: FederatedJobSpec | TrainingRoundSpec) -> list[str]:
    """The ids, in their order."""
    return [p.proplet_id if isinstance(p, Participant) else p for p in spec.participants]

"""A TrainingJob from what people say to `TrainingClient.train`. Pure."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, TypedDict
from urllib.parse import urlsplit

from corral.api.training.spec import FRAMEWORKS
from corral.client.errors import BadRequest
from corral.kube.types import Obj
from corral.sdk.programs import packages as pip
from corral.sdk.programs.program import Code
from corral.sdk.programs.shipping import Shipped
from corral.sdk.resources import ResourceSpec

__all__ = ["TrainOptions", "checkpoint_of", "default_image", "job_name", "training_job"]

_API: Final = "training.corral.dev/v1alpha1"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 40
Framework = Literal["pytorch", "tensorflow", "jax", "xgboost", "custom"]


class TrainOptions(TypedDict, total=False):
    """What `train` knows beyond target, arguments and replicas; everything may be left out."""

    resources: ResourceSpec | Mapping[str, Any]
    """Of every replica: ``ResourceSpec(cpu=2, memory="4Gi", gpu=1)``, or a dict of its fields."""
    env: Mapping[str, str]
    """Environment variables."""
    packages: Sequence[str]
    """Requirements as pip has them; installed where they are missing."""
    pip_index_url: str
    """Where they are installed from."""
    framework: Framework
    """How replicas find each other; ``custom`` unless said otherwise."""
    image: str
    """The container image; ``python`` of the version that runs here unless said otherwise."""
    checkpoint: bool | str | Mapping[str, Any]
    """True, a size ("10Gi"), a URI (s3://…, gs://…, az://…), or ``spec.checkpoint`` as it is."""
    elastic: tuple[int, int] | Mapping[str, Any]
    """The least and the greatest number of replicas, or ``spec.elastic`` as it is."""
    directory: str | os.PathLike[str]
    """The folder to send with a script."""
    procs_per_replica: int | Literal["auto"]
    """Processes in every pod; PyTorch's are started by torchrun."""
    retries: int
    """Failures that are answered with a restart; 3 unless said otherwise."""
    timeout: int
    """Seconds that the job may run."""
    ttl: int
    """Seconds that the finished job is kept."""
    gang: bool
    """All replicas are scheduled at once or none is."""
    priority_class: str
    queue: str
    suspend: bool
    """Create it, but do not start it."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    template: Mapping[str, Any]
    """A PodTemplateSpec that everything else is laid over: volumes, node selectors, …"""
    dry_run: bool
    """Check it and change nothing."""


def default_image() -> str:
    """The official Python image of the version that runs here: sources may need it."""
    return f"python:{sys.version_info.major}.{sys.version_info.minor}"


def job_name(title: str, suffix: str) -> str:
    """A name for a job: ``train_digits`` → ``train-digits-x7k2q``."""
    stem = _NOT_IN_NAMES.sub("-", title.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    if not stem or not stem[0].isalpha():
        stem = f"job-{stem}".strip("-")
    return f"{stem}-{suffix}"


def training_job(
    code: Code,
    shipped: Shipped,
    options: TrainOptions,
    *,
    name: str,
    namespace: str,
    replicas: int,
) -> Obj:
    """The object to create. Raises BadRequest."""
    wanted = tuple(options.get("packages", ()))
    spec: Obj = {
        "framework": _framework(options.get("framework", "custom")),
        "replicas": replicas,
        "image": options.get("image") or default_image(),
        "command": shipped.command(pip.with_packages(_launched(code, options), wanted)),
        "template": _template(shipped, options, wanted),
        **_sections(options, replicas),
    }
    env = [{"name": key, "value": str(value)} for key, value in options.get("env", {}).items()]
    if env:
        spec["env"] = env
    metadata: Obj = {"name": name, "namespace": namespace}
    for key in ("labels", "annotations"):
        if options.get(key):
            metadata[key] = dict(options[key])
    return {"apiVersion": _API, "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def _framework(name: str) -> str:
    if name not in FRAMEWORKS:
        raise BadRequest(
            f"there is no framework {name!r}", hint=f"frameworks are {', '.join(FRAMEWORKS)}"
        )
    return name


def _launched(code: Code, options: TrainOptions) -> list[str]:
    several = options.get("procs_per_replica", 1) != 1
    if several and options.get("framework") == "pytorch" and code.script:
        return ["torchrun", *code.command[1:]]
    return list(code.command)


def _template(shipped: Shipped, options: TrainOptions, wanted: Sequence[str]) -> Obj:
    template: Obj = shipped.into(deepcopy(dict(options.get("template", {}))))
    spec = template["spec"]
    first = spec["containers"][0]
    spec["volumes"] += pip.volumes(wanted)
    first["volumeMounts"] += pip.mounts(wanted)
    first["env"] += pip.environment(wanted, options.get("pip_index_url", ""))
    return template


def _sections(options: TrainOptions, replicas: int) -> Obj:
    """The parts of the spec that are there only where somebody asked for them."""
    policy = {
        "suspend": options.get("suspend"),
        "backoffLimit": options.get("retries"),
        "activeDeadlineSeconds": options.get("timeout"),
        "ttlSecondsAfterFinished": options.get("ttl"),
    }
    scheduling = {
        "gang": options.get("gang"),
        "priorityClassName": options.get("priority_class"),
        "queue": options.get("queue"),
    }
    sections = {
        "procsPerReplica": options.get("procs_per_replica"),
        "resources": ResourceSpec.of(options.get("resources")).requirements(),
        "elastic": _elastic(options.get("elastic"), replicas),
        "checkpoint": checkpoint_of(options.get("checkpoint", False)),
        "runPolicy": {key: value for key, value in policy.items() if value is not None},
        "scheduling": {key: value for key, value in scheduling.items() if value is not None},
    }
    return {key: value for key, value in sections.items() if value}


def _elastic(value: tuple[int, int] | Mapping[str, Any] | None, replicas: int) -> Obj | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return dict(value)
    try:
        least, most = value
    except (TypeError, ValueError):
        raise BadRequest(f"elastic={value!r}", hint="give elastic=(least, most) replicas") from None
    if not 1 <= least <= replicas <= most:
        raise BadRequest(
            f"elastic=({least}, {most}) does not hold replicas={replicas}",
            hint="the number of replicas must lie between the two",
        )
    return {"minReplicas": least, "maxReplicas": most}


# -- checkpoints -----------------------------------------------------------------------------------


def checkpoint_of(value: bool | str | Mapping[str, Any]) -> Obj | None:
    """``spec.checkpoint`` from what people write. Raises BadRequest."""
    if value is False:
        return None
    if value is True:
        return {"storage": {"pvc": {"size": "10Gi"}}}
    if isinstance(value, str):
        return {"storage": _storage(value)}
    spec = dict(value)
    if isinstance(spec.get("storage"), str):
        spec["storage"] = _storage(spec["storage"])
    return spec


def _storage(text: str) -> Obj:
    if text.startswith("/"):
        return {"local": {"path": text}}
    if "://" not in text:
        return {"pvc": {"size": text}}
    parts = urlsplit(text)
    where, prefix = parts.netloc, parts.path.strip("/")
    if parts.scheme == "s3":
        return {"s3": {"bucket": where, "prefix": prefix}}
    if parts.scheme in ("gs", "gcs"):
        return {"gcs": {"bucket": where, "prefix": prefix}}
    if parts.scheme in ("az", "azure"):
        container, _, rest = prefix.partition("/")
        return {"azure": {"account": where, "container": container, "prefix": rest}}
    raise BadRequest(
        f"checkpoints cannot be kept in {text}",
        hint="give a size (10Gi), s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
        "az://ACCOUNT/CONTAINER/PREFIX, or a folder of a cluster on one machine",
    )

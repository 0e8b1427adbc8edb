"""What spot jobs, machines and backups must be like beyond their schemas. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from corral.api.spot.backup import IMMEDIATELY, CheckpointBackupSpec
from corral.api.spot.spec import AUTO, SpotInstanceJobSpec
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.kube.cron import ScheduleError
from corral.kube.cron import parse as parse_schedule
from corral.kube.problems import FieldError, forbidden_field, invalid_value, required

__all__ = [
    "backup_change_problems",
    "backup_problems",
    "duration_seconds",
    "job_problems",
    "job_remarks",
    "vm_problems",
    "vm_remarks",
]

Found = Iterator[FieldError]
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(?<![\d.])(\d++(?:\.\d*+)?|\.\d++)(ns|us|µs|ms|s|m|h)")
_REPOSITORY: Final = re.compile(
    r"^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
)
_SECRETS: Final = re.compile(r"kubeadm join|--token\s|BEGIN [A-Z ]*PRIVATE KEY")


def duration_seconds(text: str) -> float | None:
    """Seconds of a metav1.Duration (``30m``, ``1h15m``, ``1.5h``); none where it is no such."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


# --- jobs ----------------------------------------------------------------------------------------


def job_problems(spec: SpotInstanceJobSpec) -> Found:
    yield from _checkpoint_problems(spec)
    yield from _template_problems(spec.job_template)
    if not spec.spot_instance_vm_ref.name:
        yield required("spec.spotInstanceVMRef.name", "must name a SpotInstanceVM")
    for number, reference in enumerate(spec.alternative_vm_refs or ()):
        if not reference.name:
            yield required(f"spec.alternativeVMRefs[{number}].name", "must name a SpotInstanceVM")
    placement = spec.placement
    if placement.deadline is not None and _time(placement.deadline) is None:
        wanted = "must be a time with its zone, such as 2026-01-31T12:00:00Z"
        yield invalid_value("spec.placement.deadline", placement.deadline, wanted)


def _checkpoint_problems(spec: SpotInstanceJobSpec) -> Found:
    config, path = spec.checkpoint_config, "spec.checkpointConfig"
    interval = config.checkpoint_interval
    if interval != AUTO:
        seconds = duration_seconds(interval)
        if seconds is None:
            wanted = "must be a length of time such as 30m or 1h30m, or auto"
            yield invalid_value(f"{path}.checkpointInterval", interval, wanted)
        elif seconds < 1:
            yield invalid_value(f"{path}.checkpointInterval", interval, "must be at least 1s")
    repo = config.checkpoint_image_repo
    if not repo:
        yield required(f"{path}.checkpointImageRepo", "must name a repository of images")
    elif not _REPOSITORY.match(repo):
        wanted = "must be a repository without a tag, such as registry.example.com/team/checkpoints"
        yield invalid_value(f"{path}.checkpointImageRepo", repo, wanted)
    if config.engine == "Directory" and config.directory is None:
        yield required(f"{path}.directory", "the Directory engine must know what to save")


def _template_problems(template: dict[str, Any]) -> Found:
    path = "spec.jobTemplate.spec"
    pod: Any = template
    for key in ("spec", "template", "spec"):
        pod = pod.get(key) if isinstance(pod, dict) else None
    if not isinstance(pod, dict) or not pod.get("containers"):
        yield required(f"{path}.template.spec.containers", "must define at least one container")
        return
    policy = pod.get("restartPolicy")
    if policy not in (None, "Never", "OnFailure"):
        wanted = "must be Never or OnFailure: a Job has no other"
        yield invalid_value(f"{path}.template.spec.restartPolicy", policy, wanted)
    if pod.get("nodeName"):
        wanted = "the job is placed on machines that are made for it"
        yield forbidden_field(f"{path}.template.spec.nodeName", wanted)


def job_remarks(spec: SpotInstanceJobSpec) -> Iterator[str]:
    """What is allowed but probably not meant."""
    seconds = duration_seconds(spec.checkpoint_config.checkpoint_interval)
    if seconds is not None and 1 <= seconds < 30:
        yield "spec.checkpointConfig.checkpointInterval: the job will do little but save"
    placement = spec.placement
    if placement.deadline is not None and placement.on_demand == "Never":
        yield "spec.placement.deadline: without machines on demand it can be missed"
    if spec.replicas > 1 and placement.on_demand == "Always":
        yield "spec.replicas: machines on demand are not taken; further copies only cost"
    if spec.credentials_secret_ref is not None and spec.gcp_credentials_secret_ref is not None:
        yield "spec.gcpCredentialsSecretRef: credentialsSecretRef is used instead"


# --- machines ------------------------------------------------------------------------------------


def vm_problems(spec: SpotInstanceVMSpec) -> Found:
    if not spec.clouds:
        yield required("spec", "must say where machines are: gcp, aws, azure or local")
    for cloud in spec.clouds:
        if cloud != "local" and not (spec.vm_image or getattr(spec, cloud).image):
            yield required("spec.vmImage", f"machines of {cloud} must have an image")
    if spec.gcp is not None and spec.gcp.region:
        region = spec.gcp.region
        for path, zone in _gcp_zones(spec):
            if not zone.startswith(f"{region}-"):
                yield invalid_value(path, zone, f"must be a zone of {region}")
    if spec.aws is not None:
        for number, zone in enumerate([spec.aws.zone, *(spec.aws.zones or ())]):
            path = f"spec.aws.zones[{number - 1}]" if number else "spec.aws.zone"
            if not zone.startswith(spec.aws.region):
                yield invalid_value(path, zone, f"must be a zone of {spec.aws.region}")


def _gcp_zones(spec: SpotInstanceVMSpec) -> Iterator[tuple[str, str]]:
    if spec.gcp is not None:
        yield "spec.gcp.zone", spec.gcp.zone
        for number, zone in enumerate(spec.gcp.zones or ()):
            yield f"spec.gcp.zones[{number}]", zone


def vm_remarks(spec: SpotInstanceVMSpec) -> Iterator[str]:
    """What is allowed but probably not meant."""
    if spec.startup_script and _SECRETS.search(spec.startup_script):
        yield (
            "spec.startupScript: every process on the machine can read it; machines are joined "
            "over SSH with a token of their own"
        )
    if spec.gpu is not None and spec.aws is not None:
        yield "spec.gpu: on aws the machine type has the accelerators; this is not used there"
    cloudy = [cloud for cloud in spec.clouds if cloud != "local"]
    if cloudy and spec.ssh is None and spec.kubeadm_join_config is None:
        yield "spec: without ssh or kubeadmJoinConfig the image must join the cluster by itself"


# --- backups -------------------------------------------------------------------------------------


def backup_problems(spec: CheckpointBackupSpec) -> Found:
    if not spec.pod:
        yield required("spec.podName", "must name a pod, here or in podRef")
    elif spec.pod_name and spec.pod_name != spec.pod:
        yield invalid_value("spec.podName", spec.pod_name, "must be the pod of podRef")
    if not spec.once:
        if spec.immediate:
            wanted = f"must be {IMMEDIATELY}, or absent, for an immediate backup"
            yield invalid_value("spec.schedule", spec.schedule, wanted)
        else:
            yield from _schedule_problems(spec.schedule or "")
    if spec.registry is None and spec.image_repo and not _REPOSITORY.match(spec.image_repo):
        yield invalid_value("spec.imageRepo", spec.image_repo, "must be a repository without a tag")
    names = [container.name for container in spec.containers or ()]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield invalid_value(f"spec.containers[{number}].name", name, "is there already")


def _schedule_problems(schedule: str) -> Found:
    wanted = f"must be {IMMEDIATELY} or five fields of cron"
    try:
        if len(schedule.split()) != 5:
            raise ScheduleError(wanted)
        parse_schedule(schedule)
    except ScheduleError as error:
        detail = wanted if str(error) == wanted else f"{wanted}: {error}"
        yield invalid_value("spec.schedule", schedule, detail)


def backup_change_problems(new: CheckpointBackupSpec, old: CheckpointBackupSpec) -> Found:
    """A backup is of one pod for ever: its images would be mixed up."""
    if new.pod != old.pod:
        path = "spec.podRef.name" if new.pod_ref is not None else "spec.podName"
        yield invalid_value(path, new.pod, "field is immutable")


def _time(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None

"""The launcher: a Job whose pod runs the command that starts all processes.

Its environment tells every MPI where the hostfile is and how to reach the workers. For Open MPI
both families of variables are set: those of version 4 and those of version 5, which would otherwise
run all processes beside the launcher without a word. Each ignores the other's.
"""

from __future__ import annotations

from typing import Final

from corral.families.mpijob import names
from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.pods import (
    ROLE_VARIABLE,
    add_env,
    add_ssh,
    add_volume,
    prepared,
    variable,
)
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = ["follow_directives", "launcher_env", "launcher_job", "launcher_template"]

_ATTEMPTS: Final = "-o ConnectionAttempts=10"
_PASSED_ON = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")


def launcher_job(view: JobView, settings: ObjectSettings) -> Obj:
    """The Job; suspended like the MPIJob."""
    spec: Obj = {
        key: int(view.run_policy[key]) for key in _PASSED_ON if view.run_policy.get(key) is not None
    }
    spec["podReplacementPolicy"] = "Failed"
    spec["template"] = launcher_template(view, settings)
    if view.suspended:
        spec["suspend"] = True
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": view.metadata(names.launcher_name(view.name)),
        "spec": spec,
    }


def launcher_template(view: JobView, settings: ObjectSettings) -> Obj:
    """The template of the launcher's pod."""
    template = prepared(view, view.launcher, names.ROLE_LAUNCHER, settings)
    if view.launcher_is_worker:
        template["metadata"]["labels"][names.REPLICA_INDEX_LABEL] = "0"
    template["metadata"]["ownerReferences"] = [view.owner()]
    pod: Obj = template["spec"]
    pod["hostname"] = names.launcher_name(view.name)
    add_env(pod, launcher_env(view, settings))
    add_ssh(pod, view)
    add_volume(pod, _config_volume(view, settings), names.CONFIG_MOUNT_PATH)
    if launching.uses_agent(settings):
        launching.prepare_launcher(pod, view)
    return template


def launcher_env(view: JobView, settings: ObjectSettings) -> list[Obj]:
    """What is put behind the user's own variables."""
    env = {ROLE_VARIABLE: names.ROLE_LAUNCHER, **_implementation_env(view)}
    if settings.remote_agent:
        env |= launching.agent_env(view, settings.remote_agent)
    if not view.launcher_is_worker:
        # GPUs of the node are for workers: a launcher that does not compute must not see any.
        env |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return [variable(name, value) for name, value in env.items()]


def _implementation_env(view: JobView) -> dict[str, str]:
    slots, hostfile = str(view.slots), names.HOSTFILE_PATH
    if view.implementation == "Intel":
        return {
            "I_MPI_HYDRA_HOST_FILE": hostfile,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _ATTEMPTS,
            "I_MPI_PERHOST": slots,
        }
    if view.implementation == "MPICH":
        return {"HYDRA_HOST_FILE": hostfile, "HYDRA_LAUNCH_EXTRA_ARGS": _ATTEMPTS}
    return {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_plm_rsh_args": _ATTEMPTS,
        "OMPI_MCA_orte_set_default_slots": slots,
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_set_default_slots": slots,
        "PRTE_MCA_plm_ssh_args": _ATTEMPTS,
    }


def _config_volume(view: JobView, settings: ObjectSettings) -> Obj:
    items = [(names.HOSTFILE, 0o444), (names.DISCOVER_HOSTS, 0o555)]
    if launching.uses_agent(settings):
        items.append((launching.AGENT, 0o555))
    return launching.config_volume(view, items)


def follow_directives(job: Obj, desired: Obj) -> Obj:
    """A copy of a suspended launcher with what may be changed before it is resumed.

    Labels and annotations are added; node selector, tolerations and gates are those of the desired
    template. Nothing else of a Job's template can ever change.
    """
    template: Obj = job["spec"]["template"]
    metadata, pod = dict(template.get("metadata") or {}), dict(template["spec"])
    for key in ("labels", "annotations"):
        merged = {**(metadata.get(key) or {}), **(desired["metadata"].get(key) or {})}
        if merged:
            metadata[key] = merged
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(key, None)
        if desired["spec"].get(key):
            pod[key] = desired["spec"][key]
    changed = {**template, "metadata": metadata, "spec": pod}
    return {**job, "spec": {**job["spec"], "template": changed}}

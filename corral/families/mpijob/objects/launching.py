"""How a launcher reaches its workers: by ssh, or by our own agent through the API's ``pods/exec``.

On nodes that run images it is ssh, exactly as Kubeflow has it: the images bring sshd. Process nodes
have no images and so no sshd; there the launcher finds ``corral.inpod.rsh`` in its ConfigMap, every
MPI is told by variables to use it instead of ssh, and workers only wait. The user's command line is
the same in both.

Which of the two is decided for a job before it has pods (`needs_rsh`), and then kept: the ConfigMap
tells (`uses_rsh`). It is the agent only where the job's pods can land on nothing but process nodes,
so one of these in a cluster of ordinary nodes changes nothing for others. The annotation
``corral.dev/launch: exec`` or ``ssh`` on the job decides for itself.

The launcher gets a service account that may read the workers of its job and start commands in them,
and nothing else. Rights go by names, so only pods are named that the job controls, once they exist:
a pod of somebody else that has the name of a worker is never among them. A launcher that already
has an account keeps it, and that one is given the rights.
Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from posixpath import basename
from typing import Final

from corral.families.mpijob import names
from corral.families.mpijob.objects.pods import add_volume
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = [
    "AGENT",
    "AGENT_PATH",
    "BY_EXEC",
    "BY_SSH",
    "LAUNCH_ANNOTATION",
    "PROCESS",
    "RUNTIME_LABEL",
    "WAIT",
    "access_objects",
    "account_name",
    "agent_env",
    "agent_script",
    "config_volume",
    "is_waiting",
    "needs_rsh",
    "prepare_launcher",
    "prepare_worker",
    "rsh_settings",
    "uses_agent",
    "uses_rsh",
]

RUNTIME_LABEL: Final = "corral.dev/runtime"
"""On nodes whose agent is ours."""
PROCESS: Final = "process"
LAUNCH_ANNOTATION: Final = "corral.dev/launch"
"""On MPIJobs: ``exec`` or ``ssh``; absent: the nodes decide."""
BY_EXEC: Final = "exec"
BY_SSH: Final = "ssh"

AGENT: Final = "rsh"
"""In the job's ConfigMap."""
AGENT_PATH: Final = f"{names.CONFIG_MOUNT_PATH}/{AGENT}"
WAIT: Final = ("sleep", "infinity")
"""On a process node this is no PID 1: SIGTERM ends it at once."""
_RBAC: Final = "rbac.authorization.k8s.io"
_AGENTS: Final = {
    "OpenMPI": ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"),
    "Intel": ("I_MPI_HYDRA_BOOTSTRAP_EXEC",),
    "MPICH": ("HYDRA_LAUNCHER_EXEC",),
}
"""What each implementation reads the program from that stands in for ssh; versions 4 and 5 of
Open MPI have different ones, and ignore the other's."""
_MODES: Final = {"Intel": {"I_MPI_HYDRA_BOOTSTRAP": "ssh"}, "MPICH": {"HYDRA_LAUNCHER": "ssh"}}
"""Under a batch system these would be something else by default."""
_FLAT: Final = {"OMPI_MCA_plm_rsh_no_tree_spawn": "1", "PRTE_MCA_plm_ssh_no_tree_spawn": "1"}
"""Otherwise workers would start daemons on other workers, and they have no right to."""


# -- which of the two ---------------------------------------------------------------------------


def needs_rsh(view: JobView, nodes: Iterable[Obj], *, default: bool = False) -> bool:
    """Whether a job that has no pods yet is to be launched by the agent.

    Args:
        view: the job.
        nodes: all nodes of the cluster.
        default: the answer where the job's pods could land on no node at all.
    """
    asked = view.annotations.get(LAUNCH_ANNOTATION, "")
    if asked in (BY_EXEC, BY_SSH):
        return asked == BY_EXEC
    wanted = [_selector(view.launcher), *([_selector(view.worker)] if view.worker else [])]
    found = [
        labels.get(RUNTIME_LABEL) == PROCESS
        for labels in (node["metadata"].get("labels") or {} for node in nodes)
        if any(selector.items() <= labels.items() for selector in wanted)
    ]
    return all(found) if found else default


def uses_rsh(config_map: Obj) -> bool:
    """What was decided when the job's ConfigMap was made."""
    return AGENT in (config_map.get("data") or {})


def rsh_settings(settings: ObjectSettings) -> ObjectSettings:
    """For a job that is launched by the agent: all builders then do what it takes."""
    return replace(settings, worker_command=WAIT, remote_agent=AGENT_PATH)


def uses_agent(settings: ObjectSettings) -> bool:
    """Whether the program instead of ssh is ours; it may also be one that images bring."""
    return settings.remote_agent == AGENT_PATH


def _selector(replica: Obj) -> dict[str, str]:
    return replica["template"]["spec"].get("nodeSelector") or {}


# -- the pods -----------------------------------------------------------------------------------


def agent_env(view: JobView, agent: str) -> dict[str, str]:
    """The variables that make an MPI use a program instead of ssh."""
    kind = view.implementation
    env = {**_MODES.get(kind, {}), **dict.fromkeys(_AGENTS[kind], agent)}
    if agent != AGENT_PATH:
        return env
    if kind == "OpenMPI":
        env |= _FLAT
    elif kind == "Intel":
        env["I_MPI_HYDRA_BRANCH_COUNT"] = str(max(view.workers, 1))
    return env


@cache
def agent_script() -> str:
    """The program, which stands alone and needs no more than Python 3.9 in the launcher's pod."""
    return (files("corral.inpod") / "rsh.py").read_text(encoding="utf-8")


def prepare_launcher(pod: Obj, view: JobView) -> None:
    """Give the launcher's pod its account, and a token whatever its default is."""
    pod["serviceAccountName"] = account_name(view)
    pod["automountServiceAccountToken"] = True


def prepare_worker(pod: Obj, view: JobView) -> None:
    """Have a worker wait, and show it the agent.

    It never runs that, but daemons of Open MPI refuse to start where they do not find it.
    """
    container: Obj = pod["containers"][0]
    if is_waiting(container):
        container["command"] = list(WAIT)
        container.pop("args", None)
    add_volume(pod, config_volume(view, [(AGENT, 0o555)]), names.CONFIG_MOUNT_PATH)


def config_volume(view: JobView, items: Iterable[tuple[str, int]]) -> Obj:
    """Some keys of the job's ConfigMap as files with modes."""
    source: Obj = {
        "name": names.config_map_name(view.name),
        "items": [{"key": key, "path": key, "mode": mode} for key, mode in items],
    }
    return {"name": names.CONFIG_VOLUME, "configMap": source}


def is_waiting(container: Obj) -> bool:
    """Whether a worker would only run sshd, and so has nothing to run without it."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return not words or basename(str(words[0])) == "sshd"


# -- rights -------------------------------------------------------------------------------------


def account_name(view: JobView) -> str:
    """The service account of the launcher: the user's, or that of the job."""
    return view.launcher["template"]["spec"].get("serviceAccountName") or names.launcher_name(
        view.name
    )


def access_objects(view: JobView, workers: Iterable[str]) -> list[Obj]:
    """The service account, unless it is the user's; the Role and the RoleBinding.

    ``workers`` are the names of pods that this very job controls. The launcher needs all of it
    before it starts.
    """
    name, account = names.launcher_name(view.name), account_name(view)
    objects: list[Obj] = []
    if account == name:
        objects.append(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": view.metadata(name)}
        )
    objects.append(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": view.metadata(name),
            "rules": _rules(view, frozenset(workers)),
        }
    )
    objects.append(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": view.metadata(name),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": view.namespace}],
        }
    )
    return objects


def _rules(view: JobView, there: frozenset[str]) -> list[Obj]:
    """WebSockets begin with a GET: some API servers ask for that verb, others for create too."""
    wanted = (names.worker_name(view.name, index) for index in range(view.workers))
    workers = [name for name in wanted if name in there]
    if not workers:
        return []  # no names would mean every pod
    rights = (("pods", ["get"]), ("pods/exec", ["get", "create"]))
    return [
        {"apiGroups": [""], "resources": [resource], "resourceNames": workers, "verbs": verbs}
        for resource, verbs in rights
    ]

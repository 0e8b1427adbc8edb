"""What a pod's processes may do: its security contexts, honoured or refused. Pure.

What reaches beyond the pod needs the node's permission (`HOST_ACCESS`); what this node cannot do is
refused with a reason, never left out in silence. In mode ``plain`` nothing can be kept apart:
`ignored` says what a pod asked for in vain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.cluster.node.isolation import Mode
from corral.cluster.node.pod.fit import Rejection
from corral.cluster.node.shim.privileges import CAPABILITIES
from corral.cluster.node.shim.users import SIZE
from corral.cluster.node.volumes.job_folders import job_root
from corral.cluster.node.volumes.sources import ConfigError
from corral.kube.types import Obj

__all__ = [
    "HOST_ACCESS",
    "hides_proc",
    "ignored",
    "privileges_of",
    "refusal",
    "shared_with_machine",
    "sysctls_of",
]

OPTION: Final = "--allow-host-access"
HOST_ACCESS: Final[Mapping[str, str]] = {
    "path": "hostPath volumes",
    "network": "hostNetwork",
    "pid": "hostPID",
    "ipc": "hostIPC",
    "users": "hostUsers: true",
    "privileged": "privileged containers",
    "capabilities": "capabilities that administer a machine",
}
"""What a node may allow, by the words of its option."""
REASON: Final = "HostAccessForbidden"
UNMASKED: Final = "Unmasked"
"""The procMount of a container that sees all of /proc."""
UNSUPPORTED: Final = "SecurityContextNotSupported"
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""The annotation that was before the field."""

DEFAULT: Final = frozenset(
    "CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW "
    "SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP".split()
)
"""The capabilities of a container that says nothing."""
_HARMLESS: Final = DEFAULT | {
    "IPC_LOCK", "IPC_OWNER", "LEASE", "NET_BROADCAST", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE",
}  # fmt: skip
"""Those that reach no further than the pod, whose user namespace they are for."""
_AS_THE_MACHINES: Final = DEFAULT - {"MKNOD"}
"""The same for a pod with the machine's users: there a device that is made is the machine's."""
_SAFE_SYSCTLS: Final = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
})  # fmt: skip
"""Those that Kubernetes calls safe."""


@dataclass(frozen=True, slots=True)
class _Use:
    """Something that a pod asks for and that reaches beyond it."""

    kind: str
    words: str


def refusal(
    pod: Obj, *, mode: Mode, allowed: Collection[str], shared: Sequence[Path] = ()
) -> Rejection | None:
    """Why the pod may not run on a node of this mode that allows so much; None when it may.

    ``shared`` are folders of which each namespace has a part of its own: see `job_root`.
    """
    for use in _reaching(pod, shared):
        if use.kind not in allowed:
            words = f"{use.words}: this node does not allow {HOST_ACCESS[use.kind]} "
            return Rejection(REASON, f"{words}(start it with {OPTION} {use.kind})")
    if mode == "plain":
        return None
    for why in _impossible(pod, mode):
        return Rejection(UNSUPPORTED, why)
    for name in sysctls_of(pod):
        if why := _sysctl_problem(name, pod, mode):
            return Rejection("SysctlForbidden", f'forbidden sysctl: "{name}" {why}')
    return None


def _containers(pod: Obj) -> Iterator[tuple[str, Obj]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod["spec"].get(kind) or ():
            yield f'container "{container["name"]}"', container.get("securityContext") or {}


def _contexts(pod: Obj) -> Iterator[tuple[str, Obj]]:
    yield "the pod", pod["spec"].get("securityContext") or {}
    yield from _containers(pod)


def _reaching(pod: Obj, shared: Sequence[Path]) -> Iterator[_Use]:
    spec, namespace = pod["spec"], pod["metadata"].get("namespace", "")
    for volume in spec.get("volumes") or ():
        if "hostPath" not in volume:
            continue
        if job_root(Path(volume["hostPath"]["path"]), namespace, shared) is None:
            yield _Use("path", f'volume "{volume["name"]}" is the machine\'s folder')
    for field, kind in (("hostNetwork", "network"), ("hostPID", "pid"), ("hostIPC", "ipc")):
        if spec.get(field):
            yield _Use(kind, f"the pod has {field}")
    if spec.get("hostUsers"):
        yield _Use("users", "the pod has hostUsers")
    for who, context in _containers(pod):
        if context.get("privileged"):
            yield _Use("privileged", f"{who} is privileged")
        harmless = _AS_THE_MACHINES if spec.get("hostUsers") else _HARMLESS
        for name in _added(context):
            if (name in CAPABILITIES and name not in harmless) or name == "ALL":
                yield _Use("capabilities", f"{who} adds the capability {name}")


def _impossible(pod: Obj, mode: Mode) -> Iterator[str]:
    for name, value in (pod["metadata"].get("annotations") or {}).items():
        if name.startswith(_APPARMOR) and value.startswith("localhost/"):
            who = f'container "{name.removeprefix(_APPARMOR)}"'
            yield f"{who}: this node has no AppArmor profiles"
    for who, context in _contexts(pod):
        for name in (*_added(context), *_dropped(context)):
            if name not in CAPABILITIES and name != "ALL":
                yield f"{who}: there is no capability {name}"
        if (context.get("seccompProfile") or {}).get("type") == "Localhost":
            yield f"{who}: this node has no seccomp profiles but RuntimeDefault and Unconfined"
        if (context.get("appArmorProfile") or {}).get("type") == "Localhost":
            yield f"{who}: this node has no AppArmor profiles"
        if any((context.get("seLinuxOptions") or {}).values()):
            yield f"{who}: this node does not use SELinux, so seLinuxOptions cannot be applied"
        if context.get("procMount") == UNMASKED and _has_machines_users(pod, context):
            yield f"{who}: procMount {UNMASKED} is for pods with users of their own"
        if context.get("windowsOptions"):
            yield f"{who}: windowsOptions are for nodes of Windows"
        if mode == "root" and not pod["spec"].get("hostUsers"):
            yield from _beyond_range(who, context)


def _has_machines_users(pod: Obj, context: Obj) -> bool:
    """Whether only what is left out of /proc keeps a container from settings of the machine."""
    return "user" in shared_with_machine(pod) and not context.get("privileged")


def _beyond_range(who: str, context: Obj) -> Iterator[str]:
    ids = [(name, context.get(name)) for name in ("runAsUser", "runAsGroup", "fsGroup")]
    ids += [("supplementalGroups", number) for number in context.get("supplementalGroups") or ()]
    for name, number in ids:
        if number is not None and int(number) >= SIZE:
            yield f"{who}: {name} {number} is beyond {SIZE - 1}, the last id of a user namespace"


def _sysctl_problem(name: str, pod: Obj, mode: Mode) -> str:
    if name not in _SAFE_SYSCTLS:
        return "not allowlisted"
    if mode != "root":
        return f"cannot be set on a node of mode {mode}"
    if name.startswith("net.") and pod["spec"].get("hostNetwork"):
        return "not allowed with host net enabled"
    if name.startswith("kernel.") and pod["spec"].get("hostIPC"):
        return "not allowed with host ipc enabled"
    return ""


def sysctls_of(pod: Obj) -> dict[str, str]:
    """Settings of the kernel for the pod, with dots in their names."""
    wanted = (pod["spec"].get("securityContext") or {}).get("sysctls") or ()
    return {entry["name"].replace("/", "."): str(entry.get("value", "")) for entry in wanted}


def shared_with_machine(pod: Obj) -> list[str]:
    """The kinds of namespaces that the pod has none of its own of."""
    fields = {"hostPID": "pid", "hostIPC": "ipc", "hostUsers": "user"}
    found = [kind for field, kind in fields.items() if pod["spec"].get(field)]
    if any(context.get("privileged") for _, context in _containers(pod)) and "user" not in found:
        found.append("user")
    return found


# -- privileges ------------------------------------------------------------------------------------


def privileges_of(pod: Obj, container: Obj, *, max_processes: int) -> dict[str, Any]:
    """As the shim reads it. Raises ConfigError."""
    of_pod = pod["spec"].get("securityContext") or {}
    own = container.get("securityContext") or {}
    privileged = bool(own.get("privileged"))
    escalation = own.get("allowPrivilegeEscalation")
    if privileged and escalation is False:
        raise ConfigError("a privileged container cannot have allowPrivilegeEscalation: false")
    profile = own.get("seccompProfile") or of_pod.get("seccompProfile") or {}
    default = _AS_THE_MACHINES if "user" in shared_with_machine(pod) else DEFAULT
    kept = set(CAPABILITIES) if privileged else _capabilities(own, default)
    return {
        "capabilities": sorted(kept),
        # who says nothing gets no more rights by executing a program, unless it administers anyway
        "noNewPrivileges": "SYS_ADMIN" not in kept if escalation is None else not escalation,
        "seccomp": not privileged and profile.get("type") != "Unconfined",
        "maxProcesses": max_processes,
    }


def hides_proc(pod: Obj, container: Obj) -> bool:
    """Whether /proc leaves out what tells of the machine and changes it: procMount ``Default``."""
    context = container.get("securityContext") or {}
    return not context.get("privileged") and context.get("procMount") != UNMASKED


def _capabilities(context: Obj, default: Collection[str]) -> set[str]:
    added, dropped = _added(context), _dropped(context)
    found = set() if "ALL" in dropped else set(default)
    found |= set(CAPABILITIES) if "ALL" in added else set(added)
    return found - set(dropped)


def _added(context: Obj) -> list[str]:
    return _names((context.get("capabilities") or {}).get("add"))


def _dropped(context: Obj) -> list[str]:
    return _names((context.get("capabilities") or {}).get("drop"))


def _names(words: Collection[str] | None) -> list[str]:
    return [str(word).upper().removeprefix("CAP_") for word in words or ()]


# -- where nothing can be kept apart ---------------------------------------------------------------

_APPLIED: Final = (
    "capabilities", "readOnlyRootFilesystem", "procMount", "seccompProfile", "appArmorProfile",
    "seLinuxOptions", "windowsOptions",
)  # fmt: skip


def ignored(pod: Obj) -> list[str]:
    """Fields of security contexts that a node of mode ``plain`` cannot apply."""
    found = {name for _, context in _contexts(pod) for name in _APPLIED if context.get(name)}
    if any(context.get("allowPrivilegeEscalation") is False for _, context in _containers(pod)):
        found.add("allowPrivilegeEscalation")
    if sysctls_of(pod):
        found.add("sysctls")
    return sorted(found)

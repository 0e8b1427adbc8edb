"""The checks of the Pod Security Standards, each from the version on that introduced it.

A check takes the pod's metadata and spec and answers None or (reason, detail). ``checks_for``
gives those of a level and version in the order their findings are printed: baseline before
restricted, by name; restricted checks that are stricter replace their baseline counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from corral.kube.types import Obj

__all__ = ["LATEST", "NEWEST", "Check", "Finding", "checks_for"]

Finding: TypeAlias = tuple[str, str]
Check: TypeAlias = Callable[[Obj, Obj], Finding | None]
NEWEST = 37
"""The newest minor version that changed anything."""
LATEST = 1_000_000
"""The minor version that ``latest`` stands for."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def _containers(spec: Obj) -> Iterator[tuple[str, Obj]]:
    """Name and security context of every container."""
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            yield container.get("name", ""), container.get("securityContext") or {}


def _pod_context(spec: Obj) -> Obj:
    return spec.get("securityContext") or {}


def quoted(items: list[str]) -> str:
    return '"' + '", "'.join(items) + '"'


def _number(singular: str, plural: str, count: int) -> str:
    return singular if count == 1 else plural


def _named(names: list[str]) -> str:
    return f"{_number('container', 'containers', len(names))} {quoted(names)}"


def _setters(pod: bool, names: list[str]) -> str:
    return " and ".join((["pod"] if pod else []) + ([_named(names)] if names else []))


def _windows(spec: Obj) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _own_users(spec: Obj) -> bool:
    """The pod has a user namespace: root inside is nobody outside."""
    return spec.get("hostUsers") is False


def _unless(skip: Callable[[Obj], bool], check: Check) -> Check:
    return lambda meta, spec: None if skip(spec) else check(meta, spec)


# -- baseline ------------------------------------------------------------------------------

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})


def _app_armor(meta: Obj, spec: Obj) -> Finding | None:
    values: set[str] = set()
    own: Any = _pod_context(spec).get("appArmorProfile")
    pod = own is not None and own.get("type") not in _PROFILES
    if pod:
        values.add(own.get("type", ""))
    names = []
    for name, context in _containers(spec):
        profile = context.get("appArmorProfile")
        if profile is not None and profile.get("type") not in _PROFILES:
            names.append(name)
            values.add(profile.get("type", ""))
    listed = sorted(values)
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (meta.get("annotations") or {}).items()
        if key.startswith(_APPARMOR)
        and value
        and value != "runtime/default"
        and not value.startswith("localhost/")
    )
    setters = [s for s in (_setters(pod, names),) if s]
    if annotations:
        listed += annotations
        setters.append(_number("annotation", "annotations", len(annotations)))
    if not setters:
        return None
    reason = _number("forbidden AppArmor profile", "forbidden AppArmor profiles", len(listed))
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(listed)}"


_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip


def _added(spec: Obj, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Containers that add other capabilities, and those capabilities."""
    names, forbidden = [], set()
    for name, context in _containers(spec):
        extra = set((context.get("capabilities") or {}).get("add") or ()) - allowed
        if extra:
            names.append(name)
            forbidden |= extra
    return names, sorted(forbidden)


def _capabilities(meta: Obj, spec: Obj) -> Finding | None:
    names, forbidden = _added(spec, _DEFAULT_CAPABILITIES)
    if not names:
        return None
    text = f"must not include {quoted(forbidden)} in securityContext.capabilities.add"
    return "non-default capabilities", f"{_named(names)} {text}"


def _host_namespaces(meta: Obj, spec: Obj) -> Finding | None:
    used = [f"{f}=true" for f in ("hostNetwork", "hostPID", "hostIPC") if spec.get(f)]
    return ("host namespaces", ", ".join(used)) if used else None


def _host_paths(meta: Obj, spec: Obj) -> Finding | None:
    names = [v["name"] for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    if not names:
        return None
    return "hostPath volumes", f"{_number('volume', 'volumes', len(names))} {quoted(names)}"


def _host_ports(meta: Obj, spec: Obj) -> Finding | None:
    names, ports = [], set()
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            used = {str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")}
            if used:
                names.append(container.get("name", ""))
                ports |= used
    if not names:
        return None
    use = _number("uses", "use", len(names))
    word = _number("hostPort", "hostPorts", len(ports))
    return "hostPort", f"{_named(names)} {use} {word} {', '.join(sorted(ports))}"


def _probe_hosts(meta: Obj, spec: Obj) -> Finding | None:
    names, hosts = set(), set()
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            for handler in _handlers(container):
                for kind in ("httpGet", "tcpSocket"):
                    host = (handler.get(kind) or {}).get("host")
                    if host:
                        names.add(container.get("name", ""))
                        hosts.add(host)
    if not names:
        return None
    use = _number("uses", "use", len(names))
    word = _number("probe or lifecycle host", "probe or lifecycle hosts", len(hosts))
    detail = f"{_named(sorted(names))} {use} {word} {quoted(sorted(hosts))}"
    return "probe or lifecycle host", detail


def _handlers(container: Obj) -> Iterator[Obj]:
    lifecycle = container.get("lifecycle") or {}
    for holder, fields in (
        (container, ("livenessProbe", "readinessProbe", "startupProbe")),
        (lifecycle, ("postStart", "preStop")),
    ):
        for field in fields:
            if holder.get(field):
                yield holder[field]


def _privileged(meta: Obj, spec: Obj) -> Finding | None:
    names = [name for name, context in _containers(spec) if context.get("privileged")]
    if not names:
        return None
    return "privileged", f"{_named(names)} must not set securityContext.privileged=true"


def _proc_mount(meta: Obj, spec: Obj) -> Finding | None:
    names, types = [], set()
    for name, context in _containers(spec):
        kind = context.get("procMount")
        if kind is not None and kind != "Default":
            names.append(name)
            types.add(kind)
    if not names:
        return None
    text = f"must not set securityContext.procMount to {quoted(sorted(types))}"
    return "procMount", f"{_named(names)} {text}"


_SELINUX = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_31 = _SELINUX | {"container_engine_t"}


def _selinux(allowed: frozenset[str], meta: Obj, spec: Obj) -> Finding | None:
    types: set[str] = set()
    seen: set[str] = set()

    def bad(options: Obj | None) -> bool:
        if options is None:
            return False
        wrong = {field for field in ("user", "role") if options.get(field)}
        seen.update(wrong)
        kind = options.get("type", "")
        if kind not in allowed:
            types.add(kind)
        return bool(wrong) or kind not in allowed

    pod = bad(_pod_context(spec).get("seLinuxOptions"))
    names = [name for name, context in _containers(spec) if bad(context.get("seLinuxOptions"))]
    setters = _setters(pod, names)
    if not setters:
        return None
    data = [f"{_number('type', 'types', len(types))} {quoted(sorted(types))}"] if types else []
    data += [f"{field} may not be set" for field in ("user", "role") if field in seen]
    detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    return "seLinuxOptions", detail


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(meta: Obj, spec: Obj) -> Finding | None:
    annotations = meta.get("annotations") or {}
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name, _ in _containers(spec))]
    forbidden = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not forbidden:
        return None
    word = _number("annotation", "annotations", len(forbidden))
    return "seccompProfile", f"forbidden {word} {', '.join(forbidden)}"


def _seccomp(meta: Obj, spec: Obj) -> Finding | None:
    return _seccomp_profiles(spec, required=False)


def _seccomp_restricted(meta: Obj, spec: Obj) -> Finding | None:
    return _seccomp_profiles(spec, required=True)


def _seccomp_profiles(spec: Obj, *, required: bool) -> Finding | None:
    values: set[str] = set()
    own: Any = _pod_context(spec).get("seccompProfile")
    pod_bad = own is not None and own.get("type") not in _PROFILES
    if pod_bad:
        values.add(own.get("type", ""))
    bad, unset = [], []
    for name, context in _containers(spec):
        profile = context.get("seccompProfile")
        if profile is None:
            if own is None or pod_bad:
                unset.append(name)
        elif profile.get("type") not in _PROFILES:
            bad.append(name)
            values.add(profile.get("type", ""))
    setters = _setters(pod_bad, bad)
    field = "securityContext.seccompProfile.type"
    if setters:
        return "seccompProfile", f"{setters} must not set {field} to {quoted(sorted(values))}"
    if required and unset:
        text = f'must set {field} to "RuntimeDefault" or "Localhost"'
        return "seccompProfile", f"pod or {_named(unset)} {text}"
    return None


_SYSCTLS_0 = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    }
)  # fmt: skip
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37 = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}


def _sysctls(allowed: frozenset[str], meta: Obj, spec: Obj) -> Finding | None:
    names = [s.get("name", "") for s in _pod_context(spec).get("sysctls") or ()]
    forbidden = [name for name in names if name not in allowed]
    return ("forbidden sysctls", ", ".join(forbidden)) if forbidden else None


def _host_process(meta: Obj, spec: Obj) -> Finding | None:
    def set_in(context: Obj) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    names = [name for name, context in _containers(spec) if set_in(context)]
    setters = _setters(set_in(_pod_context(spec)), names)
    if not setters:
        return None
    text = "must not set securityContext.windowsOptions.hostProcess=true"
    return "hostProcess", f"{setters} {text}"


# -- restricted ----------------------------------------------------------------------------


def _escalation(meta: Obj, spec: Obj) -> Finding | None:
    names = [
        name
        for name, context in _containers(spec)
        if context.get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    text = "must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", f"{_named(names)} {text}"


def _capabilities_restricted(meta: Obj, spec: Obj) -> Finding | None:
    keeping = [
        name
        for name, context in _containers(spec)
        if "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    ]
    adding, forbidden = _added(spec, frozenset({"NET_BIND_SERVICE"}))
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        text = f"must not include {quoted(forbidden)} in securityContext.capabilities.add"
        details.append(f"{_named(adding)} {text}")
    return ("unrestricted capabilities", "; ".join(details)) if details else None


_VOLUME_TYPES = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
        "persistentVolumeClaim", "projected", "secret",
    }
)  # fmt: skip
_OTHER_VOLUME_TYPES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi",
    "glusterfs", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile",
    "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO",
    "storageos",
)  # fmt: skip


def _volume_types(meta: Obj, spec: Obj) -> Finding | None:
    names, types = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _VOLUME_TYPES):
            continue
        names.append(volume.get("name", ""))
        found = (kind for kind in _OTHER_VOLUME_TYPES if volume.get(kind) is not None)
        types.add(next(found, "unknown"))
    if not names:
        return None
    volumes, use = _number("volume", "volumes", len(names)), _number("uses", "use", len(names))
    kinds = _number("restricted volume type", "restricted volume types", len(types))
    detail = f"{volumes} {quoted(names)} {use} {kinds} {quoted(sorted(types))}"
    return "restricted volume types", detail


def _non_root(meta: Obj, spec: Obj) -> Finding | None:
    own = _pod_context(spec).get("runAsNonRoot")
    bad, unset = [], []
    for name, context in _containers(spec):
        value = context.get("runAsNonRoot")
        if value is None:
            if not own:
                unset.append(name)
        elif not value:
            bad.append(name)
    setters = _setters(own is False, bad)
    if setters:
        detail = f"{setters} must not set securityContext.runAsNonRoot=false"
    elif unset:
        detail = f"pod or {_named(unset)} must set securityContext.runAsNonRoot=true"
    else:
        return None
    return "runAsNonRoot != true", detail


def _user(meta: Obj, spec: Obj) -> Finding | None:
    names = [name for name, context in _containers(spec) if context.get("runAsUser") == 0]
    setters = _setters(_pod_context(spec).get("runAsUser") == 0, names)
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


# -- which of them hold --------------------------------------------------------------------


class _Rule(NamedTuple):
    id: str
    versions: tuple[tuple[int, Check], ...]
    replaces: str = ""


def _rule(id_: str, *versions: tuple[int, Any], replaces: str = "") -> _Rule:
    return _Rule(id_, versions, replaces)


_BASELINE = (
    _rule("appArmorProfile", (0, _app_armor)),
    _rule("capabilities_baseline", (0, _capabilities)),
    _rule("hostNamespaces", (0, _host_namespaces)),
    _rule("hostPathVolumes", (0, _host_paths)),
    _rule("hostPorts", (0, _host_ports)),
    _rule("hostProbesAndHostLifecycle", (34, _probe_hosts)),
    _rule("privileged", (0, _privileged)),
    _rule("procMount", (0, _proc_mount), (35, _unless(_own_users, _proc_mount))),
    _rule("seLinuxOptions", (0, partial(_selinux, _SELINUX)), (31, partial(_selinux, _SELINUX_31))),
    _rule("seccompProfile_baseline", (0, _seccomp_annotations), (19, _seccomp)),
    _rule(
        "sysctls",
        (0, partial(_sysctls, _SYSCTLS_0)),
        (27, partial(_sysctls, _SYSCTLS_27)),
        (29, partial(_sysctls, _SYSCTLS_29)),
        (32, partial(_sysctls, _SYSCTLS_32)),
        (37, partial(_sysctls, _SYSCTLS_37)),
    ),
    _rule("windowsHostProcess", (0, _host_process)),
)
_RESTRICTED = (
    _rule("allowPrivilegeEscalation", (8, _escalation), (25, _unless(_windows, _escalation))),
    _rule(
        "capabilities_restricted",
        (22, _capabilities_restricted),
        (25, _unless(_windows, _capabilities_restricted)),
        replaces="capabilities_baseline",
    ),
    _rule("procMount_restricted", (35, _proc_mount), replaces="procMount"),
    _rule("restrictedVolumes", (0, _volume_types), replaces="hostPathVolumes"),
    _rule("runAsNonRoot", (0, _non_root), (35, _unless(_own_users, _non_root))),
    _rule("runAsUser", (23, _user), (35, _unless(_own_users, _user))),
    _rule(
        "seccompProfile_restricted",
        (19, _seccomp_restricted),
        (25, _unless(_windows, _seccomp_restricted)),
        replaces="seccompProfile_baseline",
    ),
)


@cache
def checks_for(level: str, minor: int) -> tuple[Check, ...]:
    """The checks of ``baseline`` or ``restricted`` at Kubernetes 1.``minor``."""
    minor = min(minor, NEWEST)
    rules = [(r, _at(r, minor)) for r in (_BASELINE if level == "baseline" else _RESTRICTED)]
    if level == "baseline":
        return tuple(check for _, check in rules if check is not None)
    replaced = {r.replaces for r, check in rules if check is not None}
    baseline = [_at(r, minor) for r in _BASELINE if r.id not in replaced]
    return tuple(c for c in [*baseline, *(check for _, check in rules)] if c is not None)


def _at(rule: _Rule, minor: int) -> Check | None:
    found = [check for since, check in rule.versions if since <= minor]
    return found[-1] if found else None

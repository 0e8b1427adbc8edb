"""Security contexts of pods and containers."""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import dns_subdomain, in_range
from corral.cluster.apiserver.builtin.validation.fields.paths import check_local_path
from corral.cluster.apiserver.builtin.validation.fields.structs import security_context
from corral.kube.types import Obj

__all__ = ["check_container_security", "check_os", "check_pod_security"]

_MAX_ID = 2**31 - 1
_SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_sysctl = re.compile(_SYSCTL[1:-1]).fullmatch
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def _check_id(errs: Errors, context: Obj, name: str, path: str) -> None:
    value = context.get(name)
    if value is not None and not 0 <= value <= _MAX_ID:
        errs.invalid_each(f"{path}.{name}", value, in_range(value, 0, _MAX_ID))


def _check_seccomp(errs: Errors, profile: Obj | None, path: str) -> None:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        errs.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        errs.not_supported(f"{path}.type", kind, _PROFILES)
    where = f"{path}.localhostProfile"
    if kind == "Localhost":
        if local is None:
            errs.required(where, "must be set when seccomp type is Localhost")
        else:
            check_local_path(errs, local, where)
    elif local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        errs.invalid(where, shown, "can only be set when seccomp type is Localhost")


def _check_apparmor(errs: Errors, profile: Obj | None, path: str) -> None:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    needed = "must be set when AppArmor type is Localhost"
    if kind == "Localhost":
        if local is None or local == "":
            errs.required(where, needed)
        elif local.strip() != local:
            errs.invalid(where, local, "must not be padded with whitespace")
        if local and len(local) > 4095:
            errs.too_long(where, 4095)
    elif kind in _PROFILES:
        if local is not None:
            errs.invalid(where, local, "can only be set when AppArmor type is Localhost")
    elif not kind:
        errs.required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        errs.not_supported(f"{path}.type", kind, _PROFILES)


def _check_windows(errs: Errors, options: Obj | None, path: str) -> None:
    if options is None:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        errs.format(f"{path}.gmsaCredentialSpecName", name, dns_subdomain)
    spec = options.get("gmsaCredentialSpec")
    if spec == "":
        why = "gmsaCredentialSpec cannot be an empty string"
        errs.invalid(f"{path}.gmsaCredentialSpec", spec, why)
    elif spec and len(spec) > 64 * 1024:
        why = "gmsaCredentialSpec size must be under 64 KiB"
        errs.invalid(f"{path}.gmsaCredentialSpec", spec, why)
    if options.get("runAsUserName") == "":
        errs.invalid(f"{path}.runAsUserName", "", "runAsUserName cannot be an empty string")


def _check_sysctls(errs: Errors, sysctls: list[Obj], spec: Obj, path: str) -> None:
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        name, where = sysctl.get("name") or "", f"{path}[{i}].name"
        if not name:
            errs.required(where)
        elif len(name) > 253 or not _sysctl(name):
            errs.invalid(where, name, f"must have at most 253 characters and match regex {_SYSCTL}")
        elif name in seen:
            errs.duplicate(where, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errs.invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            errs.invalid(where, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def check_pod_security(errs: Errors, context: Obj | None, spec: Obj, path: str) -> None:
    if not context:
        return
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        _check_id(errs, context, name, path)
    for i, gid in enumerate(context.get("supplementalGroups") or ()):
        errs.invalid_each(f"{path}.supplementalGroups[{i}]", gid, in_range(gid, 0, _MAX_ID))
    if sysctls := context.get("sysctls"):
        _check_sysctls(errs, sysctls, spec, f"{path}.sysctls")
    _check_choice(errs, context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    _check_seccomp(errs, context.get("seccompProfile"), f"{path}.seccompProfile")
    _check_windows(errs, context.get("windowsOptions"), f"{path}.windowsOptions")
    _check_apparmor(errs, context.get("appArmorProfile"), f"{path}.appArmorProfile")
    _check_choice(errs, context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)
    _check_choice(errs, context, "seLinuxChangePolicy", ("MountOption", "Recursive"), path)


def _check_choice(
    errs: Errors, context: Obj, name: str, allowed: tuple[str, ...], path: str
) -> None:
    value = context.get(name)
    if value is not None and value not in allowed:
        errs.not_supported(f"{path}.{name}", value, allowed)


def check_container_security(
    errs: Errors, context: Obj | None, path: str, *, host_users: bool
) -> None:
    if not context:
        return
    _check_id(errs, context, "runAsUser", path)
    _check_id(errs, context, "runAsGroup", path)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in ("Default", "Unmasked"):
            errs.not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            errs.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    _check_seccomp(errs, context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        _check_escalation(errs, context, path)
    _check_windows(errs, context.get("windowsOptions"), f"{path}.windowsOptions")
    _check_apparmor(errs, context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _check_escalation(errs: Errors, context: Obj, path: str) -> None:
    if context.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errs.invalid(path, security_context(context), why)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errs.invalid(path, security_context(context), why)


_POD_NOT_WINDOWS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_CONTAINER_NOT_WINDOWS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def check_os(errs: Errors, spec: Obj, path: str) -> None:
    """What a pod that names its operating system may not ask for."""
    name = spec["os"].get("name") or ""
    if not name:
        errs.required(f"{path}.os.name")
        return
    if name not in ("linux", "windows"):
        errs.not_supported(f"{path}.os", name, ("linux", "windows"))
        return
    context = spec.get("securityContext") or {}
    names: tuple[str, ...] = ("windowsOptions",)
    own: tuple[str, ...] = names
    if name == "linux":
        why = "windows options cannot be set for a linux pod"
    else:
        names, why = _POD_NOT_WINDOWS, "cannot be set for a windows pod"
        own = _CONTAINER_NOT_WINDOWS
    _forbid(errs, context, names, f"{path}.securityContext", why)
    if name == "windows":
        _forbid(errs, spec, ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"), path, why)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{i}].securityContext"
            _forbid(errs, container.get("securityContext") or {}, own, where, why)


def _forbid(errs: Errors, holder: Obj, names: tuple[str, ...], path: str, why: str) -> None:
    for name in names:
        value = holder.get(name)
        if value is not None and not (name in ("hostPID", "hostIPC") and not value):
            errs.forbidden(f"{path}.{name}", why)

"""Security contexts of pods and containers."""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.check import Check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.paths import check_local_path
from corral.cluster.apiserver.builtin.validation.fields.structs import security_context
from corral.kube.types import Obj

__all__ = ["check_container_security", "check_os", "check_pod_security"]

_SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_sysctl = re.compile(_SYSCTL[1:-1]).fullmatch
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_ID = check.format_of(lambda number: names.in_range(number, 0, 2**31 - 1))

# -- profiles and options --------------------------------------------------------------------------


def _check_not_localhost(errs: Errors, profile: Obj, path: str) -> None:
    if (local := profile.get("localhostProfile")) is not None:
        shown = {"Type": profile.get("type") or "", "LocalhostProfile": local}
        why = "can only be set when seccomp type is Localhost"
        errs.invalid(f"{path}.localhostProfile", shown, why)


def _check_profile(errs: Errors, local: str, path: str) -> None:
    if local.strip() != local:
        errs.invalid(path, local, "must not be padded with whitespace")
    if len(local) > 4095:
        errs.too_long(path, 4095)


_PROFILE = check.choice("Localhost", "RuntimeDefault", "Unconfined")
_NEEDS_LOCAL = "must be set when seccomp type is Localhost"
_SECCOMP = check.struct(
    check.needed("type", _PROFILE, "type is required when seccompProfile is set"),
    check.union(
        "type",
        {"Localhost": check.given("localhostProfile", check_local_path, _NEEDS_LOCAL)},
        _check_not_localhost,
    ),
)
_NEEDS_APPARMOR = "must be set when AppArmor type is Localhost"
_NO_APPARMOR = check.pointer(
    "localhostProfile", check.refused("can only be set when AppArmor type is Localhost")
)
_APPARMOR = check.union(
    "type",
    {
        "Localhost": check.needed("localhostProfile", _check_profile, _NEEDS_APPARMOR),
        "RuntimeDefault": _NO_APPARMOR,
        "Unconfined": _NO_APPARMOR,
    },
    check.needed("type", _PROFILE, "type is required when appArmorProfile is set"),
)


def _not_empty(name: str) -> Check:
    return check.pointer(name, check.holds(bool, f"{name} cannot be an empty string"))


_WINDOWS = check.struct(
    check.pointer("gmsaCredentialSpecName", check.SUBDOMAIN),
    _not_empty("gmsaCredentialSpec"),
    check.optional(
        "gmsaCredentialSpec",
        check.holds(lambda s: len(s) <= 64 * 1024, "gmsaCredentialSpec size must be under 64 KiB"),
    ),
    _not_empty("runAsUserName"),
)
_COMMON = (check.pointer("windowsOptions", _WINDOWS), check.pointer("appArmorProfile", _APPARMOR))

# -- contexts --------------------------------------------------------------------------------------


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


_POD_IDS = check.struct(
    check.pointer("fsGroup runAsUser runAsGroup", _ID), check.items("supplementalGroups", _ID)
)
_POD = check.struct(
    check.pointer("fsGroupChangePolicy", check.choice("Always", "OnRootMismatch")),
    check.pointer("seccompProfile", _SECCOMP),
    *_COMMON,
    check.pointer("supplementalGroupsPolicy", check.choice("Merge", "Strict")),
    check.pointer("seLinuxChangePolicy", check.choice("MountOption", "Recursive")),
)


def check_pod_security(errs: Errors, context: Obj, spec: Obj, path: str) -> None:
    """The security context of a pod."""
    _POD_IDS(errs, context, path)
    if sysctls := context.get("sysctls"):
        _check_sysctls(errs, sysctls, spec, f"{path}.sysctls")
    _POD(errs, context, path)


def _check_escalation(errs: Errors, context: Obj, path: str) -> None:
    if context.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errs.invalid(path, security_context(context), why)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errs.invalid(path, security_context(context), why)


_CONTAINER_START = check.struct(
    check.pointer("runAsUser runAsGroup", _ID),
    check.pointer("procMount", check.choice("Default", "Unmasked")),
)
_CONTAINER = check.struct(
    check.pointer("seccompProfile", _SECCOMP),
    check.when(lambda context: context.get("allowPrivilegeEscalation") is False, _check_escalation),
    *_COMMON,
)


def check_container_security(errs: Errors, context: Obj, path: str, *, host_users: bool) -> None:
    """The security context of a container."""
    _CONTAINER_START(errs, context, path)
    if host_users and context.get("procMount") == "Unmasked":
        errs.invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    _CONTAINER(errs, context, path)


# -- operating systems -----------------------------------------------------------------------------

_POD_NOT_WINDOWS = (
    "appArmorProfile seLinuxOptions seccompProfile fsGroup fsGroupChangePolicy sysctls runAsUser "
    "runAsGroup supplementalGroups supplementalGroupsPolicy seLinuxChangePolicy"
)
_CONTAINER_NOT_WINDOWS = (
    "appArmorProfile seLinuxOptions seccompProfile capabilities readOnlyRootFilesystem privileged "
    "allowPrivilegeEscalation procMount runAsUser runAsGroup"
)
_NOT_LINUX = check.unset("windowsOptions", "windows options cannot be set for a linux pod")
_NOT_WINDOWS = "cannot be set for a windows pod"
_OF_POD = {"linux": _NOT_LINUX, "windows": check.unset(_POD_NOT_WINDOWS, _NOT_WINDOWS)}
_OF_CONTAINER = {"linux": _NOT_LINUX, "windows": check.unset(_CONTAINER_NOT_WINDOWS, _NOT_WINDOWS)}


def check_os(errs: Errors, spec: Obj, path: str) -> None:
    """What a pod that names its operating system may not ask for."""
    name = spec["os"].get("name") or ""
    if not name:
        errs.required(f"{path}.os.name")
        return
    if name not in _OF_POD:
        errs.not_supported(f"{path}.os", name, tuple(_OF_POD))
        return
    check.inside("securityContext", _OF_POD[name])(errs, spec, path)
    if name == "windows":
        check.unset("hostUsers", _NOT_WINDOWS)(errs, spec, path)
        for host in ("hostPID", "hostIPC"):
            if spec.get(host):
                errs.forbidden(f"{path}.{host}", _NOT_WINDOWS)
        check.unset("shareProcessNamespace", _NOT_WINDOWS)(errs, spec, path)
    containers = check.each(check.inside("securityContext", _OF_CONTAINER[name]))
    check.always("initContainers containers ephemeralContainers", containers, ())(errs, spec, path)

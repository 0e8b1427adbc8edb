"""Where containers mount the volumes of their pod."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.paths import check_local_path
from corral.kube.types import Obj

__all__ = ["check_devices", "check_mounts"]

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_mounts(errs: Errors, container: Obj, volumes: dict[str, Obj], path: str) -> None:
    devices = container.get("volumeDevices") or ()
    device_names = {d.get("name") or "" for d in devices}
    device_paths = {d.get("devicePath") or "" for d in devices}
    points: set[str] = set()
    for i, mount in enumerate(container["volumeMounts"]):
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        where = f"{path}[{i}]"
        if not name:
            errs.required(f"{where}.name")
        if name not in volumes:
            errs.not_found(f"{where}.name", name)
        if not point:
            errs.required(f"{where}.mountPath")
        if point in points:
            errs.invalid(f"{where}.mountPath", point, "must be unique")
        points.add(point)
        if devices:
            if name in device_names:
                errs.invalid(f"{where}.name", name, "must not already exist in volumeDevices")
            if point in device_paths:
                why = "must not already exist as a path in volumeDevices"
                errs.invalid(f"{where}.mountPath", point, why)
        _check_options(errs, mount, container, where, path)


def _check_options(errs: Errors, mount: Obj, container: Obj, where: str, path: str) -> None:
    sub, expr = mount.get("subPath"), mount.get("subPathExpr")
    if sub:
        check_local_path(errs, sub, f"{path}.subPath")
    if expr:
        if sub:
            why = "subPathExpr and subPath are mutually exclusive"
            errs.invalid(f"{where}.subPathExpr", expr, why)
        check_local_path(errs, expr, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            errs.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            why = "Bidirectional mount propagation is available only to privileged containers"
            errs.forbidden(f"{path}.mountPropagation", why)
    recursive = mount.get("recursiveReadOnly")
    if recursive is not None:
        _check_recursive(errs, mount, recursive, f"{path}.recursiveReadOnly")


def _check_recursive(errs: Errors, mount: Obj, mode: str, path: str) -> None:
    if mode not in _RECURSIVE:
        errs.not_supported(path, mode, _RECURSIVE)
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            errs.forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation") not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            errs.forbidden(path, why)


def check_devices(errs: Errors, container: Obj, volumes: dict[str, Obj], path: str) -> None:
    mounts = container.get("volumeMounts") or ()
    mount_names = {m.get("name") or "" for m in mounts}
    mount_paths = {m.get("mountPath") or "" for m in mounts}
    names: set[str] = set()
    points: set[str] = set()
    for i, device in enumerate(container["volumeDevices"]):
        name, point = device.get("name") or "", device.get("devicePath") or ""
        where = f"{path}[{i}]"
        _check_device_name(errs, name, volumes, names, f"{where}.name")
        if not point:
            errs.required(f"{where}.devicePath")
        if point in points:
            errs.invalid(f"{where}.devicePath", point, "must be unique")
        if ".." in point.split("/"):
            errs.invalid(f"{where}.devicePath", point, "can not contain backsteps ('..')")
        else:
            points.add(point)
        if name in mount_names:
            errs.invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if point in mount_paths:
            why = "must not already exist as a path in volumeMounts"
            errs.invalid(f"{where}.devicePath", point, why)
        if name:
            names.add(name)


def _check_device_name(
    errs: Errors, name: str, volumes: dict[str, Obj], names: set[str], path: str
) -> None:
    if not name:
        errs.required(path)
    if name in names:
        errs.invalid(path, name, "must be unique")
    volume = volumes.get(name)
    if volume is None:
        errs.not_found(path, name)
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errs.invalid(path, name, why)

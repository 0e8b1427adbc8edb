"""Environment of containers: variables and the sources they come from."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    config_map_key,
    dns_label,
    dns_subdomain,
    env_name,
    name_is_subdomain,
)
from corral.cluster.apiserver.builtin.validation.fields.paths import check_no_backsteps
from corral.cluster.apiserver.builtin.validation.pods.downward import (
    ENV_FIELDS,
    check_field_ref,
    check_resource_field_ref,
)
from corral.kube.types import Obj

__all__ = ["check_env", "check_env_from", "check_file_refs"]

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NO_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
    "`fileKeyRef`"
)
_TWO_SOURCES = "may not have more than one field specified at a time"


def check_env(errs: Errors, variables: list[Obj], path: str) -> None:
    for i, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            errs.required(f"{path}[{i}].name")
        elif found := env_name(name):
            errs.invalid_each(f"{path}[{i}].name", name, found)
        source = variable.get("valueFrom")
        if source is not None:
            _check_source(errs, source, variable, f"{path}[{i}].valueFrom")


def _check_source(errs: Errors, source: Obj, variable: Obj, path: str) -> None:
    count = 0
    for kind in _SOURCES:
        ref = source.get(kind)
        if ref is None:
            continue
        count += 1
        where = f"{path}.{kind}"
        if kind == "fieldRef":
            check_field_ref(errs, ref, ENV_FIELDS, where)
        elif kind == "resourceFieldRef":
            check_resource_field_ref(errs, ref, where, volume=False)
        elif kind == "fileKeyRef":
            _check_file_ref(errs, ref, where)
        else:
            _check_key_ref(errs, ref, where)
    if count == 0:
        errs.invalid(path, "", _NO_SOURCE)
    elif variable.get("value"):
        errs.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        errs.invalid(path, "", _TWO_SOURCES)


def _check_key_ref(errs: Errors, ref: Obj, path: str) -> None:
    name, key = ref.get("name") or "", ref.get("key") or ""
    if found := dns_subdomain(name):
        errs.invalid_each(f"{path}.name", name, found)
    if not key:
        errs.required(f"{path}.key")
    elif found := config_map_key(key):
        errs.invalid_each(f"{path}.key", key, found)


def _check_file_ref(errs: Errors, ref: Obj, path: str) -> None:
    key, volume, file = ref.get("key"), ref.get("volumeName"), ref.get("path")
    if not key:
        errs.required(f"{path}.key")
    else:
        errs.format(f"{path}.key", key, env_name)
    if not volume:
        errs.required(f"{path}.volumeName")
    else:
        errs.format(f"{path}.volumeName", volume, dns_label)
    if not file:
        errs.required(f"{path}.path")
    else:
        check_no_backsteps(errs, file, f"{path}.path")


def check_env_from(errs: Errors, sources: list[Obj], path: str) -> None:
    for i, source in enumerate(sources):
        if prefix := source.get("prefix"):
            errs.format(f"{path}[{i}].prefix", prefix, env_name)
        count = 0
        for kind in ("configMapRef", "secretRef"):
            ref = source.get(kind)
            if ref is None:
                continue
            count += 1
            name = ref.get("name") or ""
            if not name:
                errs.required(f"{path}[{i}].{kind}.name")
            else:
                found = name_is_subdomain(name, True)
                errs.invalid_each(f"{path}[{i}].{kind}.name", name, found)
        if count == 0:
            errs.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif count > 1:
            errs.invalid(path, "", _TWO_SOURCES)


def check_file_refs(errs: Errors, spec: Obj, path: str) -> None:
    """Variables read from files need an emptyDir volume to read from."""
    volumes: dict[str | None, Obj] = {}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            for j, variable in enumerate(container.get("env") or ()):
                ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if ref is not None:
                    volumes = volumes or _volumes_by_name(spec)
                    where = f"{path}.{kind}[{i}].env[{j}].valueFrom.fileKeyRef.volumeName"
                    _check_file_volume(errs, volumes, ref.get("volumeName") or "", where)


def _volumes_by_name(spec: Obj) -> dict[str | None, Obj]:
    """The volumes of a pod; of those with the same name the first counts."""
    return {v.get("name"): v for v in reversed(spec.get("volumes") or ())}


def _check_file_volume(errs: Errors, volumes: dict[str | None, Obj], name: str, path: str) -> None:
    volume = volumes.get(name)
    if volume is None:
        errs.not_found(path, name)
    elif volume.get("emptyDir") is None:
        errs.invalid(path, name, "referenced volume must be of type emptyDir")

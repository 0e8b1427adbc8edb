"""Volumes of pods: one source each, and what each source needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, int_of
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    in_range,
)
from corral.cluster.apiserver.builtin.validation.fields.paths import (
    check_local_path,
    check_no_backsteps,
    check_unreserved_path,
)
from corral.cluster.apiserver.builtin.validation.fields.quantities import nano
from corral.cluster.apiserver.builtin.validation.pods.downward import (
    VOLUME_FIELDS,
    check_field_ref,
    check_resource_field_ref,
)
from corral.cluster.apiserver.builtin.validation.pods.projected import check_projected
from corral.kube.types import Obj

__all__ = ["PULL_POLICIES", "SOURCE_CHECKS", "check_csi_driver_name", "check_volumes"]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MORE_THAN_ONE = "may not specify more than 1 volume type"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PARTITION = "must be between 0 and 255, inclusive"

SourceCheck = Callable[[Errors, Obj, str], None]


def check_csi_driver_name(errs: Errors, name: str, path: str) -> None:
    if not name:
        errs.required(path)
        return
    if len(name) > 63:
        errs.too_long(path, 63)
    errs.invalid_each(path, name, dns_subdomain(name.lower()))


def _needs(*names: str) -> SourceCheck:
    """A source that only has to name a few things."""

    def check(errs: Errors, source: Obj, path: str) -> None:
        for name in names:
            if not source.get(name):
                errs.required(f"{path}.{name}")

    return check


def _empty_dir(errs: Errors, source: Obj, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and nano(limit) < 0:
        errs.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(errs: Errors, source: Obj, path: str) -> None:
    where = source.get("path") or ""
    if not where:
        errs.required(f"{path}.path")
        return
    check_no_backsteps(errs, where, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errs.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _git_repo(errs: Errors, source: Obj, path: str) -> None:
    if not source.get("repository"):
        errs.required(f"{path}.repository")
    check_local_path(errs, source.get("directory") or "", f"{path}.directory")


def _disk(name: str) -> SourceCheck:
    def check(errs: Errors, source: Obj, path: str) -> None:
        if not source.get(name):
            errs.required(f"{path}.{name}")
        partition = int_of(source.get("partition"))
        if not 0 <= partition <= 255:
            errs.invalid(f"{path}.partition", partition, _PARTITION)

    return check


def _check_mode(errs: Errors, mode: Any, path: str) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errs.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _keyed(name: str) -> SourceCheck:
    """Secret and ConfigMap volumes: a name, a mode, and keys put at paths."""

    def check(errs: Errors, source: Obj, path: str) -> None:
        if not source.get(name):
            errs.required(f"{path}.{name}")
        _check_mode(errs, source.get("defaultMode"), f"{path}.defaultMode")
        for i, item in enumerate(source.get("items") or ()):
            check_key_to_path(errs, item, f"{path}.items[{i}]")

    return check


def check_key_to_path(errs: Errors, item: Obj, path: str) -> None:
    if not item.get("key"):
        errs.required(f"{path}.key")
    target = item.get("path") or ""
    if not target:
        errs.required(f"{path}.path")
    check_unreserved_path(errs, target, f"{path}.path")
    _check_mode(errs, item.get("mode"), f"{path}.mode")


def _nfs(errs: Errors, source: Obj, path: str) -> None:
    _needs("server", "path")(errs, source, path)
    where = source.get("path") or ""
    if not where.startswith("/"):
        errs.invalid(f"{path}.path", where, "must be an absolute path")


def _iscsi(errs: Errors, source: Obj, path: str) -> None:
    _needs("targetPortal")(errs, source, path)
    iqn = source.get("iqn") or ""
    if not iqn:
        errs.required(f"{path}.iqn")
    elif not iqn.startswith(("iqn", "eui", "naa")):
        errs.invalid(f"{path}.iqn", iqn, "must be valid format starting with iqn, eui, or naa")
    lun = int_of(source.get("lun"))
    errs.invalid_each(f"{path}.lun", lun, in_range(lun, 0, 255))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and not source.get(
        "secretRef"
    ):
        errs.required(f"{path}.secretRef")


def _fc(errs: Errors, source: Obj, path: str) -> None:
    targets, ids = source.get("targetWWNs"), source.get("wwids")
    where = f"{path}.targetWWNs"
    if not targets and not ids:
        errs.required(where, "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        errs.invalid(where, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets:
        lun = source.get("lun")
        if lun is None:
            errs.required(f"{path}.lun", "lun is required if targetWWNs is specified")
        else:
            errs.invalid_each(f"{path}.lun", lun, in_range(lun, 0, 255))


def check_downward_file(errs: Errors, item: Obj, path: str) -> None:
    target = item.get("path") or ""
    if not target:
        errs.required(f"{path}.path")
    check_unreserved_path(errs, target, f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field_ref(errs, field, VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            why = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errs.invalid(path, "resource", why)
    elif resource is not None:
        check_resource_field_ref(errs, resource, f"{path}.resourceFieldRef", volume=True)
    else:
        errs.required(path, "one of fieldRef and resourceFieldRef is required")
    _check_mode(errs, item.get("mode"), f"{path}.mode")


def _downward(errs: Errors, source: Obj, path: str) -> None:
    _check_mode(errs, source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        check_downward_file(errs, item, path)


def _projected(errs: Errors, source: Obj, path: str) -> None:
    _check_mode(errs, source.get("defaultMode"), f"{path}.defaultMode")
    check_projected(errs, source, path, check_key_to_path, check_downward_file)


def _csi(errs: Errors, source: Obj, path: str) -> None:
    check_csi_driver_name(errs, source.get("driver") or "", f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        name = secret.get("name") or ""
        if not name:
            errs.required(f"{path}.nodePublishSecretRef.name")
        else:
            errs.format(f"{path}.name", name, dns_subdomain)


def _ephemeral(errs: Errors, source: Obj, path: str) -> None:
    # Claims know volumes as well: the import has to wait for both to exist.
    from corral.cluster.apiserver.builtin.validation.storage.claims import check_claim_template

    template = source.get("volumeClaimTemplate")
    if template is None:
        errs.required(f"{path}.volumeClaimTemplate")
    else:
        check_claim_template(errs, template, f"{path}.volumeClaimTemplate")


def _image(errs: Errors, source: Obj, path: str) -> None:
    if not source.get("reference"):
        errs.required(f"{path}.reference")
    errs.one_of(f"{path}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES)


def _free(errs: Errors, source: Obj, path: str) -> None:
    """Sources of drivers that no longer exist: nothing is asked of them here."""


SOURCE_CHECKS: dict[str, tuple[str, SourceCheck]] = {
    "emptyDir": ("emptyDir", _empty_dir),
    "hostPath": ("hostPath", _host_path),
    "gitRepo": ("gitRepo", _git_repo),
    "gcePersistentDisk": ("persistentDisk", _disk("pdName")),
    "awsElasticBlockStore": ("awsElasticBlockStore", _disk("volumeID")),
    "secret": ("secret", _keyed("secretName")),
    "nfs": ("nfs", _nfs),
    "iscsi": ("iscsi", _iscsi),
    "glusterfs": ("glusterfs", _needs("endpoints", "path")),
    "flocker": ("flocker", _free),
    "persistentVolumeClaim": ("persistentVolumeClaim", _needs("claimName")),
    "rbd": ("rbd", _needs("monitors", "image")),
    "cinder": ("cinder", _needs("volumeID")),
    "cephfs": ("cephfs", _needs("monitors")),
    "quobyte": ("quobyte", _free),
    "downwardAPI": ("downwardAPI", _downward),
    "fc": ("fc", _fc),
    "flexVolume": ("flexVolume", _needs("driver")),
    "configMap": ("configMap", _keyed("name")),
    "azureFile": ("azureFile", _needs("secretName", "shareName")),
    "vsphereVolume": ("vsphereVolume", _needs("volumePath")),
    "photonPersistentDisk": ("photonPersistentDisk", _needs("pdID")),
    "portworxVolume": ("portworxVolume", _needs("volumeID")),
    "azureDisk": ("azureDisk", _needs("diskName", "diskURI")),
    "storageos": ("storageos", _free),
    "projected": ("projected", _projected),
    "scaleIO": ("scaleIO", _needs("gateway", "system", "volumeName")),
    "csi": ("csi", _csi),
    "ephemeral": ("ephemeral", _ephemeral),
    "image": ("image", _image),
}
"""Every source in the order the API looks at them: where it reports, and the check."""

_ORDER = {name: i for i, name in enumerate(SOURCE_CHECKS)}


def _check_source(errs: Errors, volume: Obj, pod_name: str, path: str) -> None:
    kinds = [k for k in volume if k in _ORDER and volume[k] is not None]
    if len(kinds) > 1:
        kinds.sort(key=_ORDER.__getitem__)
    elif not kinds:
        errs.required(path, "must specify a volume type")
        return
    kind = kinds[0]
    where, check = SOURCE_CHECKS[kind]
    check(errs, volume[kind], f"{path}.{where}")
    if kind == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        for message in dns_subdomain(claim):
            errs.invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {message}')
    for extra in kinds[1:]:
        errs.forbidden(f"{path}.{extra}", MORE_THAN_ONE)


def check_volumes(errs: Errors, volumes: list[Obj], pod_name: str, path: str) -> dict[str, Obj]:
    """Check every volume; return the sound ones by name."""
    good: dict[str, Obj] = {}
    made = {f"{pod_name}-{v.get('name')}" for v in volumes if v.get("ephemeral")}
    for i, volume in enumerate(volumes):
        before = len(errs)
        where = f"{path}[{i}]"
        _check_source(errs, volume, pod_name, where)
        name = volume.get("name") or ""
        if not name:
            errs.required(f"{where}.name")
        elif found := dns_label(name):
            errs.invalid_each(f"{where}.name", name, found)
        if name in good:
            errs.duplicate(f"{where}.name", name)
        if len(errs) == before:
            good[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if pod_name and claim and claim.get("claimName") in made:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            errs.invalid(f"{where}.persistentVolumeClaim.claimName", claim["claimName"], why)
    return good

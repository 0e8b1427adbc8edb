"""Volumes of pods: one source each, and what each source needs."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
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

__all__ = ["MORE_THAN_ONE", "PULL_POLICIES", "SOURCE_CHECKS", "check_csi_driver_name",
           "check_volumes"]  # fmt: skip

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MORE_THAN_ONE = "may not specify more than 1 volume type"
_ONE_BYTE = check.within(0, 255, "must be between 0 and 255, inclusive")
_MODE = check.within(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def check_csi_driver_name(errs: Errors, name: str, path: str) -> None:
    if not name:
        errs.required(path)
        return
    if len(name) > 63:
        errs.too_long(path, 63)
    errs.invalid_each(path, name, names.dns_subdomain(name.lower()))


def _check_limit(errs: Errors, limit: str, path: str) -> None:
    if nano(limit) < 0:
        errs.forbidden(path, "SizeLimit field must be a valid resource quantity")


def _check_optional_name(errs: Errors, secret: Obj, path: str) -> None:
    """The reference to a secret: its name is reported one level up."""
    name = secret.get("name") or ""
    if not name:
        errs.required(f"{path}.name")
    else:
        errs.format(f"{path.rpartition('.')[0]}.name", name, names.dns_subdomain)


def _fc(errs: Errors, source: Obj, path: str) -> None:
    targets, ids = source.get("targetWWNs"), source.get("wwids")
    where = f"{path}.targetWWNs"
    if not targets and not ids:
        errs.required(where, "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        errs.invalid(where, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets:
        check.given("lun", _ONE_BYTE, "lun is required if targetWWNs is specified")(
            errs, source, path
        )


def _check_ref(errs: Errors, item: Obj, path: str) -> None:
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


def _check_mode(errs: Errors, item: Obj, path: str) -> None:
    mode = item.get("mode")
    if mode is not None:
        _MODE(errs, mode, f"{path}.mode")


def _check_path(errs: Errors, item: Obj, path: str) -> None:
    target, where = item.get("path") or "", f"{path}.path"
    if not target:
        errs.required(where)
    check_unreserved_path(errs, target, where)


def _check_key(errs: Errors, item: Obj, path: str) -> None:
    if not item.get("key"):
        errs.required(f"{path}.key")
    _check_path(errs, item, path)
    _check_mode(errs, item, path)


def _check_file(errs: Errors, item: Obj, path: str) -> None:
    _check_path(errs, item, path)
    _check_ref(errs, item, path)
    _check_mode(errs, item, path)


_DEFAULT_MODE = check.pointer("defaultMode", _MODE)
_KEYS = check.struct(_DEFAULT_MODE, check.items("items", _check_key))


def _downward(errs: Errors, source: Obj, path: str) -> None:
    for item in source.get("items") or ():
        _check_file(errs, item, path)


def _projected(errs: Errors, source: Obj, path: str) -> None:
    check_projected(errs, source, path, _check_key, _check_file)


def _ephemeral(errs: Errors, template: Obj, path: str) -> None:
    # Claims know volumes as well: the import has to wait for both to exist.
    from corral.cluster.apiserver.builtin.validation.storage.claims import check_claim_template

    check_claim_template(errs, template, path)


_HOST_PATH = check.struct(
    check.needed("path", check_no_backsteps),
    check.when(
        lambda source: source.get("path"),
        check.pointer("type", check.choice(
            "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
            "FileOrCreate", "Socket")),
    ),
)  # fmt: skip
_ISCSI = check.struct(
    check.needed("targetPortal"),
    check.needed("iqn", check.holds(lambda iqn: iqn.startswith(("iqn", "eui", "naa")),
                                    "must be valid format starting with iqn, eui, or naa")),
    check.always("lun", _ONE_BYTE, 0),
    check.when(lambda source: source.get("chapAuthDiscovery") or source.get("chapAuthSession"),
               check.needed("secretRef")),
)  # fmt: skip
_NFS = check.struct(
    check.needed("server path"),
    check.always("path", check.holds(lambda path: path.startswith("/"),
                                     "must be an absolute path")),
)  # fmt: skip
_PARTITION = check.always("partition", _ONE_BYTE, 0)

SOURCE_CHECKS = {
    "emptyDir": check.pointer("sizeLimit", _check_limit),
    "hostPath": _HOST_PATH,
    "gitRepo": check.struct(
        check.needed("repository"), check.always("directory", check_local_path)
    ),
    "gcePersistentDisk": check.struct(check.needed("pdName"), _PARTITION),
    "awsElasticBlockStore": check.struct(check.needed("volumeID"), _PARTITION),
    "secret": check.struct(check.needed("secretName"), _KEYS),
    "nfs": _NFS,
    "iscsi": _ISCSI,
    "glusterfs": check.needed("endpoints path"),
    "flocker": check.struct(),
    "persistentVolumeClaim": check.needed("claimName"),
    "rbd": check.needed("monitors image"),
    "cinder": check.needed("volumeID"),
    "cephfs": check.needed("monitors"),
    "quobyte": check.struct(),
    "downwardAPI": check.struct(_DEFAULT_MODE, _downward),
    "fc": _fc,
    "flexVolume": check.needed("driver"),
    "configMap": check.struct(check.needed("name"), _KEYS),
    "azureFile": check.needed("secretName shareName"),
    "vsphereVolume": check.needed("volumePath"),
    "photonPersistentDisk": check.needed("pdID"),
    "portworxVolume": check.needed("volumeID"),
    "azureDisk": check.needed("diskName diskURI"),
    "storageos": check.struct(),
    "projected": check.struct(_DEFAULT_MODE, _projected),
    "scaleIO": check.needed("gateway system volumeName"),
    "csi": check.struct(
        check.always("driver", check_csi_driver_name),
        check.pointer("nodePublishSecretRef", _check_optional_name),
    ),
    "ephemeral": check.given("volumeClaimTemplate", _ephemeral),
    "image": check.struct(
        check.needed("reference"), check.needed("pullPolicy", check.choice(*PULL_POLICIES))
    ),
}
"""Every source in the order the API looks at them; those of drivers that are gone are empty."""
REPORTED_AS = {"gcePersistentDisk": "persistentDisk"}
"""Where the API reports a source, if not at its field."""

_ORDER = {name: i for i, name in enumerate(SOURCE_CHECKS)}


def _check_source(errs: Errors, volume: Obj, pod_name: str, path: str) -> None:
    kinds = [k for k in volume if k in _ORDER and volume[k] is not None]
    if len(kinds) > 1:
        kinds.sort(key=_ORDER.__getitem__)
    elif not kinds:
        errs.required(path, "must specify a volume type")
        return
    kind = kinds[0]
    SOURCE_CHECKS[kind](errs, volume[kind], f"{path}.{REPORTED_AS.get(kind, kind)}")
    if kind == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        for message in names.dns_subdomain(claim):
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
        elif found := names.dns_label(name):
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

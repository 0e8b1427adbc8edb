"""StorageClasses, CSI drivers and nodes, volume attachments and attribute classes."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, non_negative, same
from corral.cluster.apiserver.builtin.validation.fields.names import dns_subdomain, qualified_name
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_label_name
from corral.cluster.apiserver.builtin.validation.fields.structs import capitalised
from corral.cluster.apiserver.builtin.validation.pods.projected import check_token_expiration
from corral.cluster.apiserver.builtin.validation.pods.volumes import check_csi_driver_name
from corral.kube.types import Obj

__all__ = ["KINDS"]

_SIZE = 256 * 1024
_GROUP = "storage.k8s.io"


def _check_parameters(errs: Errors, params: dict[str, str], *, needed: bool) -> None:
    if len(params) > 512:
        errs.too_long("parameters", 512)
        return
    if "" in params:
        errs.invalid("parameters", "", "field can not be empty.")
    if sum(len(k) + len(v) for k, v in params.items()) > _SIZE:
        errs.too_long("parameters", _SIZE)
    if needed and not params:
        errs.required("parameters", "must contain at least one key/value pair")


def _check_topologies(errs: Errors, terms: list[Obj]) -> None:
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for i, term in enumerate(terms):
        path = f"allowedTopologies[{i}].matchLabelExpressions"
        found: dict[str, frozenset[str]] = {}
        for j, item in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = item.get("key") or "", item.get("values") or []
            if not values:
                errs.required(f"{path}[{j}].values")
            known: set[str] = set()
            for k, value in enumerate(values):
                if value in known:
                    errs.duplicate(f"{path}[{j}].values[{k}]", value)
                known.add(value)
            check_label_name(errs, f"{path}[{j}].key", key)
            if key in found:
                errs.duplicate(f"{path}[{j}].key", key)
            found[key] = frozenset(values)
        topology = frozenset(found.items())
        if topology in seen:
            errs.duplicate(path, "")
        seen.add(topology)


def validate_storage_class(errs: Errors, obj: Obj) -> None:
    if provisioner := obj.get("provisioner"):
        lowered = provisioner.lower()
        errs.format("provisioner", lowered, qualified_name)
    _check_parameters(errs, obj.get("parameters") or {}, needed=False)
    policy = obj.get("reclaimPolicy")
    if policy and policy not in ("Delete", "Retain"):
        errs.not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
    mode = obj.get("volumeBindingMode")
    if mode is None:
        errs.required("volumeBindingMode")
    elif mode not in ("Immediate", "WaitForFirstConsumer"):
        errs.not_supported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    _check_topologies(errs, obj.get("allowedTopologies") or [])
    if not provisioner:
        errs.required("provisioner")


def validate_storage_class_update(errs: Errors, new: Obj, old: Obj) -> None:
    for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        errs.immutable_beta(name, new.get(name), old.get(name))


def _check_driver(errs: Errors, spec: Obj) -> None:
    for name, shown in (
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ):
        if spec.get(name) is None:
            errs.required(f"spec.{shown}")
    policy = spec.get("fsGroupPolicy")
    allowed = ("File", "None", "ReadWriteOnceWithFSType")
    if policy is not None and policy not in allowed:
        errs.not_supported("spec.fsGroupPolicy", policy, allowed)
    seen: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        audience, path = request.get("audience") or "", f"spec.tokenRequests[{i}]"
        if audience in seen:
            errs.duplicate(f"{path}.audience", audience)
            continue
        seen.add(audience)
        if (seconds := request.get("expirationSeconds")) is not None:
            check_token_expiration(errs, seconds, f"{path}.expirationSeconds")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            errs.not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        why = "must be greater than or equal to 10 seconds"
        errs.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)


def validate_csi_driver(errs: Errors, obj: Obj) -> None:
    _check_driver(errs, obj.get("spec") or {})


def validate_csi_driver_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    _check_driver(errs, after)
    name = "attachRequired"
    errs.immutable("spec.attachedRequired", after.get(name), before.get(name))
    name = "volumeLifecycleModes"
    errs.immutable_beta(f"spec.{name}", after.get(name), before.get(name))


def validate_csi_node(errs: Errors, obj: Obj) -> None:
    seen: set[str] = set()
    for i, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name") or ""
        check_csi_driver_name(errs, name, f"{path}.name")
        node = driver.get("nodeID") or ""
        if not node:
            errs.required(f"{path}.nodeID")
        if len(node) > 256:
            errs.invalid(f"{path}.nodeID", node, "must be 256 characters or less")
        non_negative(errs, driver.get("allocatable") or {}, f"{path}.allocatable", "count")
        if name in seen:
            errs.duplicate(f"{path}.name", name)
        seen.add(name)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                errs.required(path, key)
            if key in keys:
                errs.duplicate(path, key)
            keys.add(key)
            errs.format(path, key, qualified_name)


def validate_csi_node_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_csi_node(errs, new)
    after = {d.get("name"): d for d in (new.get("spec") or {}).get("drivers") or ()}
    for driver in (old.get("spec") or {}).get("drivers") or ():
        current = after.get(driver.get("name"))
        if current is None:
            continue
        kept, before = (
            {k: v for k, v in d.items() if k != "allocatable"} for d in (current, driver)
        )
        if not same(kept, before):
            errs.invalid("spec.drivers", capitalised(kept), "field is immutable")


def validate_attachment(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    source, path = spec.get("source") or {}, "spec.source"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    both = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and name is None:
        errs.required(path, both)
    elif inline is not None and name is not None:
        errs.forbidden(path, both)
    elif name == "":
        errs.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")
    node = spec.get("nodeName") or ""
    errs.format("spec.nodeName", node, dns_subdomain)
    if name is not None:
        errs.format(f"{path}.persistentVolumeName", name, dns_subdomain)
    if not spec.get("attacher"):
        errs.required("spec.attacher")
    else:
        check_csi_driver_name(errs, spec["attacher"], "spec.attacher")


def validate_attachment_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_attachment(errs, new)
    errs.immutable_beta("spec", new.get("spec"), old.get("spec"))


def validate_attributes_class(errs: Errors, obj: Obj) -> None:
    if name := obj.get("driverName"):
        lowered = name.lower()
        errs.format("driverName", lowered, qualified_name)
    else:
        errs.required("driverName")
    _check_parameters(errs, obj.get("parameters") or {}, needed=True)


def validate_attributes_class_update(errs: Errors, new: Obj, old: Obj) -> None:
    for name in ("driverName", "parameters"):
        if not same(new.get(name), old.get(name)):
            errs.forbidden(name, f"updates to {name} are forbidden.")
    validate_attributes_class(errs, new)


KINDS: Kinds = {
    (_GROUP, "StorageClass"): Rules(
        validate_storage_class, validate_storage_class_update, namespaced=False),
    (_GROUP, "CSIDriver"): Rules(validate_csi_driver, validate_csi_driver_update, namespaced=False),
    (_GROUP, "CSINode"): Rules(validate_csi_node, validate_csi_node_update, namespaced=False),
    (_GROUP, "VolumeAttachment"): Rules(
        validate_attachment, validate_attachment_update, namespaced=False),
    (_GROUP, "VolumeAttributesClass"): Rules(
        validate_attributes_class, validate_attributes_class_update, namespaced=False),
    (_GROUP, "CSIStorageCapacity"): Rules(),
}  # fmt: skip

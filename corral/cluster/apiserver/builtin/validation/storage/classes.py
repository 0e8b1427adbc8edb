"""StorageClasses, CSI drivers and nodes, volume attachments and attribute classes."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    again,
    changes,
    fixed,
    whole,
)
from corral.cluster.apiserver.builtin.validation.fields.structs import capitalised
from corral.cluster.apiserver.builtin.validation.pods.projected import check_token_expiration
from corral.cluster.apiserver.builtin.validation.pods.volumes import check_csi_driver_name
from corral.kube.types import Obj

__all__ = ["KINDS"]

_GROUP = "storage.k8s.io"
_SIZE = 256 * 1024


def _check_lowered(errs: Errors, name: str, path: str) -> None:
    errs.format(path, name.lower(), names.qualified_name)


def _check_parameters(errs: Errors, params: dict[str, str], path: str) -> None:
    if len(params) > 512:
        errs.too_long(path, 512)
        return
    if "" in params:
        errs.invalid(path, "", "field can not be empty.")
    if sum(len(k) + len(v) for k, v in params.items()) > _SIZE:
        errs.too_long(path, _SIZE)


# -- storage classes and attribute classes ---------------------------------------------------------

_TERM = check.struct(check.needed("values", check.no_repeats), check.always("key", check.QUALIFIED))
_TERMS = check.items("matchLabelExpressions", _TERM, unique="key")


def _check_topologies(errs: Errors, terms: list[Obj], path: str) -> None:
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for i, term in enumerate(terms):
        _TERMS(errs, term, f"{path}[{i}]")
        items = term.get("matchLabelExpressions") or ()
        found = {e.get("key") or "": frozenset(e.get("values") or ()) for e in items}
        topology = frozenset(found.items())
        if topology in seen:
            errs.duplicate(f"{path}[{i}].matchLabelExpressions", "")
        seen.add(topology)


_STORAGE_CLASS = whole(
    check.optional("provisioner", _check_lowered),
    check.optional("parameters", _check_parameters),
    check.optional("reclaimPolicy", check.choice("Delete", "Retain")),
    check.given("volumeBindingMode", check.choice("Immediate", "WaitForFirstConsumer")),
    check.optional("allowedTopologies", _check_topologies),
    check.needed("provisioner"),
)
_ATTRIBUTES_CLASS = whole(
    check.needed("driverName", _check_lowered),
    check.needed("parameters", _check_parameters, "must contain at least one key/value pair"),
)


def _same_attributes(errs: Errors, new: Obj, old: Obj) -> None:
    for name in ("driverName", "parameters"):
        if not same(new.get(name), old.get(name)):
            errs.forbidden(name, f"updates to {name} are forbidden.")


# -- drivers, nodes and attachments ----------------------------------------------------------------


def _check_requests(errs: Errors, requests: list[Obj], path: str) -> None:
    seen: set[str] = set()
    for i, request in enumerate(requests):
        audience, where = request.get("audience") or "", f"{path}[{i}]"
        if audience in seen:
            errs.duplicate(f"{where}.audience", audience)
            continue
        seen.add(audience)
        if (seconds := request.get("expirationSeconds")) is not None:
            check_token_expiration(errs, seconds, f"{where}.expirationSeconds")


def _check_attach(errs: Errors, spec: Obj, path: str) -> None:
    if spec.get("attachRequired") is None:
        errs.required(f"{path}.attachedRequired")  # so the API spells it


def _check_lifecycles(errs: Errors, modes: list[str], path: str) -> None:
    for mode in modes:
        check.choice("Persistent", "Ephemeral")(errs, mode, path)


_PERIOD = check.at_least(10, "must be greater than or equal to 10 seconds")
_DRIVER = whole(
    check.inside(
        "spec",
        _check_attach,
        check.given("podInfoOnMount storageCapacity"),
        check.pointer("fsGroupPolicy", check.choice("File", "None", "ReadWriteOnceWithFSType")),
        check.optional("tokenRequests", _check_requests),
        check.optional("volumeLifecycleModes", _check_lifecycles),
        check.pointer("nodeAllocatableUpdatePeriodSeconds", _PERIOD),
    )
)


def _same_attach(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = ((o.get("spec") or {}).get("attachRequired") for o in (new, old))
    errs.immutable("spec.attachedRequired", after, before)


def _check_topology_keys(errs: Errors, driver: Obj, path: str) -> None:
    keys: set[str] = set()
    for key in driver.get("topologyKeys") or ():
        if not key:
            errs.required(path, key)
        if key in keys:
            errs.duplicate(path, key)
        keys.add(key)
        errs.format(path, key, names.qualified_name)


_NODE_DRIVER = check.struct(
    check.always("name", check_csi_driver_name),
    check.needed(
        "nodeID", check.holds(lambda node: len(node) <= 256, "must be 256 characters or less")
    ),
    check.inside("allocatable", check.counts("count")),
)


def _check_node(errs: Errors, obj: Obj) -> None:
    seen: set[str] = set()
    for i, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name") or ""
        _NODE_DRIVER(errs, driver, path)
        if name in seen:
            errs.duplicate(f"{path}.name", name)
        seen.add(name)
        _check_topology_keys(errs, driver, path)


def _same_drivers(errs: Errors, new: Obj, old: Obj) -> None:
    after = {d.get("name"): d for d in (new.get("spec") or {}).get("drivers") or ()}
    for driver in (old.get("spec") or {}).get("drivers") or ():
        pair = (after.get(driver.get("name"), driver), driver)
        kept, before = ({k: v for k, v in d.items() if k != "allocatable"} for d in pair)
        if not same(kept, before):
            errs.invalid("spec.drivers", capitalised(kept), "field is immutable")


def _check_source(errs: Errors, source: Obj, path: str) -> None:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    both = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and name is None:
        errs.required(path, both)
    elif inline is not None and name is not None:
        errs.forbidden(path, both)
    elif name == "":
        why = "must specify non empty persistentVolumeName"
        errs.required(f"{path}.persistentVolumeName", why)


_ATTACHMENT = whole(
    check.inside(
        "spec",
        check.inside("source", _check_source),
        check.always("nodeName", check.SUBDOMAIN),
        check.inside("source", check.pointer("persistentVolumeName", check.SUBDOMAIN)),
        check.needed("attacher", check_csi_driver_name),
    )
)

KINDS: Kinds = {
    (_GROUP, "StorageClass"): Rules(
        _STORAGE_CLASS,
        fixed("", "provisioner parameters reclaimPolicy volumeBindingMode", beta=True),
        namespaced=False),
    (_GROUP, "CSIDriver"): Rules(
        _DRIVER, changes(again(_DRIVER), _same_attach,
                         fixed("spec", "volumeLifecycleModes", beta=True)), namespaced=False),
    (_GROUP, "CSINode"): Rules(
        _check_node, changes(again(_check_node), _same_drivers), namespaced=False),
    (_GROUP, "VolumeAttachment"): Rules(
        _ATTACHMENT, changes(again(_ATTACHMENT), fixed("", "spec", beta=True)), namespaced=False),
    (_GROUP, "VolumeAttributesClass"): Rules(
        _ATTRIBUTES_CLASS, changes(_same_attributes, again(_ATTRIBUTES_CLASS)), namespaced=False),
    (_GROUP, "CSIStorageCapacity"): Rules(),
}  # fmt: skip

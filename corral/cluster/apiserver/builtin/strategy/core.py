"""Core kinds other than workloads: namespaces, nodes, secrets, volumes, quotas, events."""

from __future__ import annotations

import uuid

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

from .base import Getter, Strategy, at, restore, truth_at
from .netwarnings import cidr_warnings, ip_warnings
from .podwarnings import node_term_warnings
from .volumewarnings import claim_spec_warnings, plugin_warnings

__all__ = ["STRATEGIES"]

_REFUSED = "field label not supported: {}"
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE_CLASS_ADVICE = 'deprecated since v1.8; use "storageClassName" attribute instead'
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
_OLD_DATA_SOURCES = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}


class NamespaceStrategy(Strategy):
    """Holds the finalizer that empties a namespace before it goes."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        spec = obj.setdefault("spec", {})
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
        self._label(obj)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        restore(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
        self._label(new)

    def prepare_finalize(self, new: Obj, old: Obj) -> None:
        """A write of namespaces/finalize changes everything but the status."""
        self.keep_generation(new, old)
        restore(new, old, "status")

    @staticmethod
    def _label(obj: Obj) -> None:
        metadata = obj["metadata"]
        labels = metadata["labels"] = dict(metadata.get("labels") or {})
        labels["kubernetes.io/metadata.name"] = metadata.get("name") or ""


class NodeStrategy(Strategy):
    """Nodes bring their own first status; configuration through the API is gone."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        obj.setdefault("spec", {}).pop("configSource", None)
        (obj.get("status") or {}).pop("config", None)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        restore(new, old, "status")
        if "configSource" not in (old.get("spec") or {}):
            new.setdefault("spec", {}).pop("configSource", None)

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        super().prepare_status_update(new, old)
        if "config" not in (old.get("status") or {}):
            new.setdefault("status", {}).pop("config", None)

    def warnings_common(self, obj: Obj) -> list[str]:
        spec = obj.get("spec") or {}
        warnings = []
        if "configSource" in spec:
            warnings.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            warnings.append(
                "spec.externalID: this field is deprecated, and is unused by Kubernetes"
            )
        for i, cidr in enumerate(spec.get("podCIDRs") or ()):
            warnings += cidr_warnings(f"spec.podCIDRs[{i}]", cidr)
        return warnings


class SecretStrategy(Strategy):
    """A secret without a type keeps the one it had."""

    def prepare_update(self, new: Obj, old: Obj) -> None:
        if not new.get("type"):
            restore(new, old, "type")
        super().prepare_update(new, old)


class ClaimStrategy(Strategy):
    """Keeps the old and the new way of naming a data source in step."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        _align_data_sources(obj.setdefault("spec", {}), {})
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        _align_data_sources(new.setdefault("spec", {}), old.get("spec") or {})

    def warnings_common(self, obj: Obj) -> list[str]:
        warnings = []
        if _STORAGE_CLASS in (obj["metadata"].get("annotations") or {}):
            warnings.append(f"metadata.annotations[{_STORAGE_CLASS}]: {_STORAGE_CLASS_ADVICE}")
        return warnings + claim_spec_warnings("spec", obj.get("spec") or {})


def _align_data_sources(spec: Obj, before: Obj) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    in_use = before.get("dataSource") is not None or before.get("dataSourceRef") is not None
    if source is not None and reference is None:
        known = (source.get("apiGroup") or "", source.get("kind") or "") in _OLD_DATA_SOURCES
        if known or in_use:
            spec["dataSourceRef"] = _without_namespace(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _without_namespace(reference)


def _without_namespace(source: Obj) -> Obj:
    """Both forms spell out the group, null where there is none."""
    return {
        "apiGroup": source.get("apiGroup"),
        **{key: value for key, value in source.items() if key in ("kind", "name")},
    }


class VolumeStrategy(Strategy):
    """Notes when a persistent volume last changed its phase."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        warnings = super().prepare_create(obj)
        obj["status"]["lastPhaseTransitionTime"] = self.now()
        return warnings

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        super().prepare_status_update(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        stamp, old_stamp = (s.get("lastPhaseTransitionTime") for s in (status, before))
        if status.get("phase") == before.get("phase"):
            if stamp is None and old_stamp is not None:
                status["lastPhaseTransitionTime"] = old_stamp
        elif stamp is None or stamp == old_stamp:
            status["lastPhaseTransitionTime"] = self.now()

    def warnings_common(self, obj: Obj) -> list[str]:
        spec, annotations = obj.get("spec") or {}, obj["metadata"].get("annotations") or {}
        warnings = []
        if _STORAGE_CLASS in annotations:
            warnings.append(f"metadata.annotations[{_STORAGE_CLASS}]: {_STORAGE_CLASS_ADVICE}")
        if _MOUNT_OPTIONS in annotations:
            advice = 'deprecated since v1.31; use "mountOptions" attribute instead'
            warnings.append(f"metadata.annotations[{_MOUNT_OPTIONS}]: {advice}")
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            warnings.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
                "Instead, the recommended approach is to use dynamic provisioning."
            )
        required = (spec.get("nodeAffinity") or {}).get("required") or {}
        for i, term in enumerate(required.get("nodeSelectorTerms") or ()):
            path = f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]"
            warnings += node_term_warnings(path, term)
        return warnings + plugin_warnings("spec.", spec)


class ServiceAccountStrategy(Strategy):
    """References to secrets are reduced to their names."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        _names_only(obj)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        _names_only(new)
        super().prepare_update(new, old)

    def warnings_create(self, obj: Obj) -> list[str]:
        if _MOUNTABLE_SECRETS not in (obj["metadata"].get("annotations") or {}):
            return []
        return [
            f"metadata.annotations[{_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate "
            "namespaces to isolate access to mounted secrets"
        ]

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        if _MOUNTABLE_SECRETS in (old["metadata"].get("annotations") or {}):
            return []
        return self.warnings_create(new)


def _names_only(account: Obj) -> None:
    if account.get("secrets"):
        account["secrets"] = [
            {"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]
        ]


class LimitRangeStrategy(Strategy):
    """One without a name gets a random one."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = str(uuid.uuid4())
        return super().prepare_create(obj)


class QuotaStrategy(Strategy):
    """Warns of a quota that allows more to be requested than to be used."""

    def warnings_create(self, obj: Obj) -> list[str]:
        hard = (obj.get("spec") or {}).get("hard") or {}
        warnings = []
        for name in ("cpu", "memory", "storage", "ephemeral-storage"):
            request, limit = f"requests.{name}", f"limits.{name}"
            if request not in hard and name in ("cpu", "memory"):
                request = name
            if request not in hard or limit not in hard:
                continue
            if Quantity.parse(hard[request]) > Quantity.parse(hard[limit]):
                warnings.append(
                    f"ResourceQuota {request} ({hard[request]}) should be less than "
                    f"{limit} ({hard[limit]})"
                )
        return warnings


class EndpointsStrategy(Strategy):
    """Addresses written by people are checked for their spelling."""

    def warnings_common(self, obj: Obj) -> list[str]:
        labels = obj["metadata"].get("labels") or {}
        if labels.get("endpoints.kubernetes.io/managed-by") == "endpoint-controller":
            return []
        return [
            warning
            for i, subset in enumerate(obj.get("subsets") or ())
            for kind in ("addresses", "notReadyAddresses")
            for j, address in enumerate(subset.get(kind) or ())
            for warning in ip_warnings(f"subsets[{i}].{kind}[{j}].ip", address.get("ip") or "")
        ]


_OBJECT_FIELDS = (
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
)  # fmt: skip


def _either(core: tuple[str, ...], renamed: tuple[str, ...]) -> Getter:
    """A field of an event under whichever name the object has it."""
    old, new = at(*core), at(*renamed)
    return lambda event: old(event) or new(event)


def _event_selectors(reference: str) -> dict[str, Getter]:
    return {
        f"{reference}.{name}": _either(("involvedObject", name), ("regarding", name))
        for name in _OBJECT_FIELDS
    }


_REPORTER = _either(("reportingComponent",), ("reportingController",))
_SOURCE = _either(("source", "component"), ("deprecatedSource", "component"))
_EVENT_COMMON = {"reason": at("reason"), "type": at("type")}

STRATEGIES: list[Strategy] = [
    NamespaceStrategy(
        group="",
        kind="Namespace",
        initial_status={"phase": "Active"},
        selectors={"status.phase": at("status", "phase")},
        only_own_selectors=True,
        selector_refusal=_REFUSED,
    ),
    NodeStrategy(
        group="",
        kind="Node",
        resets=(("status",),),
        selectors={"spec.unschedulable": truth_at("spec", "unschedulable")},
        only_own_selectors=True,
        selector_refusal=_REFUSED,
    ),
    SecretStrategy(
        group="", kind="Secret", selectors={"type": at("type")}, selector_refusal=_REFUSED
    ),
    Strategy(group="", kind="ConfigMap"),
    ClaimStrategy(group="", kind="PersistentVolumeClaim", initial_status={"phase": "Pending"}),
    VolumeStrategy(group="", kind="PersistentVolume", initial_status={"phase": "Pending"}),
    ServiceAccountStrategy(group="", kind="ServiceAccount"),
    LimitRangeStrategy(group="", kind="LimitRange", allow_create_on_update=True),
    QuotaStrategy(group="", kind="ResourceQuota", initial_status={}),
    EndpointsStrategy(
        group="",
        kind="Endpoints",
        allow_create_on_update=True,
        deprecation=("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    ),
    Strategy(
        group="", kind="ComponentStatus", deprecation="v1 ComponentStatus is deprecated in v1.19+"
    ),
    Strategy(
        group="",
        kind="Event",
        allow_create_on_update=True,
        supports_propagation=False,
        selectors={
            **_event_selectors("involvedObject"),
            **_EVENT_COMMON,
            "reportingComponent": _REPORTER,
            "source": lambda event: _SOURCE(event) or _REPORTER(event),
        },
        selector_refusal=_REFUSED,
    ),
    Strategy(
        group="events.k8s.io",
        kind="Event",
        allow_create_on_update=True,
        supports_propagation=False,
        selectors={
            **_event_selectors("regarding"),
            **_EVENT_COMMON,
            "reportingController": _REPORTER,
        },
        selector_refusal=_REFUSED,
    ),
]

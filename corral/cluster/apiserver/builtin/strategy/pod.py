"""Pods: their first status, what each subresource may change, and how they end."""

from __future__ import annotations

from collections import deque
from typing import Any

from corral.kube.types import Obj

from .base import Path, Strategy, at, reset_metadata, restore, truth_at
from .podwarnings import (
    APP_ARMOR_ADVICE,
    APP_ARMOR_CONTAINER,
    app_armor_profile,
    containers_of,
    name_warnings,
    pod_warnings,
)
from .resources import complete_pod_level_resources, qos_class

__all__ = ["EPHEMERAL_CONTAINERS_FIELDS", "RESIZE_FIELDS", "PodStrategy"]

EPHEMERAL_CONTAINERS_FIELDS: list[Path] = [("spec", "ephemeralContainers")]
"""The only paths that writes of pods/ephemeralcontainers own."""
RESIZE_FIELDS: list[Path] = [
    ("spec", "containers", "*", "resources"),
    ("spec", "containers", "*", "resizePolicy"),
    ("spec", "initContainers", "*", "resources"),
    ("spec", "initContainers", "*", "resizePolicy"),
]
"""The only paths that writes of pods/resize own; ``*`` is any list item."""

_CLAIM_STATUSES = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)


def _first_address(pod: Obj) -> str:
    addresses = (pod.get("status") or {}).get("podIPs")
    return str(addresses[0].get("ip") or "") if addresses else ""


class PodStrategy(Strategy):
    """The one kind that is deleted gracefully."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        spec = obj["spec"]
        obj["metadata"]["generation"] = 1
        status: Obj = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [self._gated()]
        obj["status"] = status
        labels = obj["metadata"].get("labels") or {}
        if labels:
            _merge_label_keys(spec, labels)
        warnings: tuple[str, ...] = ()
        if obj["metadata"].get("annotations"):
            warnings = _app_armor_fields(obj)
        if "resources" in spec:
            complete_pod_level_resources(spec)
        status["qosClass"] = qos_class(spec)
        return warnings

    def _gated(self) -> Obj:
        return {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": self.now(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }

    def prepare_update(self, new: Obj, old: Obj) -> None:
        self.keep_generation(new, old)
        restore(new, old, "status")
        if "resources" in old["spec"]:
            new["spec"].setdefault("resources", old["spec"]["resources"])
        self._count(new, old)

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        super().prepare_status_update(new, old)
        new["metadata"].pop("deletionTimestamp", None)
        if "deletionTimestamp" in old["metadata"]:  # an update never unmarks an object
            new["metadata"]["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
        restore(new["metadata"], old["metadata"], "ownerReferences")
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        for key in _CLAIM_STATUSES:
            if status.get(key) is None and key in before:
                status[key] = before[key]
        _keep_observed_generations(status, before)

    def prepare_ephemeral_containers(self, new: Obj, old: Obj) -> None:
        """A write of pods/ephemeralcontainers changes that one list only."""
        containers = new["spec"].get("ephemeralContainers")
        self._discard_changes(new, old)
        new["spec"] = {**old["spec"], "ephemeralContainers": containers}
        if not containers:
            del new["spec"]["ephemeralContainers"]
        self._count(new, old)

    def prepare_resize(self, new: Obj, old: Obj) -> None:
        """A write of pods/resize changes resources and resize policies only."""
        spec, before = new["spec"], old["spec"]
        same = all(
            len(spec.get(kind) or ()) == len(before.get(kind) or ())
            for kind in ("containers", "initContainers")
        )
        if same:  # otherwise validation refuses the change of containers
            lists = {
                kind: _resized(spec[kind], before[kind])
                for kind in ("containers", "initContainers")
                if spec.get(kind)
            }
            self._discard_changes(new, old)
            new["spec"] = {**before, **lists}
            if spec.get("resources") is not None:
                new["spec"]["resources"] = spec["resources"]
        complete_pod_level_resources(new["spec"])
        self.keep_generation(new, old)
        self._count(new, old)

    def _discard_changes(self, new: Obj, old: Obj) -> None:
        restore(new, old, "status")
        reset_metadata(new["metadata"], old["metadata"])

    def _count(self, new: Obj, old: Obj) -> None:
        if new["spec"] != old["spec"]:
            self.bump_generation(new, old)

    def warnings_create(self, obj: Obj) -> list[str]:
        name = obj["metadata"].get("name") or ""
        return name_warnings(name, "the Pod's hostname") + pod_warnings(obj)

    def graceful_period(self, obj: Obj, requested: int | None) -> int:
        spec = obj.get("spec") or {}
        if not spec.get("nodeName"):
            return 0
        if (obj.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        if requested is None:
            requested = spec.get("terminationGracePeriodSeconds") or 0
        return requested if requested >= 0 else 1


def _merge_label_keys(spec: Obj, labels: dict[str, str]) -> None:
    """Turn label keys of affinity terms and spread constraints into selector expressions."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(kind) or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(term, labels)
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(weighted.get("podAffinityTerm") or {}, labels)


def _merge_keys(term: Obj, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(keys) or ()
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _app_armor_fields(pod: Obj) -> tuple[str, ...]:
    """Turn deprecated annotations into the fields that replaced them."""
    spec, annotations = pod["spec"], pod["metadata"]["annotations"]
    if (spec.get("os") or {}).get("name") == "windows":
        return ()
    pod_wide = (spec.get("securityContext") or {}).get("appArmorProfile")
    warnings = []
    for _, container in containers_of(spec):
        key = APP_ARMOR_CONTAINER + (container.get("name") or "")
        context: dict[str, Any] = container.get("securityContext") or {}
        if key not in annotations or context.get("appArmorProfile") is not None:
            continue
        profile = app_armor_profile(annotations[key])
        if profile is not None and not _usable(profile):
            profile = None
        if profile is None or profile != pod_wide:
            warnings.append(f"metadata.annotations[{key}]: {APP_ARMOR_ADVICE}")
            if profile is not None:
                container["securityContext"] = {**context, "appArmorProfile": profile}
    return tuple(warnings)


def _usable(profile: Obj) -> bool:
    name = profile.get("localhostProfile")
    return name is None or (name == name.strip() and len(name) <= 4095)


def _resized(containers: list[Obj], before: list[Obj]) -> list[Obj]:
    if [c.get("name") for c in containers] != [c.get("name") for c in before]:
        return containers  # validation refuses it
    resized = []
    for container, old in zip(containers, before, strict=True):
        merged = dict(old)
        for key in ("resources", "resizePolicy"):
            restore(merged, container, key)
        resized.append(merged)
    return resized


def _keep_observed_generations(status: Obj, before: Obj) -> None:
    """Clients that do not know observedGeneration must not erase it."""
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    known: dict[str, deque[int]] = {}
    for condition in before.get("conditions") or ():
        generation = condition.get("observedGeneration") or 0
        known.setdefault(condition.get("type") or "", deque()).append(generation)
    for condition in status.get("conditions") or ():
        left = known.get(condition.get("type") or "")
        generation = left.popleft() if left else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


POD = PodStrategy(
    group="",
    kind="Pod",
    initial_status={},
    first_generation=True,
    generation_of=("spec",),
    graceful_delete=True,
    status_resets=(("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    selectors={
        "spec.nodeName": at("spec", "nodeName"),
        "spec.host": at("spec", "nodeName"),
        "spec.restartPolicy": at("spec", "restartPolicy"),
        "spec.schedulerName": at("spec", "schedulerName"),
        "spec.serviceAccountName": at("spec", "serviceAccountName"),
        "spec.hostNetwork": truth_at("spec", "hostNetwork"),
        "status.phase": at("status", "phase"),
        "status.podIP": _first_address,
        "status.podIPs": lambda pod: "",  # known to the parser and matched by nothing
        "status.nominatedNodeName": at("status", "nominatedNodeName"),
    },
    selector_refusal="field label not supported: {}",
)

"""Small rules for pods and nodes: tolerations, the not-ready taint, runtime classes, resizing."""

from __future__ import annotations

from typing import Any, NamedTuple

from corral.cluster.apiserver.admission.amounts import amounts, pod_total, quantity
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.refusals import refuse, refuse_early
from corral.cluster.apiserver.registry.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

__all__ = ["DefaultTolerations", "NodeTaints", "PodResize", "RuntimeClasses"]

PODS, NODES, RUNTIME_CLASSES = "/pods", "/nodes", "node.k8s.io/runtimeclasses"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATION_SECONDS = 300


class DefaultTolerations(Plugin):
    """Pods stay for five minutes on a node that fails, unless they say otherwise."""

    tables = frozenset({PODS})

    async def mutate(self, request: AdmissionRequest) -> bool:
        if request.subresource or request.object is None:
            return False
        spec = request.object["spec"]
        tolerations = spec.get("tolerations") or []
        missing = {NOT_READY: None, UNREACHABLE: None}
        for toleration in tolerations:
            if toleration.get("effect") in (None, "", "NoExecute"):
                key = toleration.get("key")
                if not key:
                    return False
                missing.pop(key, None)
        if not missing:
            return False
        spec["tolerations"] = [*tolerations, *map(_toleration, missing)]
        return True


def _toleration(key: str) -> Obj:
    return {
        "key": key,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION_SECONDS,
    }


class NodeTaints(Plugin):
    """A new node takes no pods before it is known to be ready."""

    tables = frozenset({NODES})

    async def mutate(self, request: AdmissionRequest) -> bool:
        if request.operation != "CREATE" or request.subresource or request.object is None:
            return False
        spec = request.object.setdefault("spec", {})
        taints = spec.get("taints") or []
        if any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            return False
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
        return True


# -- runtime classes -----------------------------------------------------------------------


class _Runtime(NamedTuple):
    overhead: Obj | None
    scheduling: Obj | None


def _runtime(obj: Obj) -> _Runtime:
    overhead = obj.get("overhead")
    fixed = (overhead.get("podFixed") or {}) if overhead is not None else None
    return _Runtime(fixed, obj.get("scheduling"))


_NO_RUNTIME = _Runtime(None, None)
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClasses(Plugin):
    """What a runtime class costs and where it runs becomes part of the pod."""

    tables = frozenset({PODS})

    def __init__(self, store: Store) -> None:
        self._classes = Parsed(store, RUNTIME_CLASSES, _runtime)

    def _find(self, request: AdmissionRequest, *, early: bool) -> _Runtime:
        name = (request.object or {})["spec"].get("runtimeClassName")
        if name is None:
            return _NO_RUNTIME
        found = self._classes.get(name)
        if found is None:
            say = refuse_early if early else refuse
            raise say(request, f'pod rejected: RuntimeClass "{name}" not found')
        return found

    async def mutate(self, request: AdmissionRequest) -> bool:
        pod = request.object
        if request.operation != "CREATE" or request.subresource or pod is None:
            return False
        spec = pod["spec"]
        if spec.get("runtimeClassName") is None:
            return False
        runtime = self._find(request, early=True)
        if runtime.overhead is not None:
            if spec.get("overhead") and amounts(spec["overhead"]) != amounts(runtime.overhead):
                raise refuse_early(request, _MISMATCH)
            if runtime.overhead:
                spec["overhead"] = dict(runtime.overhead)
        if runtime.scheduling is not None:
            self._schedule(request, spec, runtime.scheduling)
        return True

    def _schedule(self, request: AdmissionRequest, spec: Obj, scheduling: Obj) -> None:
        wanted = scheduling.get("nodeSelector") or {}
        selector = spec.get("nodeSelector") or {}
        for key, value in wanted.items():
            if key in selector and selector[key] != value:
                raise refuse_early(
                    request,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
        if wanted:
            spec["nodeSelector"] = {**selector, **wanted}
        merged = _merge(spec.get("tolerations") or [], scheduling.get("tolerations") or [])
        if merged:
            spec["tolerations"] = merged

    async def validate(self, request: AdmissionRequest) -> None:
        pod = request.object
        if request.operation != "CREATE" or request.subresource or pod is None:
            return
        spec = pod["spec"]
        if spec.get("runtimeClassName") is None and spec.get("overhead") is None:
            return
        runtime = self._find(request, early=False)
        if runtime.overhead is not None:
            if amounts(spec.get("overhead")) != amounts(runtime.overhead):
                raise refuse(request, _MISMATCH)
        elif spec.get("overhead") is not None:
            raise refuse(
                request,
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined "
                "Overhead",
            )


def _merge(first: list[Obj], second: list[Obj]) -> list[Obj]:
    """Both lists without what another toleration already covers."""
    every = [*first, *second]
    merged: list[Obj] = []
    for index, one in enumerate(every):
        if any(_covers(other, one) for other in merged):
            continue
        if any(other != one and _covers(other, one) for other in every[index + 1 :]):
            continue
        merged.append(one)
    return merged


def _covers(wide: Obj, narrow: Obj) -> bool:
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    key = wide.get("key", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    effect = wide.get("effect", "")
    if effect and narrow.get("effect", "") != effect:
        return False
    if effect == "NoExecute" and not _lasts(wide, narrow):
        return False
    if operator == "Exists":
        return True
    same = narrow.get("value", "") == wide.get("value", "")
    return operator == "Equal" and narrow.get("operator") == "Equal" and same


def _lasts(wide: Obj, narrow: Obj) -> bool:
    limit: Any = wide.get("tolerationSeconds")
    if limit is None:
        return True
    wanted: Any = narrow.get("tolerationSeconds")
    return wanted is not None and wanted <= limit


# -- resizing ------------------------------------------------------------------------------


class PodResize(Plugin):
    """A running pod grows only to what its node can hold at all, and only on Linux."""

    tables = frozenset({PODS})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, request: AdmissionRequest) -> None:
        if request.subresource != "resize" or request.operation != "UPDATE":
            return
        new, old = request.object or {}, request.old or {}
        name = new["spec"].get("nodeName")
        if not name or new["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        entry = self._store.head(NODES, name)
        if entry is None:
            raise refuse(request, f'node "{name}" not found')
        node = entry.decode()
        system = entry.labels.get("kubernetes.io/os", "linux")
        if system != "linux":
            why = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            self._refuse(request, why, "UnsupportedPlatform")
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        missing = _missing(new["spec"], allocatable)
        if missing:
            why = "node didn't have enough allocatable resources: " + "; ".join(missing)
            self._refuse(request, why, "NodeCapacity")

    def _refuse(self, request: AdmissionRequest, why: str, reason: str) -> None:
        refusal = refuse(request, why)
        refusal.details["causes"] = [{"reason": reason}]
        raise refusal


def _missing(spec: Obj, allocatable: Obj) -> list[str]:
    requests = pod_total(spec, "requests", overhead=True)
    missing = []
    for name in ("cpu", "memory"):
        wanted, there = requests.get(name), quantity(str(allocatable.get(name, "0")))
        if wanted is not None and wanted > there:
            milli = name == "cpu"
            a, b = (q.milli() if milli else q.to_int() for q in (wanted, there))
            missing.append(f"{name}, requested: {a}, allocatable: {b}")
    return missing

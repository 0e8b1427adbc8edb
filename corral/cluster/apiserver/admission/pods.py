"""Small rules for pods and nodes: tolerations, the not-ready taint, runtime classes, resizing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.quotas.amounts import amounts, pod_total, quantity
from corral.cluster.apiserver.admission.refusals import refuse, refuse_early
from corral.cluster.apiserver.crud.core import AdmissionRequest
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
    later, needless = _Coverage(), set()
    for index in reversed(range(len(every))):
        if later.covers(every[index], by_itself=False):
            needless.add(index)
        later.add(every[index])
    merged: list[Obj] = []
    before = _Coverage()
    for index, one in enumerate(every):
        if index not in needless and not before.covers(one):
            merged.append(one)
            before.add(one)
    return merged


_Reach: TypeAlias = tuple[str, str, str | None]
"""Key, effect and value of what a toleration covers; no value stands for every one."""


class _Coverage:
    """What some tolerations together cover."""

    def __init__(self) -> None:
        self._same: set[frozenset[tuple[str, Any]]] = set()
        self._longest: dict[_Reach, list[tuple[float, frozenset[tuple[str, Any]]]]] = {}
        """For how many seconds, by which toleration: the two that last longest."""

    def add(self, one: Obj) -> None:
        itself = frozenset(one.items())
        if itself in self._same:
            return
        self._same.add(itself)
        operator, effect = one.get("operator") or "Equal", one.get("effect", "")
        if operator not in ("Exists", "Equal"):
            return
        value = None if operator == "Exists" else one.get("value", "")
        seconds = one.get("tolerationSeconds") if effect == "NoExecute" else None
        longest = self._longest.setdefault((one.get("key", ""), effect, value), [])
        longest.append((math.inf if seconds is None else seconds, itself))
        longest.sort(key=lambda item: -item[0])
        del longest[2:]

    def covers(self, one: Obj, *, by_itself: bool = True) -> bool:
        """Whether one of them covers this one; ``by_itself``: an equal one counts as well."""
        itself = frozenset(one.items())
        if by_itself and itself in self._same:
            return True
        seconds = one.get("tolerationSeconds")
        return any(
            other != itself and (limit == math.inf or (seconds is not None and seconds <= limit))
            for reach in _reaching(one)
            for limit, other in self._longest.get(reach, ())
        )


def _reaching(one: Obj) -> Iterator[_Reach]:
    """What a toleration may reach that covers this one."""
    key, value = one.get("key", ""), one.get("value", "")
    for effect in {"", one.get("effect", "")}:
        yield key, effect, None
        yield "", effect, None
        if one.get("operator") == "Equal":
            yield key, effect, value


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

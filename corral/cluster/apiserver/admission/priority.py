"""Priority: the class a pod names (or the default one) becomes a number in its spec."""

from __future__ import annotations

from typing import NamedTuple

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.refusals import refuse, refuse_early
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

__all__ = ["Priority"]

PODS = "/pods"
CLASSES = "scheduling.k8s.io/priorityclasses"


class _Class(NamedTuple):
    name: str
    value: int
    policy: str
    is_default: bool


def _class(obj: Obj) -> _Class:
    policy = obj.get("preemptionPolicy") or ""
    return _Class(
        obj["metadata"]["name"], obj.get("value") or 0, policy, bool(obj.get("globalDefault"))
    )


_NO_CLASS = _Class("", 0, "PreemptLowerPriority", False)


class Priority(Plugin):
    """Resolves priority classes, and keeps it to one default among them."""

    tables = frozenset({PODS, CLASSES})

    def __init__(self, store: Store) -> None:
        self._classes = Parsed(store, CLASSES, _class)

    async def mutate(self, request: AdmissionRequest) -> bool:
        pod = request.object
        if request.subresource or pod is None or request.kind.info.table != PODS:
            return False
        spec = pod["spec"]
        if request.operation == "CREATE":
            self._resolve(request, spec)
            return True
        if request.operation != "UPDATE" or request.old is None:
            return False
        changed = False
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in request.old["spec"]:
                spec[field] = request.old["spec"][field]
                changed = True
        return changed

    def _resolve(self, request: AdmissionRequest, spec: Obj) -> None:
        name = spec.get("priorityClassName")
        if name:
            found = self._classes.get(name)
            if found is None:
                raise refuse_early(request, f"no PriorityClass with name {name} was found")
        else:
            found = self._default() or _NO_CLASS
            if found.name:
                spec["priorityClassName"] = found.name
        computed = "priority admission controller computed {} from the given PriorityClass name"
        given = spec.get("priority")
        if given is not None and given != found.value:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; "
            raise refuse_early(request, why + computed.format(found.value))
        spec["priority"] = found.value
        if not found.policy:
            return
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy != found.policy:
            why = f"the string value of PreemptionPolicy ({policy}) must not be provided in "
            raise refuse_early(request, f"{why}pod spec; {computed.format(found.policy)}")
        spec["preemptionPolicy"] = found.policy

    def _default(self) -> _Class | None:
        """Of several defaults, which only a race can make, the lowest counts."""
        defaults = [c for c in self._classes.scan() if c.is_default]
        return min(defaults, key=lambda c: c.value, default=None)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.subresource or request.object is None or request.kind.info.table != CLASSES:
            return
        if not request.object.get("globalDefault"):
            return
        default = self._default()
        if default is None:
            return
        if request.operation == "CREATE" or default.name != request.name:
            why = f"PriorityClass {default.name} is already marked as default. "
            raise refuse(request, why + "Only one default can exist")

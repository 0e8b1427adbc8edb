"""Evictions: a pod is deleted if the disruption budget that covers it allows it.

A pod that runs takes one disruption from its budget before it is deleted; one that is not healthy
may go without, where the budget is kept anyhow or says so. Pods that do not run are not covered. A
pod that changes in between is looked at again, so that none goes on what it was before.
"""

from __future__ import annotations

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.http.verbs import Verbs
from corral.cluster.apiserver.requests import Context
from corral.kube import errors
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["Evictions"]

CAUSE = "DisruptionBudget"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
MOST_DISRUPTED = 2000
"""Evictions that the controller of budgets has not confirmed yet."""
_TRIES = 20
_UNGUARDED = ("Succeeded", "Failed", "Pending")


class Evictions:
    """Evicts pods; ``pods`` is their kind."""

    def __init__(self, verbs: Verbs, pods: Kind) -> None:
        self._verbs = verbs
        self._registry = verbs.registry
        self._pods = pods

    async def evict(self, namespace: str, name: str, *, options: Obj, context: Context) -> None:
        """Delete a pod with these delete options.

        Raises:
            TooManyRequests: its budget does not allow it now.
        """
        given = (options.get("preconditions") or {}).get("resourceVersion")
        for left in reversed(range(_TRIES)):
            pod = self._registry.head(self._pods, namespace, name).decode()
            budget, exempt = None, False
            if _is_guarded(pod):
                budget, exempt = await self._disrupt(pod, context)
            unchanged = exempt or _is_pending(pod)
            version = pod["metadata"]["resourceVersion"] if unchanged and not given else given
            try:
                await self._delete(pod, version=version, options=options, context=context)
            except errors.Conflict:
                if given or not unchanged:
                    raise
                if exempt:
                    raise _still_processed(budget or "") from None
                if not left:
                    raise
            else:
                return

    async def _delete(
        self, pod: Obj, *, version: str | None, options: Obj, context: Context
    ) -> None:
        """Mark the pod as target, then delete it; Conflict if it is not of this version."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        conditions = dict(options.get("preconditions") or {})
        if version:
            conditions["resourceVersion"] = version
        if not context.dry_run:
            marked, _ = await self._verbs.writer.update(
                self._pods,
                namespace,
                name,
                change=lambda live: self._mark(live or {}, conditions),
                context=context,
                subresource="status",
            )
            if version:
                conditions["resourceVersion"] = marked["metadata"]["resourceVersion"]
        if conditions:
            options = {**options, "preconditions": conditions}
        await self._verbs.deleter.delete(
            self._pods, namespace, name, context=context, options=options
        )

    def _mark(self, pod: Obj, conditions: Obj) -> Obj:
        meta = pod["metadata"]
        for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = conditions.get(field)
            if wanted and wanted != meta[field]:
                why = (
                    f"the {label} in the precondition ({wanted}) does not match the {label} in "
                    f"record ({meta[field]}). The object might have been "
                    + ("deleted and then recreated" if field == "uid" else "modified")
                )
                raise say.conflict("", "Pod", meta["name"], why)
        status = pod.setdefault("status", {})
        known = status.get("conditions") or []
        before: Obj = next((c for c in known if c["type"] == "DisruptionTarget"), {})
        when = self._registry.timestamp()
        if before.get("status") == "True":
            when = before.get("lastTransitionTime") or when
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": when,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        rest = [c for c in known if c["type"] != "DisruptionTarget"]
        status["conditions"] = [*rest, target]
        return pod

    async def _disrupt(self, pod: Obj, context: Context) -> tuple[str | None, bool]:
        """Take one disruption from the pod's budget; its name, and whether the pod needs none.

        Raises:
            TooManyRequests: none is left.
        """
        kind = self._registry.kind_of("policy", "v1", "poddisruptionbudgets")
        assert kind is not None
        meta = pod["metadata"]
        labels = meta.get("labels") or {}
        scanned = self._registry.store.scan(kind.info.table, f"{meta['namespace']}/")
        budgets = [one for entry in scanned if _selects(one := entry.decode(), labels)]
        if len(budgets) > 1:
            raise say.internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
        if not budgets:
            return None, False
        name = budgets[0]["metadata"]["name"]
        if not _is_ready(pod) and _lets_unhealthy_go(budgets[0]):
            return name, True

        def change(live: Obj | None) -> Obj:
            assert live is not None
            return _take(live, meta["name"], now=self._registry.timestamp())

        await self._verbs.writer.update(
            kind, meta["namespace"], name, change=change, context=context, subresource="status"
        )
        return name, False


def _is_guarded(pod: Obj) -> bool:
    """Pods that run count against a budget; finished, pending and dying ones do not."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _UNGUARDED and "deletionTimestamp" not in pod["metadata"]


def _is_pending(pod: Obj) -> bool:
    """It may begin to run at any moment."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Pending" and "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _selects(budget: Obj, labels: dict[str, str]) -> bool:
    return Selector.from_object((budget.get("spec") or {}).get("selector")).matches(labels)


def _lets_unhealthy_go(budget: Obj) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _too_many(message: str, **details: int) -> errors.TooManyRequests:
    causes = [{"reason": CAUSE, "message": message}]
    return errors.TooManyRequests(REFUSED, details={"causes": causes, **details})


def _still_processed(name: str) -> errors.TooManyRequests:
    message = f"The disruption budget {name} is still being processed by the server."
    return _too_many(message, retryAfterSeconds=10)


def _take(budget: Obj, pod: str, *, now: str) -> Obj:
    """The budget with one disruption less."""
    status = budget.setdefault("status", {})
    allowed = status.get("disruptionsAllowed", 0)
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _still_processed(name)
    prefix = f"The disruption budget {name} does not allow evicting pods currently"
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative", prefix)
    if len(status.get("disruptedPods") or ()) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        told = "too many pending evictions not confirmed by PDB controller"
        raise _forbidden(name, why, prefix, told)
    if not allowed:
        raise _too_many(_why_none(budget, prefix))
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    return budget


def _forbidden(name: str, why: str, prefix: str, told: str = "") -> errors.Forbidden:
    refusal = say.forbidden("policy", "poddisruptionbudget", name, why)
    cause = {"reason": CAUSE, "message": f"{prefix}: {told or why}"}
    return errors.Forbidden(refusal.message, details={**refusal.details, "causes": [cause]})


def _why_none(budget: Obj, prefix: str) -> str:
    status, name = budget["status"], budget["metadata"]["name"]
    known = status.get("conditions") or ()
    found: Obj = next((c for c in known if c["type"] == "DisruptionAllowed"), {})
    message, reason = found.get("message") or "", found.get("reason") or ""
    told = message if found.get("status") == "False" else ""
    if told and reason == "SyncFailed":
        return f"{prefix} because it failed sync: {told}"
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= wanted:
        return (
            f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )
    return f"{prefix} ({reason}): {told}" if told else prefix

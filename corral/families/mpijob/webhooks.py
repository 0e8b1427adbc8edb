"""What the API server asks us before an MPIJob is written: its defaults, and whether it may be.

`judge` decides; what it decides by beside the job comes from a `ContextSource`: the namespace says
which policy is in force, its quotas and the cluster's priority classes what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Protocol
from weakref import WeakValueDictionary

from corral.api.mpi.kinds import MPIJOBS, MPIJob
from corral.api.mpi.spec import INTEL_SPELLINGS
from corral.families.mpijob import names
from corral.families.mpijob.validation import BASELINE, Context, Judgement, judge
from corral.families.mpijob.view import is_managed_elsewhere
from corral.kube.client import KubeClient
from corral.kube.errors import Forbidden
from corral.kube.resources import NAMESPACES, PRIORITYCLASSES, RESOURCEQUOTAS, Resource
from corral.kube.types import Obj
from corral.runtime.webhooks.hooks import Hooks
from corral.runtime.webhooks.jsonpatch import same
from corral.runtime.webhooks.review import AdmissionRequest, Verdict

__all__ = [
    "ClientContexts",
    "ContextSource",
    "context_of",
    "in_namespaces",
    "register_hooks",
]


class ContextSource(Protocol):
    """Says what jobs of a namespace are judged by."""

    async def context(self, namespace: str) -> Context: ...


def register_hooks(hooks: Hooks, source: ContextSource | None = None) -> None:
    """Default and validate MPIJobs; without a source, by the baseline."""

    async def validate(request: AdmissionRequest) -> Verdict:
        new, old = request.object or {}, request.old
        if _is_deleted(new) or (old is not None and _unchanged(new, old)):
            return Verdict()
        context = await source.context(request.namespace) if source is not None else BASELINE
        found = judge(new, old=old, context=context)
        if old is not None and _same_spec(new, old):
            found = _about_metadata(found)
        return Verdict(found.errors, found.warnings)

    hooks.mutating(MPIJOBS, _default)
    hooks.validating(MPIJOBS, validate)


def _default(request: AdmissionRequest, obj: Obj) -> list[str]:
    """Complete a job; one that is on its way out stays as it is."""
    if _is_deleted(obj):
        return []
    spec = obj.get("spec")
    said = spec.get("mpiImplementation") if isinstance(spec, dict) else None
    MPIJob.default(obj)
    if request.operation == "CREATE":
        _hold_on_to(obj)
    if isinstance(said, str) and said in INTEL_SPELLINGS:
        return [f"spec.mpiImplementation: {said} is kept as {INTEL_SPELLINGS[said]}"]
    return []


def _hold_on_to(obj: Obj) -> None:
    """Have the finalizer on a new job from the start: the controller need not add it then."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and not is_managed_elsewhere(obj):
        known = metadata.get("finalizers") or []
        if names.FINALIZER not in known:
            metadata["finalizers"] = [*known, names.FINALIZER]


def _is_deleted(obj: Obj) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def _unchanged(new: Obj, old: Obj) -> bool:
    """Whether nothing has changed that anything is judged by."""
    now, before = new.get("metadata") or {}, old.get("metadata") or {}
    alike = all(same(now.get(key), before.get(key)) for key in ("labels", "annotations"))
    return alike and _same_spec(new, old)


def _same_spec(new: Obj, old: Obj) -> bool:
    """Whether two specs are the same, defaults that nobody had written before aside."""
    completed = [{"spec": deepcopy(obj.get("spec"))} for obj in (new, old)]
    for obj in completed:
        MPIJob.default(obj)
    return same(completed[0], completed[1])


def _about_metadata(found: Judgement) -> Judgement:
    """A job that became invalid under newer rules can still be labelled."""
    errors = [problem for problem in found.errors if problem.field.startswith("metadata.")]
    return Judgement([e for e in errors if e.field != "metadata.name"], found.warnings)


# --- what is judged by -----------------------------------------------------------------------


def context_of(
    namespace: Obj,
    *,
    quotas: Iterable[Obj] = (),
    priority_classes: Iterable[Obj] | None = None,
    gang_scheduler: str = "",
) -> Context:
    """The context that the objects of a cluster make up."""
    metadata: Obj = namespace.get("metadata") or {}
    label = (metadata.get("labels") or {}).get(names.POLICY_LABEL)
    wanted = (metadata.get("annotations") or {}).get(names.REQUIRED_LABELS_ANNOTATION) or ""
    classes = None
    if priority_classes is not None:
        classes = {c["metadata"]["name"]: int(c.get("value") or 0) for c in priority_classes}
    return Context(
        policy="restricted" if label == "restricted" else "baseline",
        required_labels=tuple(text.strip() for text in wanted.split(",") if text.strip()),
        quotas=tuple(quotas),
        priorities=classes,
        gang_scheduler=gang_scheduler,
    )


class ClientContexts:
    """Asks the API server, and keeps each answer for a while."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Callable[[], float],
        gang_scheduler: str = "",
        keep: float = 5.0,
    ) -> None:
        """``keep`` is in seconds of ``clock``, which never goes back."""
        self._client, self._clock = client, clock
        self._gang_scheduler, self._keep = gang_scheduler, keep
        self._kept: dict[str, tuple[float, Context]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By namespace: of many who ask at the same time one goes, and the others wait for it."""

    async def context(self, namespace: str) -> Context:
        """Raises: ApiError: the namespace cannot be read."""
        lock = self._locks.setdefault(namespace, asyncio.Lock())
        async with lock:
            now = self._clock()
            self._kept = {k: v for k, v in self._kept.items() if v[0] > now}
            if namespace not in self._kept:
                self._kept[namespace] = (now + self._keep, await self._ask(namespace))
            return self._kept[namespace][1]

    async def _ask(self, namespace: str) -> Context:
        return context_of(
            await self._client.get(NAMESPACES, namespace),
            quotas=await self._listed(RESOURCEQUOTAS, namespace) or (),
            priority_classes=await self._listed(PRIORITYCLASSES),
            gang_scheduler=self._gang_scheduler,
        )

    async def _listed(self, resource: Resource, namespace: str | None = None) -> list[Obj] | None:
        """All objects; none where they are not ours to read: then nothing is judged by them."""
        try:
            return [obj async for obj in self._client.list(resource, namespace)]
        except Forbidden:
            return None


# --- whose jobs are judged -------------------------------------------------------------------


def in_namespaces(configurations: Iterable[Obj], selector: Obj) -> list[Obj]:
    """The webhook configurations, for jobs of namespaces that a label selector matches."""
    return [
        {
            **configuration,
            "webhooks": [
                {**webhook, "namespaceSelector": selector} if _is_ours(webhook) else webhook
                for webhook in configuration["webhooks"]
            ],
        }
        for configuration in configurations
    ]


def _is_ours(webhook: Obj) -> bool:
    return any(MPIJOBS.group in rule["apiGroups"] for rule in webhook["rules"])

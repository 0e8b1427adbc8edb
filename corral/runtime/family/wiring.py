"""How a family is added to a manager: its informers and watches follow from its declaration."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from corral.kube.types import Obj
from corral.runtime.controller import Controller, Result
from corral.runtime.family.caches import Caches
from corral.runtime.family.declaration import Family
from corral.runtime.family.reconciler import FamilyReconciler
from corral.runtime.informers.handlers import Mapper, mapped, owner_by_uid
from corral.runtime.informers.informer import Change
from corral.runtime.keys import key_of
from corral.runtime.manager import Manager

__all__ = ["register", "same_namespace"]

Reconcile = Callable[[str], Awaitable[Result | None]]


def register(
    manager: Manager,
    family: Family[Any, Any],
    *,
    counted: Callable[[Manager, str, Reconcile], Reconcile] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Controller:
    """Add the controller of a family; ``counted`` wraps its reconciles, for figures of its own."""
    reconciler = FamilyReconciler(manager, family, clock=clock)
    caches, settings = reconciler.caches, family.settings
    reconcile: Reconcile = reconciler.reconcile
    if counted is not None:
        reconcile = counted(manager, family.name, reconcile)
    controller = manager.controller(
        family.name, reconcile, workers=settings.workers, timeout=settings.timeout
    )
    controller.watch(caches.objects, when=family.concerns)
    for owned in family.owns:
        mapper = mapped(owned.keys) if owned.keys else owner_by_uid(caches.objects)
        informer = caches.informer(owned.resource)
        controller.watch(informer, mapper, when=owned.when, after=owned.after)
    for watched in family.watches:
        informer = caches.informer(watched.resource)
        if watched.wakes is not None:
            mapper = watched.wakes(caches)
            controller.watch(informer, mapper, when=watched.when, after=watched.after)
        elif informer not in controller.informers:
            controller.informers.append(informer)
    return controller


def same_namespace(
    caches: Caches, *, where: Callable[[Obj, Obj], bool] = lambda obj, other: True
) -> Mapper:
    """Wakes the family's objects in the namespace of one of another kind.

    ``where`` is asked of an object of the family and of the one that changed.
    """

    def keys(change: Change) -> Iterable[str]:
        other = change.object
        return [
            key_of(obj)
            for obj in caches.objects.store.objects(other["metadata"]["namespace"])
            if where(obj, other)
        ]

    return keys

"""Puts a scheduler into a manager: its watches, its loop, its recorder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random

from corral.cluster.scheduler.feed import Feed
from corral.cluster.scheduler.groupwatch import GroupWatch
from corral.cluster.scheduler.groupwriter import GroupWriter, joined
from corral.cluster.scheduler.loop import Scheduler, SchedulerSettings
from corral.cluster.scheduler.placement import GroupKey
from corral.kube.resources import (
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
    STORAGECLASSES,
)
from corral.runtime import Change, Manager

__all__ = ["register"]

_STATUS_WORKERS = 4


def register(
    manager: Manager,
    *,
    scheduler_name: str = "default-scheduler",
    settings: SchedulerSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
    rng: Random | None = None,
) -> Scheduler:
    """Add the scheduler of the pods with this ``spec.schedulerName`` to a manager.

    Before the manager runs. ``settings`` decide over ``scheduler_name`` where both are given.
    """
    settings = settings or SchedulerSettings(name=scheduler_name)
    # kube-scheduler's own pace: a burst of pods is not held up by its events
    recorder = manager.recorder(settings.name)

    def group_changed(key: GroupKey) -> None:
        groups.queue.add(joined(key))

    scheduler = Scheduler(
        manager.client,
        recorder,
        settings=settings,
        group_changed=group_changed,
        clock=clock,
        wall=wall,
        rng=rng,
    )
    feed = Feed(
        scheduler.state,
        scheduler.queue,
        scheduler.gangs,
        scheduler_name=settings.name,
        wake=scheduler.wake,
        leaving=scheduler.evictions.leaving,
        gone=scheduler.statuses.forget,
        claim_changed=scheduler.claims.changed,
    )
    writer = GroupWriter(manager.client, recorder, scheduler.gangs, wall=wall)
    groups = manager.controller(
        f"{settings.name}-podgroups", writer.reconcile, workers=_STATUS_WORKERS
    )
    _watch(manager, scheduler, feed)
    watch = GroupWatch(manager.client, feed.group)

    async def run() -> None:
        await watch.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run())
            tasks.create_task(scheduler.run())

    manager.add_task(settings.name, run)
    return scheduler


def _watch(manager: Manager, scheduler: Scheduler, feed: Feed) -> None:
    """Nodes before pods and so on: what comes first is needed to judge what follows."""
    handlers = (
        (NAMESPACES, feed.namespace),
        (NODES, feed.node),
        (SERVICES, feed.service),
        (REPLICASETS, feed.owner("ReplicaSet")),
        (STATEFULSETS, feed.owner("StatefulSet")),
        (REPLICATIONCONTROLLERS, feed.owner("ReplicationController")),
        (STORAGECLASSES, feed.storage_class),
        (PERSISTENTVOLUMES, feed.volume),
        (PERSISTENTVOLUMECLAIMS, feed.claim),
        (PODS, feed.pod),
    )
    for resource, handler in handlers:
        manager.informer(resource).add_handler(handler)
    budgets = manager.informer(PODDISRUPTIONBUDGETS)

    def budget(change: Change) -> None:
        scheduler.budgets = tuple(budgets.store)

    budgets.add_handler(budget)

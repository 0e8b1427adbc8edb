"""One pass over a deployment: revisions, scaling, rollout, rollback, history, status.

Sans I/O and without a clock of its own. As upstream, one pass scales either the new set or the
old ones, never both, and the status of a pass is made of the sets as they were read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime

from corral.cluster.workloads.deployment import sets as rs
from corral.cluster.workloads.deployment.scaling import (
    Rollout,
    resize,
    scale,
    update_set,
    was_scaled,
)
from corral.cluster.workloads.deployment.status import (
    NO_LIMIT,
    PROGRESSING,
    TIMED_OUT,
    calculate,
    find_condition,
    has_deadline,
    is_complete,
    rollout_status,
    stuck_after,
)
from corral.cluster.workloads.deployment.steps import (
    CreateSet,
    DeleteSet,
    Pass,
    Step,
    UpdateDeployment,
    WriteStatus,
)
from corral.cluster.workloads.pods import (
    Claims,
    claim,
    controller_of,
    controller_reference,
    is_deleting,
    is_terminal,
    uid,
)
from corral.cluster.workloads.steps import Answer, Emit, Event, Failed, Verdict
from corral.kube.types import Obj

__all__ = ["claim_sets", "sync_deployment"]


def claim_sets(deployment: Obj, replica_sets: Iterable[Obj]) -> Claims:
    """Owned, to adopt, to release."""
    reference = controller_reference(deployment, "apps/v1", "Deployment")
    selector = deployment["spec"].get("selector")
    return claim(deployment, replica_sets, reference, selector=selector)


_Part = Generator[Step, Answer, bool]


def sync_deployment(
    deployment: Obj,
    replica_sets: Iterable[Obj],
    pods: Mapping[str, Sequence[Obj]],
    *,
    now: datetime,
) -> Pass:
    """The steps that bring a deployment and the sets it controls to where they should be.

    Args:
        deployment: As read; not changed.
        replica_sets: The sets it controls.
        pods: Their pods, by the uid of the set; needed with the Recreate strategy only.
        now: The time of the pass, aware.
    """
    meta, status = dict(deployment["metadata"]), dict(deployment.get("status") or {})
    meta["annotations"] = dict(meta.get("annotations") or {})
    status["conditions"] = [dict(c) for c in status.get("conditions") or ()]
    copy = {**deployment, "metadata": meta, "status": status}
    sync = Rollout(copy, list(replica_sets), pods, now)
    try:
        if deployment["spec"].get("selector") == {}:
            return (yield from _refuse(sync))
        return (yield from _dispatch(sync))
    except Failed:
        return Verdict(retry=True)


def _refuse(sync: Rollout) -> Pass:
    message = "This deployment is selecting all pods. A non-empty selector is required."
    yield Emit((Event("Warning", "SelectingAll", message),))
    generation = sync.deployment["metadata"].get("generation", 0)
    if sync.status.get("observedGeneration", 0) < generation:
        sync.status["observedGeneration"] = generation
        yield from _write_status(sync)
    return Verdict()


def _dispatch(sync: Rollout) -> Pass:
    spec = sync.deployment["spec"]
    if is_deleting(sync.deployment):
        yield from _identify(sync, create=False)
        return (yield from _settle(sync, calculate(sync.deployment, sync.all, sync.new, sync.now)))
    yield from _note_pause(sync)
    rollback_to = rs.annotations_of(sync.deployment).get(rs.ROLLBACK_TO, "")
    if spec.get("paused"):
        return (yield from _scale_only(sync, trim=not rollback_to.isdecimal()))
    if rollback_to.isdecimal():
        return (yield from _roll_back(sync, int(rollback_to)))
    yield from _identify(sync, create=False)
    if was_scaled(sync):
        return (yield from _scale_only(sync, trim=False))
    yield from (_roll(sync) if rs.is_rolling(sync.deployment) else _recreate(sync))
    status = rollout_status(sync.deployment, sync.all, sync.new, sync.now)
    return (yield from _settle(sync, status, rollout=True))


def _settle(sync: Rollout, status: Obj, *, rollout: bool = False) -> Pass:
    """Writes the status if it changed; else sees that the deadline is not slept through."""
    if not status.get("conditions"):
        status.pop("conditions", None)
    old = {k: v for k, v in sync.status.items() if v not in (None, [], 0) or _kept(k, v)}
    if status == old:
        return Verdict(stuck_after(sync.deployment, status, sync.now) if rollout else None)
    sync.deployment["status"] = status
    yield from _write_status(sync)
    return Verdict()


def _kept(field: str, value: object) -> bool:
    return field in ("terminatingReplicas", "collisionCount") and value is not None


def _write_status(sync: Rollout) -> Generator[Step, Answer, None]:
    status = dict(sync.status)
    if not status.get("conditions"):
        status.pop("conditions", None)
    answer = yield WriteStatus({**sync.deployment, "status": status})
    if answer.error is not None:
        raise Failed(answer.error)
    stored = (answer.found or {}).get("metadata", {}).get("resourceVersion")
    if stored is not None:
        sync.deployment["metadata"]["resourceVersion"] = stored


def _note_pause(sync: Rollout) -> Generator[Step, Answer, None]:
    """A paused rollout makes no progress and is not late for it."""
    current = find_condition(sync.status, PROGRESSING) or {}
    if not has_deadline(sync.deployment) or current.get("reason") == TIMED_OUT:
        return
    noted = current.get("reason") == "DeploymentPaused"
    paused = bool(sync.deployment["spec"].get("paused"))
    if paused == noted:
        return
    if paused:
        sync.progressing("Unknown", "DeploymentPaused", "Deployment is paused")
    else:
        sync.progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
    yield from _write_status(sync)


def _identify(sync: Rollout, *, create: bool) -> Generator[Step, Answer, None]:
    """Finds (or makes) the set of the current template, and keeps the revisions."""
    sync.new = rs.find_new(sync.deployment, sync.sets)
    sync.old = rs.others(sync.sets, sync.new)
    number = max(map(rs.revision, sync.old), default=0) + 1
    if sync.new is not None:
        yield from _refresh(sync, sync.new, number)
    elif create:
        yield from _create(sync, number)


def _refresh(sync: Rollout, new: Obj, number: int) -> Generator[Step, Answer, None]:
    spec = sync.deployment["spec"]
    annotations = rs.with_revision_annotations(sync.deployment, new, number)
    wait = spec.get("minReadySeconds", 0)
    if annotations != rs.annotations_of(new) or wait != new["spec"].get("minReadySeconds", 0):
        sync.new = yield from update_set(
            {
                **new,
                "metadata": {**new["metadata"], "annotations": annotations},
                "spec": {**new["spec"], "minReadySeconds": wait},
            }
        )
        sync.sets = [sync.new if uid(one) == uid(new) else one for one in sync.sets]
        return
    changed = _set_revision(sync, annotations.get(rs.REVISION, ""))
    if has_deadline(sync.deployment) and find_condition(sync.status, PROGRESSING) is None:
        message = f'Found new replica set "{new["metadata"]["name"]}"'
        sync.progressing("True", "FoundNewReplicaSet", message)
        changed = True
    if changed:
        yield from _write_status(sync)


def _set_revision(sync: Rollout, number: str) -> bool:
    annotations = sync.deployment["metadata"]["annotations"]
    if annotations.get(rs.REVISION) == number:
        return False
    annotations[rs.REVISION] = number
    return True


def _create(sync: Rollout, number: int) -> Generator[Step, Answer, None]:
    body = rs.new_replica_set(sync.deployment, sync.old or (), number)
    name, size = body["metadata"]["name"], rs.replicas(body)
    scaled = Event("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
    answer = yield CreateSet(body, (scaled,) if size > 0 else ())
    if answer.existed and answer.found is not None:
        yield from _resolve_collision(sync, answer.found)
    elif answer.error is not None or answer.found is None:
        yield from _creation_failed(
            sync, f'Failed to create new replica set "{name}": {answer.error}'
        )
    sync.new = answer.found
    changed = _set_revision(sync, str(number))
    if not answer.existed and has_deadline(sync.deployment):
        sync.progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
        changed = True
    if changed:
        yield from _write_status(sync)


def _resolve_collision(sync: Rollout, found: Obj) -> Generator[Step, Answer, None]:
    """Our own set, made by a pass that was cut short, is taken; else the next hash is tried."""
    owner = (controller_of(found) or {}).get("uid")
    template = sync.deployment["spec"]["template"]
    if owner == uid(sync.deployment) and rs.same_template(template, found["spec"]["template"]):
        return
    sync.status["collisionCount"] = sync.status.get("collisionCount", 0) + 1
    yield from _write_status(sync)
    raise Failed("the name of the replica set is taken")


def _creation_failed(sync: Rollout, message: str) -> Generator[Step, Answer, None]:
    if has_deadline(sync.deployment):
        sync.progressing("False", "ReplicaSetCreateError", message)
        yield from _write_status(sync)
    yield Emit((Event("Warning", "ReplicaSetCreateError", message),))
    raise Failed(message)


# --- scaling without a rollout ----------------------------------------------------------------


def _scale_only(sync: Rollout, *, trim: bool) -> Pass:
    yield from _identify(sync, create=False)
    yield from scale(sync)
    if trim and sync.deployment["spec"].get("paused"):
        yield from _trim_history(sync)
    return (yield from _settle(sync, calculate(sync.deployment, sync.all, sync.new, sync.now)))


# --- rollouts ---------------------------------------------------------------------------------


def _roll(sync: Rollout) -> Generator[Step, Answer, None]:
    if sync.new is None:
        yield from _identify(sync, create=True)
    if (yield from _grow_new(sync)) or (yield from _shrink_old(sync)):
        return
    if is_complete(sync.deployment, sync.status):
        yield from _trim_history(sync)


def _grow_new(sync: Rollout) -> _Part:
    new = sync.new
    if new is None or rs.replicas(new) == sync.wanted:
        return False
    size = sync.wanted
    if rs.replicas(new) < sync.wanted:
        size = rs.new_set_size(sync.deployment, sync.all, rs.replicas(new))
    if size == rs.replicas(new):
        return False
    yield from resize(sync, new, size)
    return True


def _shrink_old(sync: Rollout) -> _Part:
    """Unhealthy pods of old sets go first, then as many others as availability allows."""
    old = sorted(rs.active_sets(sync.old or ()), key=rs.by_creation)
    if not old or sync.new is None:
        return False
    least = sync.wanted - rs.limits(sync.deployment)[1]
    new_unavailable = rs.replicas(sync.new) - rs.available(sync.new)
    most = rs.total(sync.all) - least - new_unavailable
    if most <= 0:
        return False
    removed = 0
    for at, one in enumerate(old):
        unhealthy = min(most - removed, rs.replicas(one) - rs.available(one))
        if unhealthy > 0:
            old[at] = yield from resize(sync, one, rs.replicas(one) - unhealthy)
            removed += unhealthy
    # The status of a set that has just been made smaller still counts pods that are going.
    spare = sum(min(rs.available(one), rs.replicas(one)) for one in [*old, sync.new]) - least
    for one in old:
        surplus = min(rs.replicas(one), spare)
        if surplus > 0:
            yield from resize(sync, one, rs.replicas(one) - surplus)
            spare -= surplus
            removed += surplus
    return removed > 0


def _recreate(sync: Rollout) -> Generator[Step, Answer, None]:
    """All old pods have to be gone before the first new one is made."""
    old = rs.active_sets(sync.old or ())
    for one in old:
        yield from resize(sync, one, 0)
    if old or _old_pods_run(sync):
        return
    if sync.new is None:
        yield from _identify(sync, create=True)
    if sync.new is not None and rs.replicas(sync.new) != sync.wanted:
        yield from resize(sync, sync.new, sync.wanted)
    if is_complete(sync.deployment, sync.status):
        yield from _trim_history(sync)


def _old_pods_run(sync: Rollout) -> bool:
    if any((one.get("status") or {}).get("replicas", 0) for one in sync.old or ()):
        return True
    new_uid = uid(sync.new) if sync.new else None
    return any(
        not is_terminal(pod)
        for owner, pods in sync.pods.items()
        if owner != new_uid
        for pod in pods
    )


def _trim_history(sync: Rollout) -> Generator[Step, Answer, None]:
    limit = sync.deployment["spec"].get("revisionHistoryLimit", NO_LIMIT)
    kept = [one for one in sync.old or () if not is_deleting(one)]
    surplus = len(kept) - limit
    if limit == NO_LIMIT or surplus <= 0:
        return
    kept.sort(key=lambda one: (rs.revision(one), *rs.by_creation(one)))
    for one in kept[:surplus]:
        status = one.get("status") or {}
        behind = one["metadata"].get("generation", 0) > status.get("observedGeneration", 0)
        if rs.replicas(one) or status.get("replicas", 0) or behind:
            continue
        answer = yield DeleteSet(one)
        if answer.error is not None:
            raise Failed(answer.error)


def _roll_back(sync: Rollout, number: int) -> Pass:
    """Gives the deployment the template of an earlier set; asked for by an annotation."""
    yield from _identify(sync, create=True)
    deployment, name = sync.deployment, sync.deployment["metadata"]["name"]
    if number == 0:
        number = sorted(map(rs.revision, sync.all))[-2] if len(sync.all) > 1 else 0
        if number == 0:
            return (yield from _end_rollback(sync, "Unable to find last revision."))
    target = next((one for one in sync.all if rs.revision(one) == number), None)
    if target is None:
        return (yield from _end_rollback(sync, "Unable to find the revision to rollback to."))
    template = target["spec"]["template"]
    if rs.same_template(template, deployment["spec"]["template"]):
        message = f'The rollback revision contains the same template as current deployment "{name}"'
        warning = Event("Warning", "DeploymentRollbackTemplateUnchanged", message)
        return (yield from _replace(sync, warning))
    given = template.get("metadata") or {}
    labels = {k: v for k, v in (given.get("labels") or {}).items() if k != rs.HASH_LABEL}
    deployment["spec"] = {
        **deployment["spec"],
        "template": {**template, "metadata": {**given, "labels": labels}},
    }
    own = deployment["metadata"]["annotations"]
    theirs = rs.annotations_of(target)
    deployment["metadata"]["annotations"] = {
        **{k: v for k, v in own.items() if k in rs.NOT_COPIED},
        **{k: v for k, v in theirs.items() if k not in rs.NOT_COPIED},
    }
    message = f'Rolled back deployment "{name}" to revision {number}'
    return (yield from _replace(sync, Event("Normal", "DeploymentRollback", message)))


def _end_rollback(sync: Rollout, message: str) -> Pass:
    warning = Event("Warning", "DeploymentRollbackRevisionNotFound", message)
    return (yield from _replace(sync, warning))


def _replace(sync: Rollout, event: Event) -> Pass:
    sync.deployment["metadata"]["annotations"].pop(rs.ROLLBACK_TO, None)
    answer = yield UpdateDeployment(sync.deployment, (event,))
    return Verdict(retry=answer.error is not None)

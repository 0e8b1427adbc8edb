"""What is kept of the cluster's objects, and what is remembered of a launcher's end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.families.mpijob.caches import FOR_AGENTS, Caches, index_by_job, keep_ours
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.objects.podgroup import VOLCANO_PODGROUPS
from corral.families.mpijob.settings import ObjectSettings
from corral.kube.client import KubeClient
from corral.kube.resources import JOBS, SECRETS
from corral.runtime import Manager
from tests.unit.families.mpijob.mpijob_world import launcher, make_job, over

Obj = dict[str, Any]
OURS = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "foo", "uid": "u-1"}


def owned(obj: Obj, **owner: Any) -> Obj:
    metadata = {**obj["metadata"], "ownerReferences": [{**OURS, "controller": True, **owner}]}
    return {**obj, "metadata": {**metadata, "resourceVersion": "1"}}


def caches(**settings: Any) -> Caches:
    return Caches(Manager(cast(KubeClient, None)), MPISettings(**settings))


def config(**metadata: Any) -> Obj:
    return {"metadata": {"name": "a", "managedFields": [], **metadata}, "data": {"a": "b"}}


@pytest.mark.parametrize(
    ("obj", "kept"),
    [
        (owned(config()), True),
        (config(), False),
        (owned(config(), kind="TrainingJob"), False),
        (owned(config(), controller=False), False),
    ],
)
def test_what_others_have_is_not_kept(obj: Obj, kept: bool) -> None:
    found = keep_ours(obj)
    assert ("data" in found) is kept
    assert "managedFields" not in found["metadata"]


def test_only_what_is_needed_is_watched() -> None:
    watched = set(caches(agent=False).children)
    assert not watched & {*FOR_AGENTS, SECRETS, VOLCANO_PODGROUPS}
    assert set(FOR_AGENTS) <= set(caches().children)
    gangs = caches(objects=ObjectSettings(gang_scheduler="volcano"))
    assert VOLCANO_PODGROUPS in gangs.children
    assert gangs.priority_values() == {}


@pytest.mark.parametrize(
    ("conditions", "owner", "kept"),
    [
        ((over("Complete"),), {}, True),
        ((over("Failed"),), {}, True),
        ((), {}, False),
        ((over("Complete"),), {"kind": "CronJob"}, False),
    ],
)
def test_how_a_launcher_ended_outlives_it(
    conditions: tuple[Obj, ...], owner: Obj, kept: bool
) -> None:
    found = caches()
    informer = found.children[JOBS]
    informer.replaced([owned(launcher(*conditions), **owner)], "1")
    informer.replaced([], "2")
    assert (found.last_launcher(make_job()) is not None) is kept
    found.forget("u-1")
    assert found.last_launcher(make_job()) is None


def test_the_job_of_a_pod() -> None:
    labels = {"training.kubeflow.org/job-name": "foo"}
    metadata = {"name": "a", "namespace": "bar", "labels": labels}
    assert index_by_job({"metadata": metadata}) == ("bar/foo",)
    assert index_by_job({"metadata": {"name": "a", "namespace": "bar"}}) == ()

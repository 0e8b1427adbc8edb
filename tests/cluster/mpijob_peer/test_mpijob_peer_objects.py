"""Kubeflow's five examples make the very objects under ours that they make under mpi-operator.

Service, ConfigMap, Secret (but for the keys), launcher Job, pods, and the MPIJob with its status
are compared field by field when they are made, while they run, and in the end. What is meant to be
different is listed in `differing`, and must be.
"""

from __future__ import annotations

import pytest

from tests.cluster.mpijob_peer.differing import MEANT, compare, not_meant
from tests.cluster.mpijob_peer.programs import MANIFESTS
from tests.cluster.mpijob_peer.story import MOMENTS, Story

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("example", MANIFESTS)
def test_objects_are_the_peers(ours: Story, theirs: Story, example: str, moment: str) -> None:
    lines = compare(ours.moments[example, moment], theirs.moments[example, moment])
    assert not_meant(lines) == []


def test_the_peer_made_what_is_compared(theirs: Story) -> None:
    kinds = {key.partition(" ")[0] for key in theirs.moments["pi", "running"]}
    assert kinds == {"MPIJob", "Service", "ConfigMap", "Secret", "Job", "Pod"}


def test_every_difference_that_is_listed_is_one(ours: Story, theirs: Story) -> None:
    lines = [
        line for key in theirs.moments for line in compare(ours.moments[key], theirs.moments[key])
    ]
    unused = [each for each in MEANT if not any(each.covers(line) for line in lines)]
    assert unused == []


@pytest.mark.parametrize("example", MANIFESTS)
def test_what_the_peer_says_is_said(ours: Story, theirs: Story, example: str) -> None:
    """Every event about the MPIJob: type, reason and message.

    Not what a race makes the peer report: it sometimes creates a worker a second time, before its
    cache has shown the first creation, and records the API server's answer as a warning.
    """
    reported = {each for each in theirs.events[example] if not each[2].endswith("already exists")}
    assert reported - ours.events[example] == set()
    assert not [each for each in ours.events[example] if each[2].endswith("already exists")]

"""The judges of spot runs find what they are there for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corral.inpod.volume import disk, names
from corral.inpod.volume.manifest import Manifest
from corral.inpod.volume.volume import Volume
from tests.cluster.spot_faults import journals
from tests.cluster.spot_faults.journals import Start
from tests.cluster.spot_faults.schedules import FURTHEST, KINDS, schedule
from tests.cluster.spot_faults.training_program import begin, digest, train, undisturbed


def start(attempt: int, began: float, last: float, *, replica: int = 0, **more: Any) -> Start:
    return Start(
        replica=replica, attempt=attempt, pod="p", node="n", began=began, last=last, **more
    )


def test_starts_of_one_copy_that_overlap() -> None:
    earlier, later, other = start(1, 0, 10), start(2, 9, 20), start(3, 5, 20, replica=1)
    assert journals.overlaps([later, other, earlier]) == [(earlier, later)]
    assert journals.overlaps([earlier, start(2, 10.5, 20), other]) == []


def test_attempts_that_do_not_grow() -> None:
    first, second = start(2, 0, 1), start(2, 2, 3)
    assert journals.unordered([first, second]) == [(first, second)]
    assert journals.unordered([first, start(3, 2, 3)]) == []


def test_steps_that_do_not_follow() -> None:
    skipped = start(1, 0, 1, restored=4, steps=[5, 7])
    late = start(2, 0, 1, restored=4, steps=[6])
    good = start(3, 0, 1, restored=-1, steps=[0, 1])
    assert journals.gaps([skipped, late, good]) == [skipped, late]


def test_steps_that_are_done_again() -> None:
    first = start(1, 0, 1, restored=-1, steps=[0, 1, 2, 3], step_times=[0, 0.1, 0.2, 1])
    unborn = start(2, 2, 2)
    third = start(3, 3, 4, restored=1, steps=[2, 3], step_times=[3, 3.1])
    ahead = start(4, 5, 6, restored=9, steps=[10], step_times=[5])
    starts = [first, unborn, third, ahead]
    found = journals.lost_steps(starts)
    assert [(each.attempt, steps) for each, steps in found] == [(3, 2), (4, 0)]
    found = journals.lost_steps(starts, until=0.5)
    assert [(each.attempt, steps) for each, steps in found] == [(3, 1), (4, 0)]


def test_a_journal_whose_last_line_is_torn(tmp_path: Path) -> None:
    lines = [
        {"event": "started", "at": 1.0, "replica": 1, "attempt": 4, "pod": "p", "node": "n"},
        {"event": "restored", "at": 2.0, "step": 6},
        {"event": "step", "at": 3.0, "step": 7},
        {"event": "saving", "at": 3.5, "step": 7},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"event": "do'
    (tmp_path / "1.4.p.9.jsonl").write_text(text)
    (tmp_path / "empty.jsonl").write_text("")
    (found,) = journals.read(tmp_path)
    assert (found.replica, found.attempt, found.restored, found.reached) == (1, 4, 6, 7)
    assert (found.saves, found.last, found.digest) == ([7], 3.5, "")


def publish(folder: Path, attempt: int, step: int, at: float) -> None:
    identifier = names.checkpoint_id(step, f"{attempt}{step}")
    (folder / identifier).mkdir()
    (folder / identifier / "state").write_text("weights")
    Volume(str(folder)).publish(
        Manifest(
            id=identifier,
            step=step,
            time=at,
            files=tuple(disk.measure(str(folder / identifier))),
            attempt=attempt,
            job_uid="u",
        )
    )
    os.utime(folder / identifier / names.MANIFEST, (at, at))


def test_a_checkpoint_of_an_attempt_that_was_fenced(tmp_path: Path) -> None:
    (tmp_path / names.claim(2)).touch()
    os.utime(tmp_path / names.claim(2), (50, 50))
    publish(tmp_path, 1, 3, at=40)
    publish(tmp_path, 2, 5, at=60)
    assert journals.fence_breaches(tmp_path) == []
    publish(tmp_path, 1, 4, at=55)
    ((late, by),) = journals.fence_breaches(tmp_path)
    assert (late.attempt, late.step, by) == (1, 4, 2)


def test_weights_depend_on_every_step() -> None:
    state = begin()
    for step in (0, 1, 3):
        train(state, step)
    assert digest(state) != undisturbed(3)
    assert undisturbed(4) != undisturbed(3) == undisturbed(3)


@pytest.mark.parametrize("replicas", [1, 2])
def test_schedules(replicas: int) -> None:
    drawn = [schedule(seed, replicas=replicas) for seed in range(200)]
    assert drawn == [schedule(seed, replicas=replicas) for seed in range(200)]
    acts = [act for blows in drawn for blow in blows for act in blow.acts]
    assert {act.kind for act in acts} == set(KINDS)
    assert {act.replica for act in acts} == set(range(replicas))
    for blows in drawn:
        assert [blow.at for blow in blows] == sorted(blow.at for blow in blows)
        assert all(0 <= blow.at < FURTHEST and blow.acts for blow in blows)
        losses = {act.kind for blow in blows for act in blow.acts}
        assert losses & {"kill", "kill all", "notice"}

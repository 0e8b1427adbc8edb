"""Checkpoints in a store that only the operator has the key of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from inpod_operator import Operator

from corral.inpod import RestoreError
from corral.inpod.environment import Environment
from corral.inpod.replica import Replica

Make = Callable[..., Replica]


@pytest.fixture
def pod(replica: Make, operator: Operator) -> Callable[..., Replica]:
    def make(**options: Any) -> Replica:
        return replica(**{"remote": True, "report_url": operator.url, **options})

    return make


def data(step: int, size: int = 300_000) -> bytes:
    return bytes((step + n * n) % 251 for n in range(256)) * (size // 256)


def save(step: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "sub dir").mkdir()
        (path / "sub dir" / "weights.bin").write_bytes(data(step))
        (path / "empty").write_bytes(b"")

    return write


def checkpoint(replica: Replica, step: int, **options: Any) -> None:
    assert replica.maybe_checkpoint(save(step), step=step, force=True, **options)
    replica.flush()


def encoded(operator: Operator, identifier: str, name: str) -> str:
    (found,) = (key for key in operator.objects if key.endswith(f"/{identifier}/{quote(name)}"))
    return found


def test_a_checkpoint_goes_up_and_comes_down(pod: Make, operator: Operator, tmp_path: Path) -> None:
    writer = pod()
    checkpoint(writer, 7, metrics={"loss": 0.5})
    (asked,) = operator.bodies("uploads")
    assert (asked["step"], asked["replica"], asked["of"], asked["attempt"]) == (7, 0, 1, 1)
    assert asked["metrics"] == {"loss": 0.5}
    found = pod().restore()
    assert found is not None
    assert (found.step, found.metrics) == (7, {"loss": 0.5})
    assert (found / "sub dir/weights.bin").read_bytes() == data(7)
    assert (found / "empty").read_bytes() == b""
    staged = [path.name for path in (tmp_path / "volume").iterdir()]
    assert staged == [".restored"], "nothing of the upload is left"


def test_large_files_go_up_in_parts(pod: Make, operator: Operator) -> None:
    operator.part_size = 70_000
    checkpoint(pod(), 1)
    (commit,) = operator.bodies("commit")
    (weights,) = (file for file in commit["files"] if file["size"])
    assert len(weights["etags"]) == 5
    assert weights["upload"] == "upload of sub dir/weights.bin"
    found = pod().restore()
    assert found is not None
    assert (found / "sub dir/weights.bin").read_bytes() == data(1)


@pytest.mark.parametrize("fault", [503, "refuse", "drop", "half"])
def test_calls_are_repeated_after_a_lost_answer(
    pod: Make, operator: Operator, fault: str | int
) -> None:
    writer = pod()
    operator.faults.extend([fault] * 3)
    checkpoint(writer, 1)
    operator.faults.extend([None, fault, fault])  # type: ignore[list-item]
    checkpoint(writer, 2)
    assert [candidate["step"] for candidate in operator.candidates] == [2, 1]
    operator.faults.extend([fault] * 2)
    found = pod().restore()
    assert found is not None
    assert found.step == 2


def test_a_commit_whose_answer_was_lost_is_sent_again(pod: Make, operator: Operator) -> None:
    writer = pod(interval=1e9)
    writer.maybe_checkpoint(save(1), step=0)
    writer.flush()
    operator.wait(lambda: len(operator.calls) > 0)
    original = operator.serve
    lost: list[str] = []

    def serve(name: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answer = original(name, path, body)
        if name == "commit" and not lost:
            lost.append(path)
            raise ConnectionAbortedError("the answer is lost")
        return answer

    operator.serve = serve  # type: ignore[method-assign]
    checkpoint(writer, 3)
    assert lost
    assert [candidate["step"] for candidate in operator.candidates] == [3]


@pytest.mark.parametrize("fault", [500, 503, "drop", 403])
def test_a_store_that_fails_or_an_old_signature_is_overcome(
    pod: Make, operator: Operator, fault: str | int
) -> None:
    operator.part_size = 100_000
    operator.store_faults.extend([fault] * 2)
    checkpoint(pod(), 1)
    assert [candidate["step"] for candidate in operator.candidates] == [1]


@pytest.mark.parametrize("fault", [500, "half", 403])
def test_a_download_that_breaks_off_goes_on(
    pod: Make, operator: Operator, fault: str | int
) -> None:
    checkpoint(pod(), 1)
    operator.store_faults.extend([fault] * 2)
    found = pod().restore()
    assert found is not None
    assert (found / "sub dir/weights.bin").read_bytes() == data(1)


def corrupt(operator: Operator, key: str) -> None:
    content = bytearray(operator.objects[key])
    content[1000] ^= 4
    operator.objects[key] = bytes(content)


def truncate(operator: Operator, key: str) -> None:
    operator.objects[key] = operator.objects[key][:-1]


def lengthen(operator: Operator, key: str) -> None:
    operator.objects[key] += b"x"


def remove(operator: Operator, key: str) -> None:
    del operator.objects[key]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (corrupt, "CheckpointDigestMismatch"),
        (truncate, "CheckpointFileTruncated"),
        (lengthen, "CheckpointFileTruncated"),
        (remove, "CheckpointFileMissing"),
    ],
)
def test_a_damaged_newest_checkpoint_in_the_store_is_passed_over(
    pod: Make,
    operator: Operator,
    damage: Callable[[Operator, str], None],
    reason: str,
    tmp_path: Path,
) -> None:
    writer = pod()
    checkpoint(writer, 1)
    checkpoint(writer, 2)
    newest = operator.candidates[0]["id"]
    damage(operator, encoded(operator, newest, "sub dir/weights.bin"))
    reader = pod()
    found = reader.restore()
    assert found is not None
    assert found.step == 1
    reader.flush()
    told = [item for body in operator.bodies("report") for item in body.get("rejected", [])]
    assert [(item["id"], item["reason"]) for item in told] == [(newest, reason)]
    assert [p.name for p in (tmp_path / "volume/.restored").iterdir()] == [found.id]


def test_a_download_that_is_there_already_is_used_if_it_is_intact(
    pod: Make, operator: Operator
) -> None:
    checkpoint(pod(), 1)
    first = pod().restore()
    assert first is not None
    operator.store_faults.extend([500] * 3)
    assert pod().restore() is not None
    assert len(operator.store_faults) == 3, "nothing was downloaded"
    operator.store_faults.clear()
    (first / "sub dir/weights.bin").write_bytes(b"changed")
    again = pod().restore()
    assert again is not None
    assert (again / "sub dir/weights.bin").read_bytes() == data(1)


def test_nothing_in_the_store_is_a_fresh_start(pod: Make) -> None:
    assert pod().restore() is None


def test_a_named_checkpoint_that_is_refused_raises(pod: Make, operator: Operator) -> None:
    operator.faults.append(404)
    with pytest.raises(RestoreError, match="a fault"):
        pod(restore_from="mnist-000009").restore()
    with pytest.raises(RestoreError, match="not there"):
        pod(restore_from="s3://bucket/step-000000000001.x").restore()


def test_an_operator_that_stays_away_fails_the_restore(
    pod: Make, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.inpod.replica.RESTORE_PATIENCE", 0.0)
    operator.faults.append(503)
    with pytest.raises(RestoreError, match="503"):
        pod().restore()


def test_a_fenced_attempt_commits_nothing(
    pod: Make, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    original = operator.serve

    def serve(name: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if name == "commit":
            return 409, {"error": "attempt 2 has begun", "fenced": True}
        return original(name, path, body)

    operator.serve = serve  # type: ignore[method-assign]
    writer = pod()
    checkpoint(writer, 1)
    assert "attempt 2 has begun" in caplog.text
    assert not writer.maybe_checkpoint(save(2), step=2, force=True)
    assert not operator.candidates


def test_a_newer_state_takes_the_place_of_one_that_waits_for_the_operator(
    monkeypatch: pytest.MonkeyPatch, pod: Make, operator: Operator, tmp_path: Path
) -> None:
    original = operator.serve
    away = True

    def serve(name: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if name == "uploads" and away:
            return 503, {"error": "away"}
        return original(name, path, body)

    operator.serve = serve  # type: ignore[method-assign]
    monkeypatch.setattr("corral.inpod.publishing.PATIENCE", 0.0)
    writer = pod(interval=0.0)
    assert writer.maybe_checkpoint(save(1), step=1)
    operator.wait(lambda: len([1 for name, _ in operator.calls if name == "uploads"]) > 1)
    assert writer.maybe_checkpoint(save(2), step=2, force=True)
    away = False
    operator.wait(lambda: bool(operator.candidates))
    writer.flush()
    assert 2 in [candidate["step"] for candidate in operator.candidates]


def test_a_remote_store_without_an_operator_is_no_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alone = Replica(Environment(checkpoint_dir=str(tmp_path), remote=True, interval=0.0))
    assert not alone.maybe_checkpoint(save(1), step=1, force=True)
    assert "CORRAL_REPORT_URL" in caplog.text

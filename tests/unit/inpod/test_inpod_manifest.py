"""The manifest of this package and that of corral.checkpoints are one format."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.checkpoints import manifest as theirs
from corral.checkpoints import paths
from corral.inpod.errors import InvalidManifest, InvalidPath
from corral.inpod.volume import manifest as ours
from corral.inpod.volume import names

SHA = "0123456789abcdef" * 4
STEP = st.integers(0, 10**12 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def example(**changes: object) -> ours.Manifest:
    files = (ours.FileEntry("a/weights.bin", 3, SHA), ours.FileEntry("b", 0, SHA, shard=1))
    found = ours.Manifest(
        id="step-000000000012.abc",
        step=12,
        time=1_760_000_000.123456,
        files=files,
        attempt=3,
        sequence=7,
        job_uid="uid-ä",
        framework="jax",
        world_size=2,
        metrics={"loss": 0.25, "gone": None},
    )
    return found._replace(**changes)  # type: ignore[arg-type]


def test_what_this_package_writes_the_other_reads_and_writes_again_alike() -> None:
    data = example().encode()
    assert theirs.decode(data, expected_id="step-000000000012.abc").encode() == data


def test_what_the_other_writes_this_package_reads_and_writes_again_alike() -> None:
    data = theirs.Manifest(
        id="step-000000000001.x",
        step=1,
        time=1_760_000_000.5,
        files=(theirs.FileEntry("w", 1, SHA, part_size=5, shard=0),),
        mesh={"data": 2},
        position={"index": [1, 2]},
        rng="state",
        parent="step-000000000000.y",
        metrics={"nan": math.nan, "loss": 1},
    ).encode()
    assert ours.decode(data).encode() == theirs.decode(data).encode()


@given(STEP, st.floats(0, 4e9), TEXT, st.dictionaries(TEXT, st.floats() | st.none(), max_size=4))
def test_any_manifest_has_the_same_bytes_in_both(
    step: int, time: float, uid: str, metrics: dict[str, float | None]
) -> None:
    name = names.checkpoint_id(step, "n")
    mine = ours.Manifest(id=name, step=step, time=time, job_uid=uid, metrics=metrics)
    other = theirs.Manifest(
        id=name, step=step, time=time, files=(), job_uid=uid, metrics=metrics,
        producer=ours.PRODUCER,
    )  # fmt: skip
    assert mine.encode() == other.encode()


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_manifest_is_refused(cut: int) -> None:
    with pytest.raises(InvalidManifest, match="torn"):
        ours.decode(example().encode()[:-cut])


def test_an_altered_manifest_is_refused() -> None:
    document = json.loads(example().encode())
    document["step"] = 13
    with pytest.raises(InvalidManifest, match="digest"):
        ours.decode(ours.canonical(document))


@pytest.mark.parametrize(
    "change",
    [
        {"files": [{"path": "../up", "size": 1, "sha256": SHA}]},
        {"files": [{"path": "MANIFEST.json", "size": 1, "sha256": SHA}]},
        {"files": [{"path": "a", "size": -1, "sha256": SHA}]},
        {"files": [{"path": "a", "size": 1, "sha256": "zz"}]},
        {"files": [{"path": "a", "size": 1, "sha256": SHA}] * 2},
        {"files": {"a": 1}},
        {"metrics": {"loss": "low"}},
        {"mesh": []},
        {"step": True},
        {"step": 13},
        {"time": "yesterday"},
        {"schema": "other"},
    ],
)
def test_both_refuse_what_is_not_well_formed(change: dict[str, object]) -> None:
    document = {**example().document(), **change}
    data = ours.seal(document)
    with pytest.raises(InvalidManifest):
        ours.decode(data)


@given(STEP, st.integers(0, 100), TEXT)
def test_names_are_the_same_in_both(step: int, attempt: int, uid: str) -> None:
    nonce = names.shared_nonce(uid, attempt, step)
    assert nonce == paths.shared_nonce(uid, attempt, step)
    assert names.checkpoint_id(step, nonce) == paths.checkpoint_id(step, nonce)
    assert names.claim(attempt) == paths.claim(attempt)
    assert names.shard_record(attempt, 101) == paths.shard_record(attempt, 101)


@given(
    st.text(max_size=12) | st.sampled_from(["SHARD-00000-of-00001.json", "a/../b", "DELETED.json"])
)
def test_both_refuse_the_same_paths(path: str) -> None:
    def allowed(check: object) -> bool:
        try:
            check(path)  # type: ignore[operator]
        except (InvalidPath, paths.InvalidPath):
            return False
        return True

    assert allowed(names.check_data_path) == allowed(paths.check_data_path)

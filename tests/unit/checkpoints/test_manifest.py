"""The manifest's format: round trips, and everything else is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.checkpoints.errors import InvalidManifest
from corral.checkpoints.manifest import FileEntry, Manifest, decode, seal

EXAMPLE = Manifest(
    id="step-000000000012.abc",
    step=12,
    time=1_700_000_000.25,
    files=(FileEntry("a/b", 3, "0" * 64, 16, 1), FileEntry("c", 0, "f" * 64)),
    attempt=2,
    sequence=7,
    job_uid="u-1",
    kind="state",
    framework="jax",
    world_size=4,
    mesh={"data": 2, "model": 2},
    metrics={"loss": 0.5},
    position={"epoch": 3, "offset": 17},
    rng=[1, 2, 3],
    parent="step-000000000011.abc",
)


def test_round_trip() -> None:
    assert decode(EXAMPLE.encode()) == EXAMPLE
    assert EXAMPLE.total_size == 3


@given(
    st.dictionaries(st.text(), st.floats() | st.none()),
    st.floats(0, 4e9),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)
def test_round_trip_of_anything(
    metrics: dict[str, float | None], moment: float, position: Any
) -> None:
    try:
        data = Manifest(
            id="step-1.a", step=1, time=moment, files=(), metrics=metrics, position=position
        ).encode()
    except UnicodeEncodeError:  # lone surrogates are no text
        return
    back = decode(data)
    assert back.encode() == data
    assert back.position == position
    for name, value in metrics.items():
        is_finite = value is not None and math.isfinite(value)
        assert back.metrics[name] == (value if is_finite else None)


@given(st.data())
def test_any_change_is_noticed(data: st.DataObject) -> None:
    original = EXAMPLE.encode()
    place = data.draw(st.integers(0, len(original) - 1))
    changed = bytearray(original)
    changed[place] ^= data.draw(st.integers(1, 255))
    for torn in (bytes(changed), original[:place]):
        with pytest.raises(InvalidManifest):
            decode(torn)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": [{"path": "../x", "size": 1, "sha256": "0" * 64}]}, "relative"),
        ({"files": [{"path": "x", "size": -1, "sha256": "0" * 64}]}, "whole number"),
        ({"files": [{"path": "x", "size": True, "sha256": "0" * 64}]}, "whole number"),
        ({"files": [{"path": "x", "size": 1, "sha256": "zz"}]}, "SHA-256"),
        ({"files": [{"path": "x", "size": 1, "sha256": "0" * 64}] * 2}, "same path"),
        ({"files": [{"path": "MANIFEST.json", "size": 1, "sha256": "0" * 64}]}, "reserved"),
        ({"files": 3}, "well formed"),
        ({"step": 13}, "does not fit"),
        ({"id": "../x"}, "does not fit"),
        ({"id": 1}, "not a string"),
        ({"time": "yesterday"}, "well formed"),
        ({"metrics": {"loss": "low"}}, "not a number"),
        ({"schema": "other/v9"}, "not a manifest"),
    ],
)
def test_sealed_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidManifest, match=message):
        decode(seal({**EXAMPLE.document(), **change}))


def test_other_refusals() -> None:
    with pytest.raises(InvalidManifest, match="lies in"):
        decode(EXAMPLE.encode(), expected_id="step-000000000012.def")
    for data in (b"", b"[]", b"null", b"[" * 100_000, b"\xff"):
        with pytest.raises(InvalidManifest):
            decode(data)
    document = json.loads(EXAMPLE.encode())
    del document["digest"]
    with pytest.raises(InvalidManifest, match="digest"):
        decode(json.dumps(document).encode())

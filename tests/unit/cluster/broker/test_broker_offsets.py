from __future__ import annotations

from pathlib import Path

import pytest

from corral.cluster.broker.consumergroups import offsets as module
from corral.cluster.broker.consumergroups.offsets import Committed, Offsets


def entry(offset: int) -> Committed:
    return Committed(offset, 0, "note", 100.0 + offset)


def test_committed_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    offsets = Offsets(path)
    offsets.commit("g", {("t", 0): entry(1), ("t", 1): entry(2)})
    offsets.commit("g", {("t", 0): entry(5)})
    offsets.commit("h", {("t", 0): entry(7)})
    offsets.remove("g", [("t", 1)])
    again = Offsets(path)
    assert again.of("g") == {("t", 0): entry(5)}
    assert again.of("h") == {("t", 0): entry(7)}
    assert again.last("g") == 105.0
    again.remove_group("h")
    again.remove_topic("t")
    third = Offsets(path)
    assert (third.of("g"), third.of("h")) == ({}, {})


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    offsets = Offsets(path)
    offsets.commit("g", {("t", 0): entry(1)})
    size = path.stat().st_size
    offsets.commit("g", {("t", 0): entry(2)})
    path.write_bytes(path.read_bytes()[:-cut])
    again = Offsets(path)
    assert again.of("g") == {("t", 0): entry(1)}
    assert path.stat().st_size == size
    again.commit("g", {("t", 0): entry(3)})
    assert Offsets(path).of("g") == {("t", 0): entry(3)}


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROWN", 5000)
    path = tmp_path / "journal"
    offsets = Offsets(path)
    for number in range(1000):
        offsets.commit("g", {("t", 0): entry(number)})
    assert path.stat().st_size < 6000
    assert Offsets(path).of("g") == {("t", 0): entry(999)}

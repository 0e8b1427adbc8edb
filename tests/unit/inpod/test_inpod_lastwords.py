"""Last words are left where they are read, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.inpod import lastwords


def test_they_are_left_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "words"
    monkeypatch.setenv("CORRAL_TERMINATION_LOG", str(place))
    lastwords.leave("a longer reason")
    lastwords.leave("a reason")
    assert place.read_text() == "a reason"


def test_outside_a_pod_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "usual"
    monkeypatch.delenv("CORRAL_TERMINATION_LOG", raising=False)
    monkeypatch.setattr(lastwords, "_USUAL", str(place))
    with pytest.raises(FileNotFoundError):
        lastwords.leave("a reason")
    assert not place.exists()
    place.write_text("an older reason")
    lastwords.leave("a reason")
    assert place.read_text() == "a reason"

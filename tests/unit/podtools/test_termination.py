"""Last words are left where they are read, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.podtools import termination


def test_they_are_left_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "words"
    monkeypatch.setenv("CORRAL_TERMINATION_LOG", str(place))
    termination.write_message("a longer reason")
    termination.write_message("a reason")
    assert place.read_text() == "a reason"


def test_outside_a_pod_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "usual"
    monkeypatch.delenv("CORRAL_TERMINATION_LOG", raising=False)
    monkeypatch.setattr(termination, "_USUAL", str(place))
    with pytest.raises(FileNotFoundError):
        termination.write_message("a reason")
    assert not place.exists()
    place.write_text("an older reason")
    termination.write_message("a reason")
    assert place.read_text() == "a reason"

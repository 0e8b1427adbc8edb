"""Objects from files, folders and standard input."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from corral.cli.errors import Trouble
from corral.cli.manifests import read_manifests

ONE = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}"
TWO = "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}"


def names(*files: str, stdin: str = "", recursive: bool = False) -> list[str]:
    found = read_manifests(files, recursive=recursive, stdin=StringIO(stdin))
    return [one.obj["metadata"]["name"] for one in found]


def test_everything_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(f"{ONE}\n---\n---\n{TWO}\n")
    (tmp_path / "a.json").write_text(f'{{"kind": "List", "items": [{TWO}]}}')
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.yml").write_text(ONE)
    assert names(str(tmp_path)) == ["two", "one", "two"]
    assert names(str(tmp_path), recursive=True) == ["two", "one", "two", "one"]
    assert names("-", str(tmp_path / "b.yaml"), stdin=TWO) == ["two", "one", "two"]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", 2, "no object"),
        ("a: [1\nb: 2", 7, "line 2"),
        ("- 1", 7, "apiVersion, kind, metadata"),
        ("kind: X", 7, "no apiVersion"),
        ("apiVersion: v1\nkind: X", 7, "metadata.name"),
        ("apiVersion: v1\nkind: X\nmetadata: []", 7, "metadata.name"),
    ],
)
def test_what_is_refused(text: str, code: int, says: str) -> None:
    with pytest.raises(Trouble) as refused:
        names("-", stdin=text)
    assert refused.value.code == code
    assert says in str(refused.value)


def test_a_file_that_is_not_there_but_another_is(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(ONE)
    with pytest.raises(Trouble) as refused:
        names(str(tmp_path / "jobs.yaml"))
    assert refused.value.code == 3
    assert "job.yaml" in refused.value.hint


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Trouble, match="not a text file"):
        names(str(tmp_path / "x.yaml"))

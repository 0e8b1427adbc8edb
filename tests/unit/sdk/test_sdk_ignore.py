"""Which files of a folder are left out: as git does it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from corral.sdk.programs.archive import SKIPPED
from corral.sdk.programs.ignore import walk

FILES = (
    "train.py", "a/b/k.txt", "a/foo.bin", "a/b/foo.bin", "c/y.log", "c/d/y.log", "data/x/1",
    "data/keep", "we ird/f", "top.log", "build.o", "cuild.o", "duild.o", "#f", "deep/out/one",
    "deep/er/out/two", "out/three", "x/cache/1", "x/cache/keep", "notes.txt", "docs/notes.txt",
    "a.b", "ab", "[z]", "sub/only.here", "sub/more/only.here", "only.here", "!bang", "sp ace ",
)  # fmt: skip
RULES: dict[str, str] = {
    "any name": "*.log\n",
    "at the top": "/notes.txt\n",
    "taken back": "*.log\n!c/y.log\n",
    "a folder": "out/\n",
    "a path": "data/x\n",
    "two stars between": "a/**/foo.bin\n",
    "two stars first": "**/out\n",
    "two stars last": "x/cache/**\n!x/cache/keep\n",
    "classes": "[bc]uild.?\n",
    "not of a class": "[!bc]uild.o\n",
    "escapes": "\\#f\n\\!bang\n",
    "comments and space": "# nothing\n\n  \n*.log   \n",
    "a dot is a dot": "a.b\n",
    "no end of a class": "[z\n",
    "everything but": "*\n!*/\n!*.py\n",
    "a folder cannot be looked into": "data/\n!data/keep\n",
}


def made(root: Path, rules: str) -> Path:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / ".gitignore").write_text(rules)
    (root / "sub" / ".gitignore").write_text("/only.here\n")
    return root


@pytest.mark.parametrize("name", RULES)
def test_as_git_does(tmp_path: Path, name: str) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git on this machine")
    root = made(tmp_path, RULES[name])
    subprocess.run([git, "init", "-q", str(root)], check=True, timeout=60)
    listed = subprocess.run(
        [git, "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    wanted = sorted(word for word in listed.stdout.split("\0") if word)
    assert sorted(map(str, walk(root, [".git"]))) == wanted


def test_without_git(tmp_path: Path) -> None:
    root = made(tmp_path, "*\n!train.py\n")
    assert [str(path) for path in walk(root)] == ["train.py"]


def test_our_own_file_comes_last_and_defaults_come_first(tmp_path: Path) -> None:
    for name in (".venv/x", "a.log", "b.log", "__pycache__/a.pyc", "keep/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".corralignore").write_text("!b.log\n!.env\n/.*ignore\n")
    assert [str(path) for path in walk(tmp_path, SKIPPED)] == ["b.log", "keep/.env"]


def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "back").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to("nowhere")
    assert [str(path) for path in walk(tmp_path)] == ["folder/back", "gone"]

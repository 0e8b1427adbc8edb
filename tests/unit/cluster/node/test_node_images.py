from __future__ import annotations

import sys
from pathlib import Path

import pytest

from corral.cluster.node.container.images import (
    Image,
    ImageMap,
    ImageNotMapped,
    make_named,
    named_python,
)


@pytest.mark.parametrize(
    "name",
    [
        "python", "python:3.12", "python:3.12-slim", "docker.io/library/python:3.11",
        "python@sha256:" + "0" * 64, "docker.io/python:3",
    ],
)  # fmt: skip
def test_python_means_this_python(name: str) -> None:
    image = ImageMap().resolve(name)
    path = image.environment({"PATH": "/usr/bin"}, named="/named")["PATH"]
    assert path == f"{Path(sys.executable).parent}:/usr/bin"
    assert image.cmd == (sys.executable,)
    assert image.entrypoint == ()


@pytest.mark.parametrize("name", ["python-extra:1", "example.com/python:3", "nvcr.io/nvidia/x:1"])
def test_unknown_images_say_what_to_do(name: str) -> None:
    with pytest.raises(ImageNotMapped) as caught:
        ImageMap().resolve(name)
    text = str(caught.value)
    assert f'no entry for "{name}"' in text and "add one to the map" in text and "python:*" in text


def test_own_map() -> None:
    image = Image.from_dict(
        {"pattern": "example.com/*", "path": ["/opt/bin"], "env": {"A": "1"}, "workdir": "/w"}
    )
    assert ImageMap([image]).resolve("example.com/team/x:1") is image
    assert image.environment({}, named="/named") == {"PATH": "/opt/bin:/bin:/usr/bin", "A": "1"}
    with pytest.raises(ImageNotMapped, match=r"\(none\)"):
        ImageMap([]).resolve("x")


@pytest.mark.parametrize(
    ("value", "message"), [({"pattern": "x", "y": 1}, "unknown field 'y'"), ({}, "needs a pattern")]
)
def test_bad_entries(value: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Image.from_dict(value)


def test_an_interpreter_of_another_name(tmp_path: Path) -> None:
    """It is found as ``python`` too: through a link in a folder of our own, not in /tmp."""
    python = tmp_path / "bin" / "python3.99"
    python.parent.mkdir()
    python.symlink_to("/bin/true")
    named = named_python(str(python), str(tmp_path / "named"))
    assert named.startswith(f"{tmp_path}/named/")
    make_named(str(python), tmp_path / "named")
    assert (Path(named) / "python").readlink() == python
    (python.parent / "python").touch()
    assert named_python(str(python), str(tmp_path / "named")) == ""


def test_interpreter_that_is_gone() -> None:
    with pytest.raises(ImageNotMapped, match="cannot be run here"):
        ImageMap([Image(pattern="*", python="/no/python")]).resolve("x")

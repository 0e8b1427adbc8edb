"""What an image means where there are no images: an environment to run ``command`` in.

A small map of patterns, first match wins. An image that no pattern names is refused with words
that say what to do.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from corral.podtools.commands import KAFKA_CLIENT

REASON: Final = "ImageNotMapped"


class ImageNotMapped(Exception):
    """No entry of the map matches, or the one that does cannot be honoured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """How containers of some images run on this machine."""

    pattern: str
    """Shell pattern over the name as written and as registries spell it out."""
    python: str = ""
    """A Python interpreter: its folder comes first in PATH."""
    path: Sequence[str] = ()
    """Folders that come before the machine's PATH."""
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    entrypoint: Sequence[str] = ()
    """What args are words for, when the container gives no command."""
    cmd: Sequence[str] = ()
    """What runs after the entrypoint when the container gives no args either."""

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Image:
        """From one entry of a configuration file. Raises ValueError for words it does not know."""
        known = {"pattern", "python", "path", "env", "workdir", "entrypoint", "cmd"}
        if unknown := value.keys() - known:
            raise ValueError(f"image map: unknown field {sorted(unknown)[0]!r}")
        if not value.get("pattern"):
            raise ValueError("image map: an entry needs a pattern")
        return cls(**value)

    def environment(self, machine: Mapping[str, str], *, named: str) -> dict[str, str]:
        """PATH and variables below those of the container; ``named`` as in `named_python`."""
        python = [str(Path(self.python).parent)] if self.python else []
        python += filter(None, [named_python(self.python, named)])
        folders = [*self.path, *python, machine.get("PATH", os.defpath)]
        return {"PATH": os.pathsep.join(folders), **self.env}


def named_python(python: str, named: str) -> str:
    """A folder below ``named`` for a link ``python``, where the interpreter's own has none.

    Only for an interpreter that is not in a virtual environment: through a link to one of those
    its packages would not be found. Empty where there is no need.
    """
    folder = Path(python).parent
    if not python or (folder / "python").exists() or (folder.parent / "pyvenv.cfg").exists():
        return ""
    return f"{named}/{hashlib.sha256(python.encode()).hexdigest()[:8]}"


def make_named(python: str, named: Path) -> None:
    """Make that link, in a folder of our own. Raises OSError."""
    if folder := named_python(python, str(named)):
        link = Path(folder) / "python"
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if not link.is_symlink():
            link.symlink_to(python)


DEFAULT: Final = (
    Image(pattern="python:*", python=sys.executable, cmd=(sys.executable,)),
    Image(pattern="corral:*", python=sys.executable),
    Image(pattern="corral/courier:*", python=sys.executable),
    Image(pattern="corral/kafkaml-*", python=sys.executable),
    Image(
        pattern="*/federated_model_training_tensorflow:*",
        python=sys.executable,
        entrypoint=(sys.executable, "-m", KAFKA_CLIENT),
    ),
    Image(pattern="busybox:*", cmd=("sh",)),
    Image(pattern="alpine:*", cmd=("sh",)),
    Image(pattern="debian:*", cmd=("bash",)),
    Image(pattern="ubuntu:*", cmd=("bash",)),
)
"""As the images of these names are made: they have a cmd and no entrypoint."""


class ImageMap:
    """The images a node knows."""

    def __init__(self, images: Iterable[Image] = DEFAULT) -> None:
        self._images = tuple(images)

    def __iter__(self) -> Iterator[Image]:
        return iter(self._images)

    def knows(self, name: str) -> bool:
        """Whether there is an entry for an image."""
        spellings = _spellings(name)
        return any(fnmatchcase(text, i.pattern) for i in self._images for text in spellings)

    def resolve(self, name: str) -> Image:
        """The entry for an image. Raises ImageNotMapped."""
        spellings = _spellings(name)
        for image in self._images:
            if any(fnmatchcase(text, image.pattern) for text in spellings):
                if image.python and not os.access(image.python, os.X_OK):
                    raise ImageNotMapped(
                        f'image "{name}" is mapped to {image.python}, which cannot be run here: '
                        "correct the entry in the node's image map"
                    )
                return image
        known = ", ".join(image.pattern for image in self._images) or "none"
        raise ImageNotMapped(
            f'this node runs processes, not images, and its image map has no entry for "{name}": '
            f"add one to the map, or use an image that it knows ({known})"
        )


def _spellings(name: str) -> set[str]:
    """``python`` is also python:latest, docker.io/library/python:latest, and so on."""
    base, _, _ = name.partition("@")
    last = base.rpartition("/")[2]
    tagged = base if ":" in last else f"{base}:latest"
    spellings = {name, base, tagged}
    for prefix in ("docker.io/library/", "docker.io/", "index.docker.io/library/"):
        if tagged.startswith(prefix):
            spellings.add(tagged.removeprefix(prefix))
    return spellings | {f"docker.io/library/{tagged}"} if "/" not in tagged else spellings

"""What containers see of this machine: what programs need to run, and nothing else.

Read-only: the system's programs and libraries, the Python in use with its packages, the Pythons of
the image map, and what the node was told to show. /etc is a copy of the parts that programs need.
Never: our own folders, /root, /home, other pods.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from corral.cluster.node.container.images import Image, named_python

__all__ = ["NAMED", "View", "machine_view"]

NAMED: Final = "/run/corral/bin"
"""Where containers find interpreters under the name ``python`` that are called otherwise."""
_RESOLVER: Final = Path(__file__).resolve().parents[1] / "network" / "podside" / "resolv.conf"
"""For pods that have a network of their own: nobody is there to be asked."""
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys")
_ETC_FILES: Final = (
    "bash.bashrc", "debian_version", "environment", "ethertypes", "gai.conf", "group", "host.conf",
    "inputrc", "ld.so.cache", "ld.so.conf", "locale.alias", "locale.conf", "localtime", "magic",
    "mime.types", "networks", "nsswitch.conf", "os-release", "profile", "protocols",
    "redhat-release", "rpc", "services", "shells", "timezone",
)  # fmt: skip
_ETC_FOLDERS: Final = (
    "OpenCL", "alternatives", "ca-certificates", "crypto-policies", "fonts", "glvnd",
    "ld.so.conf.d", "openmpi", "pki", "profile.d", "ssl", "terminfo", "vulkan",
)  # fmt: skip
_SECRET: Final = ("private", "*.key", "*.p12", "*.pfx", "*.jks")
_MIN_DEPTH: Final = 2
"""A folder directly under / is never shown because a Python lies in it."""
_PACKAGE: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What every container of a node sees."""

    shown: Sequence[str]
    etc: str
    links: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    """Folders of ours that lie in what is shown: they are seen empty."""

    def to_dict(
        self, *, devices: Sequence[str] = (), read_only: bool = False, hide_proc: bool = False
    ) -> dict[str, Any]:
        """As the shim reads it; what it is given here is one container's own."""
        return {
            "shown": list(self.shown),
            "etc": self.etc,
            "links": dict(self.links),
            "hidden": list(self.hidden),
            "devices": list(devices),
            "readOnly": read_only,
            "hideProc": hide_proc,
        }


def machine_view(
    folder: Path, *, images: Iterable[Image] = (), expose: Sequence[Path] = ()
) -> View:
    """Put the view together; files that it needs lie in ``folder``. Raises OSError."""
    known = list(images)
    paths = [Path(name) for name in _SYSTEM if os.path.isdir(name) and not os.path.islink(name)]
    own = (*_python_folders(), *(path for image in known for path in _image_folders(image)))
    paths += [path for path in own if _may_show(path)]
    paths += [path.resolve() for path in expose if path.exists()]
    links = {name: os.readlink(name) for name in _SYSTEM if os.path.islink(name)}
    for image in known:
        if named := named_python(image.python, NAMED):
            links[f"{named}/python"] = image.python
    etc = _make_etc(folder)
    shown = _outermost(paths)
    return View(shown=shown, etc=str(etc), links=links, hidden=list(_ours_in(shown, folder)))


def _outermost(paths: Iterable[Path]) -> list[str]:
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return [str(path) for path in kept]


def _ours_in(shown: Iterable[str], folder: Path) -> Iterator[str]:
    """Of the folders around ``folder`` in a shown one the outermost that is closed to others.

    A Python's folder may hold our data; containers of a node's own user could read it there.
    """
    for path in shown:
        real = Path(path).resolve()
        if folder.resolve().is_relative_to(real):
            parts = folder.resolve().relative_to(real).parts
            for count in range(1, len(parts) + 1):
                if not real.joinpath(*parts[:count]).stat().st_mode & 0o077:
                    yield str(Path(path, *parts[:count]))
                    break


# -- Pythons ---------------------------------------------------------------------------------------


def _python_folders() -> Iterator[Path]:
    """The interpreter that runs us, our own package and what that needs."""
    for name in (sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")):
        yield Path(name)
        yield Path(name).resolve()
    yield _PACKAGE
    for package in ("aiohttp", "orjson", "wasmtime"):
        found = find_spec(package)
        if found is not None and found.origin:
            place = Path(found.origin).resolve().parents[1]
            if place.name in ("site-packages", "dist-packages"):
                yield place


def _image_folders(image: Image) -> Iterator[Path]:
    for name in image.path:
        yield Path(name)
    if not image.python:
        return
    for python in (Path(image.python), Path(image.python).resolve()):
        yield python.parent.parent
    settings = Path(image.python).parent.parent / "pyvenv.cfg"
    if settings.exists():
        for line in settings.read_text().splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home":
                yield Path(value.strip()).parent
                yield Path(value.strip()).resolve().parent


def _may_show(path: Path) -> bool:
    """Whether a folder is a Python's own, and not all of somebody's home or a whole system's."""
    homes = {Path.home(), Path("/home"), Path("/root"), Path("/var"), Path("/etc"), Path("/tmp")}
    return path.is_dir() and path not in homes and len(path.parts) > _MIN_DEPTH


# -- /etc ------------------------------------------------------------------------------------------


def _make_etc(folder: Path) -> Path:
    """A folder with what programs look for in /etc; the same one for the same content.

    Containers of an earlier agent still use theirs, so it is never changed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    new = Path(tempfile.mkdtemp(prefix="etc.", dir=folder))
    new.chmod(0o755)
    for name in _ETC_FILES:
        _copy_file(Path("/etc") / name, new / name)
    for path in (*(Path("/etc") / name for name in _ETC_FOLDERS), *Path("/etc").glob("python*")):
        if path.is_dir():
            shutil.copytree(path, new / path.name, symlinks=True, ignore=_hidden)
    for name, content in (
        ("passwd", _accounts().encode()),
        ("resolv.conf", _RESOLVER.read_bytes()),
        ("hosts", b""),
    ):
        (new / name).write_bytes(content)
        (new / name).chmod(0o644)  # for users of pods, whatever our own umask is
    (new / "mtab").symlink_to("/proc/self/mounts")
    place = folder / f"etc-{_digest(new)}"
    if place.exists():
        shutil.rmtree(new)
    else:
        new.rename(place)
    return place


def _copy_file(source: Path, target: Path) -> None:
    try:
        if source.stat().st_mode & stat.S_IROTH and source.is_file():
            target.write_bytes(source.read_bytes())
            target.chmod(0o644)
    except FileNotFoundError:
        return


def _hidden(folder: str, names: list[str]) -> set[str]:
    """What only some users of the machine may read, and what looks like a key."""
    found = set(shutil.ignore_patterns(*_SECRET)(folder, names))
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if not stat.S_ISLNK(mode) and not mode & stat.S_IROTH:
            found.add(name)
    return found


def _accounts() -> str:
    """Users of the system, nobody, and whoever this agent runs as."""
    kept = [
        entry
        for entry in pwd.getpwall()
        if entry.pw_uid < 1000 or entry.pw_uid in (65534, os.geteuid())
    ]
    return "".join(
        f"{e.pw_name}:x:{e.pw_uid}:{e.pw_gid}:{e.pw_gecos}:{e.pw_dir}:{e.pw_shell}\n" for e in kept
    )


def _digest(folder: Path) -> str:
    """Of names and contents."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_symlink():
            found.update(os.readlink(path).encode())
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()[:16]

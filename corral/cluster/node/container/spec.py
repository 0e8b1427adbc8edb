"""What a container is to run, and in which surroundings; as the shim reads it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["MOUNTS", "ContainerSpec", "Mount", "rewrite"]

MOUNTS: Final = "CORRAL_MOUNTS"
"""A variable, JSON: mount path → path on the machine; where containers have no mounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the machine as the container sees it."""

    source: str
    target: str
    read_only: bool = False
    within: str = ""
    """The volume that the way to ``source`` must not leave, where containers can change it."""
    root: str = ""
    """The folder from which the way to ``within``, or else to ``source``, has no link."""

    def to_dict(self) -> dict[str, Any]:
        ways = {"within": self.within, "root": self.root}
        return {
            "source": self.source,
            "target": self.target,
            "readOnly": self.read_only,
            **{name: way for name, way in ways.items() if way},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What to run, and in which surroundings."""

    id: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    log: str = ""
    """The log file; its folder is made. None is kept when empty."""
    max_log_bytes: int = 0
    max_log_files: int = 0
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] = ()
    join: Mapping[str, str] = field(default_factory=dict)
    """Namespaces to enter: kind (net, uts, mount, user) → path."""
    unshare: Sequence[str] = ()
    """Kinds of namespaces to make: mount, uts, ipc, pid, user."""
    shares: Collection[str] = ()
    """What it has in common with the machine where others have their own: ipc, pid, user."""
    users: str = ""
    """Whose range of user ids it has, one for each pod; empty: it has the machine's ids."""
    view: Mapping[str, Any] = field(default_factory=dict)
    """What it sees of the machine (`view.View`); empty: everything, and no namespaces."""
    privileges: Mapping[str, Any] = field(default_factory=dict)
    """What its processes may do (`security.privileges_of`)."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    hostname: str = ""
    mounts: Sequence[Mount] = ()
    cgroups: Sequence[str] = ()
    """Folders of existing control groups."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Kept with the container, for those who adopt it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            "log": self.log,
            "rotation": {"max_bytes": self.max_log_bytes, "max_files": self.max_log_files},
            "stdin": self.stdin,
            "stdinOnce": self.stdin_once,
            "tty": self.tty,
            "uid": self.uid,
            "gid": self.gid,
            "groups": list(self.groups),
            "join": dict(self.join),
            "unshare": list(self.unshare),
            "users": self.users,
            "view": dict(self.view),
            "privileges": dict(self.privileges),
            "sysctls": dict(self.sysctls),
            "hostname": self.hostname,
            "mounts": [mount.to_dict() for mount in self.mounts],
            "cgroups": list(self.cgroups),
            "labels": dict(self.labels),
        }


def rewrite(text: str, places: Mapping[str, str]) -> str:
    """A path at or below a mount path, as it is on the machine; also after ``=`` and ``:``."""
    names = sorted((target.rstrip("/") for target in places), key=len, reverse=True)
    words = "|".join(re.escape(name) for name in names if name)
    if "/" not in text or not words:
        return text
    by_name = {target.rstrip("/"): source for target, source in places.items()}
    # in one pass: what a path is replaced by must not be replaced again
    return re.sub(
        f"(?:(?<=[:=,])|^)({words})(?=$|[/:,])", lambda match: by_name[match.group(1)], text
    )

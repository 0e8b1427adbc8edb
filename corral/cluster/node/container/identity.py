"""As whom a container's processes run. Pure but for the machine's user database."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from corral.cluster.node.pod.events import pod_words
from corral.cluster.node.volumes.sources import ConfigError
from corral.kube.types import Obj

__all__ = ["Identity", "groups_of_others", "identity_of", "not_honoured"]


@dataclass(frozen=True, slots=True)
class Identity:
    """User, group and further groups; None where the agent's own stay."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    home: str = "/"


def identity_of(pod: Obj, container: Obj, *, own_uid: int, may_change: bool) -> Identity:
    """By the security contexts of container and pod. Raises ConfigError for runAsNonRoot.

    ``may_change``: whether processes can be given another user than ``own_uid`` at all.
    """
    of_pod = pod["spec"].get("securityContext") or {}
    context = {**of_pod, **(container.get("securityContext") or {})}
    uid, gid = context.get("runAsUser"), context.get("runAsGroup")
    effective = uid if uid is not None and may_change else own_uid
    if context.get("runAsNonRoot") and effective == 0:
        raise ConfigError(
            "container has runAsNonRoot and image will run as root "
            f'(pod: "{pod_words(pod)}", container: {container["name"]})'
        )
    if not may_change:
        return Identity(home=_home(own_uid))
    groups = tuple(dict.fromkeys(_groups(of_pod)))
    if uid is None and gid is None and not groups:
        return Identity(home=_home(own_uid))
    uid = own_uid if uid is None else int(uid)
    if gid is None:
        gid = _group_of(uid)
    return Identity(uid, int(gid), groups, _home(uid))


def not_honoured(pod: Obj, *, may_change: bool, own_uid: int, has_groups: bool = True) -> list[str]:
    """What this node cannot do for the pod, in words; it runs without.

    ``has_groups``: whether processes can be given further groups at all.
    """
    spec, found = pod["spec"], []
    if spec.get("shareProcessNamespace"):
        found.append("shareProcessNamespace (processes of this node share one process table)")
    users = {
        (holder.get("securityContext") or {}).get("runAsUser")
        for holder in (spec, *spec["containers"], *(spec.get("initContainers") or ()))
    }
    if not may_change and users - {None, own_uid}:
        found.append("runAsUser (the agent is not root, so processes run as its own user)")
    if not has_groups and (spec.get("securityContext") or {}).get("supplementalGroups"):
        found.append("supplementalGroups (only root may give processes further groups)")
    return found


def groups_of_others(pod: Obj, *, own_uid: int) -> set[int]:
    """The groups of those of the pod's processes that do not run as ``own_uid``."""
    found: set[int] = set()
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        with suppress(ConfigError):  # that one is not started
            who = identity_of(pod, container, own_uid=own_uid, may_change=True)
            if who.gid is not None and who.uid != own_uid:
                found.add(who.gid)
    return found


def _groups(context: Obj) -> Iterator[int]:
    if context.get("fsGroup") is not None:
        yield int(context["fsGroup"])
    yield from (int(group) for group in context.get("supplementalGroups") or ())


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0


def _home(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"

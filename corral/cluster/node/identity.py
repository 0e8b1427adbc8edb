"""As whom a container's processes run. Pure but for the machine's user database."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from dataclasses import dataclass

from corral.cluster.node.podevents import pod_words
from corral.cluster.node.sources import ConfigError
from corral.kube.types import Obj

__all__ = ["Identity", "identity_of"]


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


def not_honoured(pod: Obj, *, may_change: bool, own_uid: int) -> list[str]:
    """What this node cannot do for the pod, in words; it runs without."""
    spec, found = pod["spec"], []
    if spec.get("shareProcessNamespace"):
        found.append("shareProcessNamespace (processes of this node share one process table)")
    users = {
        (holder.get("securityContext") or {}).get("runAsUser")
        for holder in (spec, *spec["containers"], *(spec.get("initContainers") or ()))
    }
    if not may_change and users - {None, own_uid}:
        found.append("runAsUser (the agent is not root, so processes run as its own user)")
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

"""Which names a pod's hosts file has: a list of them is a list of other people's services.

There are those of its own namespace, the API server's, those of the cluster's own parts, and of
other namespaces those that the pod itself names: in the commands, arguments and variables of its
containers, in the domains that it searches, or in the annotation ``corral.dev/resolve``. Whoever
knows a name may ask for it, as anywhere in Kubernetes; nobody is told which names there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from corral.cluster.node.network.services.directory import API_SERVICE, Record
from corral.kube.types import Obj

__all__ = ["ANNOTATION", "is_visible", "named_by"]

ANNOTATION: Final = "corral.dev/resolve"
"""Of a pod: names of services of other namespaces that it asks for, with commas between them."""
SYSTEM: Final = ("corral-system", "kube-system")
"""Namespaces of the cluster's own parts."""
MOST: Final = 256
"""Names of one pod."""
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"(?<![-.\w]){_LABEL}(?:\.{_LABEL})+(?![-\w])")


def named_by(pod: Obj, domain: str) -> list[str]:
    """The names that a pod has in its own words, each as ``service.namespace``."""
    found: dict[str, None] = {}
    for text in _words(pod):
        for name in _NAME.findall(text):
            short = name.removesuffix(f".svc.{domain}").removesuffix(".svc")
            if "." in short:
                found[short] = None
    return sorted(found)[:MOST]


def _words(pod: Obj) -> Iterator[str]:
    spec = pod["spec"]
    yield str((pod["metadata"].get("annotations") or {}).get(ANNOTATION) or "")
    yield from map(str, (spec.get("dnsConfig") or {}).get("searches") or ())
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            yield from map(str, container.get("command") or ())
            yield from map(str, container.get("args") or ())
            yield from (str(each.get("value") or "") for each in container.get("env") or ())


def is_visible(record: Record, *, namespace: str, named: Collection[str]) -> bool:
    """Whether pods of a namespace that name these find a record in their hosts files.

    Who names a service also finds the hosts that have names below it. It is asked of every record,
    for every pod: ``named`` should be a set.
    """
    if record.namespace == namespace or record.namespace in SYSTEM:
        return True
    if f"{record.namespace}/{record.name}" == API_SERVICE:
        return True
    name = f"{record.name}.{record.namespace}"
    while name and name not in named:
        name = name.partition(".")[2]
    return bool(name)

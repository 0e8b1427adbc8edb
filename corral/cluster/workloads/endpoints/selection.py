"""Which pods a service selects and which services a pod belongs to, by index instead of by search.

Both directions go through single labels: a pod is found under each of its labels, a service under
one of its selector's. What an index finds is compared with the whole selector, so that one pod's
change costs its own services and one service's change its own pods, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from corral.cluster.workloads.pods import is_ready, is_terminal
from corral.kube.types import Obj
from corral.runtime import Change, Informer, Store, key_of

__all__ = ["LabelledPods", "Selection", "endpoints_changed"]

_PODS_BY_LABEL: Final = "endpoints/label"
_SERVICES_BY_LABEL: Final = "endpoints/selector"


def _under(namespace: str, label: tuple[str, str]) -> str:
    return f"{namespace}/{label[0]}={label[1]}"


def _pod_labels(pod: Obj) -> list[str]:
    meta = pod["metadata"]
    namespace = meta.get("namespace", "")
    return [_under(namespace, label) for label in (meta.get("labels") or {}).items()]


def _selector(service: Obj) -> dict[str, str]:
    spec = service["spec"]
    found: dict[str, str] = {} if spec.get("type") == "ExternalName" else spec.get("selector") or {}
    return found


def _first_label(service: Obj) -> tuple[str, ...]:
    selector = _selector(service)
    if not selector:
        return ()
    return (_under(service["metadata"].get("namespace", ""), min(selector.items())),)


class LabelledPods:
    """The pods of an informer, by their labels."""

    def __init__(self, pods: Informer) -> None:
        pods.add_index(_PODS_BY_LABEL, _pod_labels)
        self._store: Store = pods.store

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> list[Obj]:
        """The pods of the rarest label: a superset of those with all; none without labels."""
        keys: list[str] | None = None
        for label in labels.items():
            found = self._store.keys_by_index(_PODS_BY_LABEL, _under(namespace, label))
            if keys is None or len(found) < len(keys):
                keys = found
        pods = (self._store.get(key) for key in keys or ())
        return [pod for pod in pods if pod is not None]


class Selection:
    """The services and pods of two informers, related by selectors."""

    def __init__(self, services: Informer, pods: Informer) -> None:
        services.add_index(_SERVICES_BY_LABEL, _first_label)
        self._services: Store = services.store
        self._pods = LabelledPods(pods)

    def candidates(self, service: Obj) -> list[Obj]:
        """A superset of the pods of a service."""
        namespace = service["metadata"].get("namespace", "")
        return self._pods.candidates(namespace, _selector(service))

    def services_of(self, pod: Obj) -> Iterable[str]:
        """The keys of the services that select a pod."""
        labels = (pod["metadata"].get("labels") or {}).items()
        for value in _pod_labels(pod):
            for service in self._services.by_index(_SERVICES_BY_LABEL, value):
                if _selector(service).items() <= labels:
                    yield key_of(service)

    def affected_by(self, change: Change) -> set[str]:
        """The keys of the services whose endpoints a change of a pod may touch."""
        states = [state for state in (change.old, change.new) if state is not None]
        if len(states) == 2 and not endpoints_changed(states[0], states[1]):
            return set()
        return {key for state in states for key in self.services_of(state)}


def endpoints_changed(old: Obj, new: Obj) -> bool:
    """Whether the two states of a pod may make different endpoints."""
    before, after = old["metadata"], new["metadata"]
    if before.get("labels") != after.get("labels"):
        return True
    if before.get("deletionTimestamp") != after.get("deletionTimestamp"):
        return True
    old_spec, new_spec = old.get("spec") or {}, new.get("spec") or {}
    if any(old_spec.get(name) != new_spec.get(name) for name in _SPEC):
        return True
    old_status, new_status = old.get("status") or {}, new.get("status") or {}
    if any(old_status.get(name) != new_status.get(name) for name in ("podIP", "podIPs")):
        return True
    return is_ready(old) != is_ready(new) or is_terminal(old) != is_terminal(new)


_SPEC: Final = ("nodeName", "hostname", "subdomain")

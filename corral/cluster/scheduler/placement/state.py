"""The cluster as the scheduler believes it to be.

Fed with objects as they come from watches, and with assumptions: a pod that was just given a node
counts there before the binding is seen. All changes are incremental; no change is made twice, so
feeding the same version of an object again is harmless. Not thread-safe and without I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from corral.cluster.scheduler.placement.affinity import selector_of
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo, is_terminal, pod_key
from corral.cluster.scheduler.placement.storage import Storage
from corral.kube.selectors import Requirement, Selector
from corral.kube.types import Obj

__all__ = ["ClusterState"]

_OWNERS = frozenset(
    {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}
)


class ClusterState:
    """Nodes, the pods on them, nominations, namespaces and the selectors of workloads.

    Invariants: a pod counts on at most one node; ``nodes`` holds existing nodes only, while pods
    of a node that is unknown (yet, or any more) are remembered until it comes or they go.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """The labels of each namespace."""
        self.storage = Storage()
        self.affinity_pods: dict[str, tuple[PodInfo, NodeInfo]] = {}
        """Placed pods that say anything about other pods."""
        self.anti_affinity_pods: dict[str, tuple[PodInfo, NodeInfo]] = {}
        """Placed pods with required anti-affinity."""
        self.next_start = 0
        """Where the search for nodes begins, so that in large clusters all get their turn."""
        self._absent: dict[str, NodeInfo] = {}
        self._where: dict[str, NodeInfo] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, dict[str, PodInfo]] = {}
        self._nominations: dict[str, str] = {}
        self._parsed: dict[str, PodInfo] = {}
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._owners: dict[tuple[str, str, str], Selector] = {}

    # Nodes

    def set_node(self, node: Obj) -> None:
        """Add a node, or take over its new version."""
        name = node["metadata"]["name"]
        info = self.nodes.get(name)
        if info is None:
            info = self._absent.pop(name, None) or NodeInfo(name)
            self.nodes[name] = info
            info.set(node)
            for pod in info.pods.values():
                self._index(pod, info)
        elif info.obj is not node:
            info.update(node)

    def remove_node(self, name: str) -> None:
        """Forget a node; pods that are still bound to it are kept for its return."""
        info = self.nodes.pop(name, None)
        if info is None:
            return
        info.set(None)
        for key in info.pods:
            self._unindex(key)
        if info.pods:
            self._absent[name] = info

    # Pods

    def info(self, pod: Obj | PodInfo) -> PodInfo:
        """The parsed pod, parsed only once for every version of the object."""
        if isinstance(pod, PodInfo):
            return pod
        key = pod_key(pod)
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = PodInfo.parse(pod)
        elif found.pod is not pod:
            found = self._parsed[key] = found.updated(pod)
        return found

    def known(self, pod: Obj | PodInfo | str) -> PodInfo | None:
        """The latest version of a pod that was seen here, by itself or by its key."""
        if isinstance(pod, str):
            return self._parsed.get(pod)
        return self._parsed.get(pod.key if isinstance(pod, PodInfo) else pod_key(pod))

    def set_pod(self, pod: Obj) -> None:
        """Add a pod, or take over its new version.

        Pods that have ended hold nothing. An assumption stays until a version with a node comes,
        the pod goes, or ``forget`` takes it back.
        """
        if is_terminal(pod):
            self.remove_pod(pod)
            return
        before = self._parsed.get(pod_key(pod))
        info = self.info(pod)
        if info.node_name:
            self._assumed.discard(info.key)
            self._denominate(info.key)
            self._put(info, info.node_name)
        elif info.key not in self._assumed:
            self._take(info.key)
            # A nomination made here stays until its own write to the pod has been seen.
            fresh = info.nominated or (before is not None and before.nominated)
            self.nominate(info, info.nominated if fresh else self.nomination(info))

    def remove_pod(self, pod: Obj | PodInfo) -> None:
        """Forget a pod altogether."""
        key = pod.key if isinstance(pod, PodInfo) else pod_key(pod)
        self._assumed.discard(key)
        self._denominate(key)
        self._take(key)
        self._parsed.pop(key, None)

    def assume(self, pod: Obj | PodInfo, node: str) -> None:
        """Count a pod on a node before its binding is seen."""
        info = self.info(pod)
        self._denominate(info.key)
        self._assumed.add(info.key)
        self._put(info, node)

    def forget(self, pod: Obj | PodInfo) -> None:
        """Take an assumption back, say because the binding failed; anything else stays."""
        key = pod.key if isinstance(pod, PodInfo) else pod_key(pod)
        if key in self._assumed:
            self._assumed.discard(key)
            self._take(key)

    def is_assumed(self, pod: Obj | PodInfo) -> bool:
        return (pod.key if isinstance(pod, PodInfo) else pod_key(pod)) in self._assumed

    def node_of(self, pod: Obj | PodInfo) -> str:
        """Where the pod counts, bound or assumed; empty if nowhere."""
        found = self._where.get(pod.key if isinstance(pod, PodInfo) else pod_key(pod))
        return found.name if found else ""

    # Nominations: nodes on which room is being made for a pod

    def nominate(self, pod: Obj | PodInfo, node: str) -> None:
        """Reserve room for a pod against those of lower priority; no node: end it."""
        info = self.info(pod)
        self._denominate(info.key)
        if node:
            self._nominated.setdefault(node, {})[info.key] = info
            self._nominations[info.key] = node

    @property
    def has_nominations(self) -> bool:
        return bool(self._nominations)

    def nominated_on(self, node: str) -> Mapping[str, PodInfo]:
        """The pods nominated to run on a node."""
        return self._nominated.get(node) or {}

    def nomination(self, pod: PodInfo) -> str:
        """The node that the pod is nominated to run on, if any."""
        return self._nominations.get(pod.key, "")

    # What affinity and default spreading look up

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        self.namespaces[name] = labels or {}

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    def set_service(self, service: Obj) -> None:
        """Add a Service, or take over its new version."""
        meta = service["metadata"]
        selector = (service.get("spec") or {}).get("selector") or {}
        self._services.setdefault(meta.get("namespace", ""), {})[meta["name"]] = selector

    def remove_service(self, namespace: str, name: str) -> None:
        self._services.get(namespace, {}).pop(name, None)

    def set_owner(self, owner: Obj) -> None:
        """Add a ReplicaSet, StatefulSet or ReplicationController, or take over a new version."""
        meta, wanted = owner["metadata"], (owner.get("spec") or {}).get("selector")
        if owner.get("kind") == "ReplicationController":
            wanted = {"matchLabels": wanted or {}}
        key = (owner.get("kind", ""), meta.get("namespace", ""), meta["name"])
        self._owners[key] = selector_of(wanted)

    def remove_owner(self, kind: str, namespace: str, name: str) -> None:
        self._owners.pop((kind, namespace, name), None)

    def workload_selector(self, pod: PodInfo) -> Selector:
        """What selects the pod's siblings: its services' selectors and its controller's."""
        merged: dict[str, str] = {}
        for wanted in self._services.get(pod.namespace, {}).values():
            if wanted and all(pod.labels.get(k) == v for k, v in wanted.items()):
                merged.update(wanted)
        found = [Requirement(key, "=", (value,)) for key, value in sorted(merged.items())]
        for ref in (pod.pod.get("metadata") or {}).get("ownerReferences") or ():
            if ref.get("controller") and (ref.get("apiVersion"), ref.get("kind")) in _OWNERS:
                key = (ref["kind"], pod.namespace, ref.get("name", ""))
                found.extend(self._owners.get(key, Selector()).requirements)
        return Selector(tuple(found))

    # Bookkeeping

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo, at the end, every assumption that was made inside for pods that had no node."""
        before = set(self._assumed)
        nominations = {k: (n, self._nominated[n][k]) for k, n in self._nominations.items()}
        start = self.next_start
        try:
            yield
        finally:
            self.next_start = start
            for key in self._assumed - before:
                self._assumed.discard(key)
                self._take(key)
            for key, (node, info) in nominations.items():
                if key not in self._nominations:
                    self.nominate(info, node)

    def _put(self, pod: PodInfo, name: str) -> None:
        node = self.nodes.get(name) or self._absent.get(name)
        if node is None:
            node = self._absent[name] = NodeInfo(name)
        if self._where.get(pod.key) is node:
            known = node.pods[pod.key]
            if known is pod:
                return
            if known.counts_as(pod):
                node.pods[pod.key] = pod
                if name in self.nodes:
                    self._index(pod, node)
                return
        # A node that only this pod kept in mind must not be dropped between the two steps.
        self._take(pod.key, keep=node)
        node.add(pod)
        self._where[pod.key] = node
        if name in self.nodes:
            self._index(pod, node)

    def _take(self, key: str, keep: NodeInfo | None = None) -> None:
        node = self._where.pop(key, None)
        if node is None:
            return
        pod = node.pods[key]
        node.remove(pod)
        self._unindex(key)
        for use in pod.claims:
            claim = f"{pod.namespace}/{use.name}"
            if users := self.storage.users.get(claim):
                users.discard(key)
                if not users:
                    del self.storage.users[claim]
        if not node.pods and node is not keep:
            self._absent.pop(node.name, None)

    @contextmanager
    def without(self, pods: Iterable[PodInfo]) -> Iterator[None]:
        """See the cluster as if these placed pods were gone; at the end they are back."""
        places = [(pod, node) for pod in pods if (node := self._where.get(pod.key)) is not None]
        assumed = {pod.key for pod, _ in places} & self._assumed
        for pod, node in places:
            self._take(pod.key, keep=node)
        try:
            yield
        finally:
            for pod, node in places:
                if pod.key not in self._where:
                    self._put(pod, node.name)
            self._assumed |= assumed

    def _index(self, pod: PodInfo, node: NodeInfo) -> None:
        if pod.claims:
            for use in pod.claims:
                key = f"{pod.namespace}/{use.name}"
                self.storage.users.setdefault(key, set()).add(pod.key)
        if pod.has_affinity:
            self.affinity_pods[pod.key] = (pod, node)
            if pod.anti_affinity:
                self.anti_affinity_pods[pod.key] = (pod, node)

    def _unindex(self, key: str) -> None:
        self.affinity_pods.pop(key, None)
        self.anti_affinity_pods.pop(key, None)

    def _denominate(self, key: str) -> None:
        node = self._nominations.pop(key, None)
        if node is not None:
            del self._nominated[node][key]
            if not self._nominated[node]:
                del self._nominated[node]

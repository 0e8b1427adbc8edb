"""Which collection of the API a request is about.

A `Resource` is all the client needs to build a path. Built-in ones are constants here; others come
from `resource()` or from discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from corral.kube.types import Obj

__all__ = ["BUILTIN", "Resource", "resource", "split_api_version"]


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind: group, version, plural name, scope, kind."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``plural.group``, as in messages and RBAC (``plural`` alone for the core group)."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, *, name: str | None = None, subresource: str = ""
    ) -> str:
        """The request path of the collection, of one object, or of a subresource.

        ``namespace`` is ignored for cluster-scoped kinds, so that generic code need not ask.
        Without it the path of a namespaced kind covers all namespaces.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name is not None:
            if not name:
                raise ValueError(f"an empty name was given for {self.qualified}")
            path += f"/{quote(name, safe=':')}"
        return f"{path}/{subresource}" if subresource else path

    def stamp(self, obj: Obj) -> Obj:
        """The object with ``apiVersion`` and ``kind`` in it; a copy only where they are missing."""
        if "apiVersion" in obj and "kind" in obj:
            return obj
        return {"apiVersion": self.api_version, "kind": self.kind, **obj}


def split_api_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` → (``apps``, ``v1``); ``v1`` → (``""``, ``v1``)."""
    group, _, version = api_version.rpartition("/")
    return group, version


def resource(api_version: str, plural: str, *, kind: str = "", namespaced: bool = True) -> Resource:
    """A resource by ``apiVersion`` and plural name; built-in ones need nothing else.

    Raises:
        ValueError: the resource is not built in and no ``kind`` was given.
    """
    known = BUILTIN.get((api_version, plural))
    if known is not None:
        return known
    if not kind:
        raise ValueError(
            f"{plural} of {api_version} is not built in: give its kind, or discover it"
        )
    group, version = split_api_version(api_version)
    return Resource(group, version, plural, namespaced=namespaced, kind=kind)


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, namespaced, kind)


PODS = _core("pods", "Pod")
SERVICES = _core("services", "Service")
CONFIGMAPS = _core("configmaps", "ConfigMap")
SECRETS = _core("secrets", "Secret")
SERVICEACCOUNTS = _core("serviceaccounts", "ServiceAccount")
ENDPOINTS = _core("endpoints", "Endpoints")
EVENTS = _core("events", "Event")
PERSISTENTVOLUMECLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
REPLICATIONCONTROLLERS = _core("replicationcontrollers", "ReplicationController")
RESOURCEQUOTAS = _core("resourcequotas", "ResourceQuota")
LIMITRANGES = _core("limitranges", "LimitRange")
PODTEMPLATES = _core("podtemplates", "PodTemplate")
NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
NODES = _core("nodes", "Node", namespaced=False)
PERSISTENTVOLUMES = _core("persistentvolumes", "PersistentVolume", namespaced=False)

DEPLOYMENTS = Resource("apps", "v1", "deployments", True, "Deployment")
REPLICASETS = Resource("apps", "v1", "replicasets", True, "ReplicaSet")
STATEFULSETS = Resource("apps", "v1", "statefulsets", True, "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", True, "DaemonSet")
CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", True, "ControllerRevision")
JOBS = Resource("batch", "v1", "jobs", True, "Job")
CRONJOBS = Resource("batch", "v1", "cronjobs", True, "CronJob")
LEASES = Resource("coordination.k8s.io", "v1", "leases", True, "Lease")
ENDPOINTSLICES = Resource("discovery.k8s.io", "v1", "endpointslices", True, "EndpointSlice")
EVENTS_V1 = Resource("events.k8s.io", "v1", "events", True, "Event")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", True, "Ingress")
NETWORKPOLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", True, "NetworkPolicy")
PODDISRUPTIONBUDGETS = Resource("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
HORIZONTALPODAUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", True, "HorizontalPodAutoscaler"
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", True, "Role")
ROLEBINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
CLUSTERROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
CLUSTERROLEBINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding"
)
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", False, "StorageClass")
CUSTOMRESOURCEDEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition"
)
MUTATINGWEBHOOKCONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    False,
    "MutatingWebhookConfiguration",
)
VALIDATINGWEBHOOKCONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    False,
    "ValidatingWebhookConfiguration",
)
TOKENREVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", False, "TokenReview")
SELFSUBJECTREVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", False, "SelfSubjectReview"
)
SUBJECTACCESSREVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", False, "SubjectAccessReview"
)
SELFSUBJECTACCESSREVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", False, "SelfSubjectAccessReview"
)

BUILTIN: dict[tuple[str, str], Resource] = {
    (r.api_version, r.plural): r for r in list(globals().values()) if isinstance(r, Resource)
}
"""The constants of this module by (apiVersion, plural)."""

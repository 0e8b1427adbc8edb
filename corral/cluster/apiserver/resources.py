"""Which resources the server knows: the built-in ones and those that CRDs add.

``BUILTIN`` is a table of facts, one line a resource: plural, singular, kind, scope, short names,
categories, verbs (``*`` = all eight), then the subresources as ``name:kind:verbs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

BUILTIN = """
## / v1
bindings binding Binding Namespaced - - create
componentstatuses componentstatus ComponentStatus Cluster cs - get,list
configmaps configmap ConfigMap Namespaced cm - *
endpoints endpoints Endpoints Namespaced ep - *
events event Event Namespaced ev - *
limitranges limitrange LimitRange Namespaced limits - *
namespaces namespace Namespace Cluster ns - create,delete,get,list,patch,update,watch finalize:Namespace:update status:Namespace:get,patch,update
nodes node Node Cluster no - * proxy:NodeProxyOptions:create,delete,get,patch,update status:Node:get,patch,update
persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim Namespaced pvc - * status:PersistentVolumeClaim:get,patch,update
persistentvolumes persistentvolume PersistentVolume Cluster pv - * status:PersistentVolume:get,patch,update
pods pod Pod Namespaced po all * attach:PodAttachOptions:create,get binding:Binding:create ephemeralcontainers:Pod:get,patch,update eviction:policy/v1/Eviction:create exec:PodExecOptions:create,get log:Pod:get portforward:PodPortForwardOptions:create,get proxy:PodProxyOptions:create,delete,get,patch,update resize:Pod:get,patch,update status:Pod:get,patch,update
podtemplates podtemplate PodTemplate Namespaced - - *
replicationcontrollers replicationcontroller ReplicationController Namespaced rc all * scale:autoscaling/v1/Scale:get,patch,update status:ReplicationController:get,patch,update
resourcequotas resourcequota ResourceQuota Namespaced quota - * status:ResourceQuota:get,patch,update
secrets secret Secret Namespaced - - *
serviceaccounts serviceaccount ServiceAccount Namespaced sa - * token:authentication.k8s.io/v1/TokenRequest:create
services service Service Namespaced svc all * proxy:ServiceProxyOptions:create,delete,get,patch,update status:Service:get,patch,update
## apiregistration.k8s.io v1
apiservices apiservice APIService Cluster - api-extensions * status:APIService:get,patch,update
## apps v1
controllerrevisions controllerrevision ControllerRevision Namespaced - - *
daemonsets daemonset DaemonSet Namespaced ds all * status:DaemonSet:get,patch,update
deployments deployment Deployment Namespaced deploy all * scale:autoscaling/v1/Scale:get,patch,update status:Deployment:get,patch,update
replicasets replicaset ReplicaSet Namespaced rs all * scale:autoscaling/v1/Scale:get,patch,update status:ReplicaSet:get,patch,update
statefulsets statefulset StatefulSet Namespaced sts all * scale:autoscaling/v1/Scale:get,patch,update status:StatefulSet:get,patch,update
## events.k8s.io v1
events event Event Namespaced ev - *
## authentication.k8s.io v1
selfsubjectreviews selfsubjectreview SelfSubjectReview Cluster - - create
tokenreviews tokenreview TokenReview Cluster - - create
## authorization.k8s.io v1
localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview Namespaced - - create
selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview Cluster - - create
selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview Cluster - - create
subjectaccessreviews subjectaccessreview SubjectAccessReview Cluster - - create
## autoscaling v2
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler Namespaced hpa all * status:HorizontalPodAutoscaler:get,patch,update
## autoscaling v1
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler Namespaced hpa all * status:HorizontalPodAutoscaler:get,patch,update
## batch v1
cronjobs cronjob CronJob Namespaced cj all * status:CronJob:get,patch,update
jobs job Job Namespaced - all * status:Job:get,patch,update
## certificates.k8s.io v1
certificatesigningrequests certificatesigningrequest CertificateSigningRequest Cluster csr - * approval:CertificateSigningRequest:get,patch,update status:CertificateSigningRequest:get,patch,update
clustertrustbundles clustertrustbundle ClusterTrustBundle Cluster - - *
podcertificaterequests podcertificaterequest PodCertificateRequest Namespaced - - * status:PodCertificateRequest:get,patch,update
## networking.k8s.io v1
ingressclasses ingressclass IngressClass Cluster - - *
ingresses ingress Ingress Namespaced ing - * status:Ingress:get,patch,update
ipaddresses ipaddress IPAddress Cluster ip - *
networkpolicies networkpolicy NetworkPolicy Namespaced netpol - *
servicecidrs servicecidr ServiceCIDR Cluster - - * status:ServiceCIDR:get,patch,update
## policy v1
poddisruptionbudgets poddisruptionbudget PodDisruptionBudget Namespaced pdb - * status:PodDisruptionBudget:get,patch,update
## rbac.authorization.k8s.io v1
clusterrolebindings clusterrolebinding ClusterRoleBinding Cluster - - *
clusterroles clusterrole ClusterRole Cluster - - *
rolebindings rolebinding RoleBinding Namespaced - - *
roles role Role Namespaced - - *
## storage.k8s.io v1
csidrivers csidriver CSIDriver Cluster - - *
csinodes csinode CSINode Cluster - - *
csistoragecapacities csistoragecapacity CSIStorageCapacity Namespaced - - *
storageclasses storageclass StorageClass Cluster sc - *
volumeattachments volumeattachment VolumeAttachment Cluster - - * status:VolumeAttachment:get,patch,update
volumeattributesclasses volumeattributesclass VolumeAttributesClass Cluster vac - *
## admissionregistration.k8s.io v1
mutatingadmissionpolicies mutatingadmissionpolicy MutatingAdmissionPolicy Cluster - api-extensions *
mutatingadmissionpolicybindings mutatingadmissionpolicybinding MutatingAdmissionPolicyBinding Cluster - api-extensions *
mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration Cluster - api-extensions *
validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy Cluster - api-extensions * status:ValidatingAdmissionPolicy:get,patch,update
validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding Cluster - api-extensions *
validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration Cluster - api-extensions *
## apiextensions.k8s.io v1
customresourcedefinitions customresourcedefinition CustomResourceDefinition Cluster crd,crds api-extensions * status:CustomResourceDefinition:get,patch,update
## scheduling.k8s.io v1
priorityclasses priorityclass PriorityClass Cluster pc - *
## coordination.k8s.io v1
leases lease Lease Namespaced - - *
## node.k8s.io v1
runtimeclasses runtimeclass RuntimeClass Cluster - - *
## discovery.k8s.io v1
endpointslices endpointslice EndpointSlice Namespaced - - *
## resource.k8s.io v1
deviceclasses deviceclass DeviceClass Cluster - - *
devicetaintrules devicetaintrule DeviceTaintRule Cluster - - * status:DeviceTaintRule:get,patch,update
resourceclaims resourceclaim ResourceClaim Namespaced - - * status:ResourceClaim:get,patch,update
resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate Namespaced - - *
resourceslices resourceslice ResourceSlice Cluster - - *
## flowcontrol.apiserver.k8s.io v1
flowschemas flowschema FlowSchema Cluster - - * status:FlowSchema:get,patch,update
prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration Cluster - - * status:PriorityLevelConfiguration:get,patch,update
## storagemigration.k8s.io v1
storageversionmigrations storageversionmigration StorageVersionMigration Cluster - - * status:StorageVersionMigration:get,patch,update
## metrics.k8s.io v1beta1
nodes node NodeMetrics Cluster - - get,list
pods pod PodMetrics Namespaced - - get,list
"""  # noqa: E501 -- one line a resource reads best


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource and the kind it speaks."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: dict[str, Subresource] = field(default_factory=dict)
    list_kind: str = ""
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``deployments.apps``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def table(self) -> str:
        """Where the objects are stored, whatever the version they are asked for in."""
        if self.kind == "Event" and self.group == "events.k8s.io":
            return "/events"
        return f"{self.group}/{self.plural}"


def builtin() -> Iterator[ResourceInfo]:
    """The built-in resources, in the order discovery lists them."""
    group = version = ""
    for line in BUILTIN.strip().splitlines():
        if line.startswith("##"):
            _, group, version = line.split()
            group = "" if group == "/" else group
            continue
        plural, singular, kind, scope, short, categories, verbs, *subs = line.split()
        yield ResourceInfo(
            group=group,
            version=version,
            plural=plural,
            singular=singular,
            kind=kind,
            namespaced=scope == "Namespaced",
            short_names=_words(short),
            categories=_words(categories),
            verbs=ALL_VERBS if verbs == "*" else _words(verbs),
            subresources={s.name: s for s in (_subresource(t, group, version) for t in subs)},
            list_kind=f"{kind}List",
        )


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def _subresource(text: str, group: str, version: str) -> Subresource:
    name, kind, verbs = text.split(":")
    if "/" in kind:
        group, version, kind = kind.split("/")
    return Subresource(name, group, version, kind, tuple(verbs.split(",")))


class Catalog:
    """Every served resource, by group, version and plural. CRDs come and go."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], ResourceInfo] = {}
        self._versions: dict[str, list[str]] = {}
        self.generation = 0
        """Grows with every change; caches of discovery and OpenAPI hang on it."""
        for info in builtin():
            self.add(info)

    def add(self, info: ResourceInfo) -> None:
        versions = self._versions.setdefault(info.group, [])
        if info.version not in versions:
            versions.append(info.version)
        self._found[info.group, info.version, info.plural] = info
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Take away a custom resource in all its versions."""
        for key in [k for k in self._found if k[0] == group and k[2] == plural]:
            del self._found[key]
        used = {version for g, version, _ in self._found if g == group}
        versions = [v for v in self._versions.get(group, []) if v in used]
        if versions:
            self._versions[group] = versions
        else:
            self._versions.pop(group, None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        return self._found.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> ResourceInfo | None:
        for info in self._found.values():
            if info.kind == kind and info.group == group and version in ("", info.version):
                return info
        return None

    def groups(self) -> dict[str, list[str]]:
        """Group → versions, best first; the core group is the empty name."""
        return {group: sorted(v, key=version_rank) for group, v in self._versions.items()}

    def resources(self, group: str, version: str) -> list[ResourceInfo]:
        found = [r for (g, v, _), r in self._found.items() if g == group and v == version]
        return sorted(found, key=lambda r: r.plural)

    def __iter__(self) -> Iterator[ResourceInfo]:
        return iter(list(self._found.values()))


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key: GA before beta before alpha, newest first, odd names last."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    rank = {"": 0, "beta": 1, "alpha": 2}[stage or ""]
    return (rank, -int(major), -int(minor or 0), version)

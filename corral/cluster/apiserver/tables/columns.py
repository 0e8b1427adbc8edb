"""The columns of every built-in kind, as a table of facts.

A kind's head names its groups (``-`` is the core group), the kind, and the package of definitions
its columns are documented in. Its columns follow, separated by semicolons::

    [+]NAME[:TYPE[/FORMAT]][ = [PACKAGE.]DEFINITION.FIELD | = "DESCRIPTION"]

``+`` marks a column of the wide output. A column is a string unless it says otherwise. ``Name``,
``Age`` and ``Created At`` are documented by the metadata; a column without a field has no
description.
"""

from __future__ import annotations

from functools import cache

from corral.cluster.apiserver.schema import field_description
from corral.kube.types import Obj

__all__ = ["CREATED_AT", "columns_of", "printed_kinds"]

COLUMNS = """
## - Pod core.v1
Name; Ready; Status; Restarts; Age; +IP = PodStatus.podIP; +Node = PodSpec.nodeName;
+Nominated Node = PodStatus.nominatedNodeName; +Readiness Gates = PodSpec.readinessGates
## - PodTemplate core.v1
Name; Containers; Images; Pod Labels
## policy PodDisruptionBudget policy.v1
Name; Min Available; Max Unavailable; Allowed Disruptions:integer; Age
## - ReplicationController core.v1
Name; Desired:integer = ReplicationControllerSpec.replicas;
Current:integer = ReplicationControllerStatus.replicas;
Ready:integer = ReplicationControllerStatus.readyReplicas; Age; +Containers; +Images;
+Selector = ReplicationControllerSpec.selector
## apps ReplicaSet apps.v1
Name; Desired:integer = ReplicaSetSpec.replicas; Current:integer = ReplicaSetStatus.replicas;
Ready:integer = ReplicaSetStatus.readyReplicas; Age; +Containers; +Images;
+Selector = ReplicaSetSpec.selector
## apps DaemonSet apps.v1
Name; Desired:integer = DaemonSetStatus.desiredNumberScheduled;
Current:integer = DaemonSetStatus.currentNumberScheduled;
Ready:integer = DaemonSetStatus.numberReady;
Up-to-date:integer = DaemonSetStatus.updatedNumberScheduled;
Available:integer = DaemonSetStatus.numberAvailable;
Node Selector = core.v1.PodSpec.nodeSelector; Age; +Containers; +Images;
+Selector = DaemonSetSpec.selector
## batch Job batch.v1
Name; Status; Completions = JobStatus.succeeded; Duration; Age; +Containers; +Images;
+Selector = JobSpec.selector
## batch CronJob batch.v1
Name; Schedule = CronJobSpec.schedule; Timezone = CronJobSpec.timeZone;
Suspend:boolean = CronJobSpec.suspend; Active:integer = CronJobStatus.active;
Last Schedule = CronJobStatus.lastScheduleTime; Age; +Containers; +Images;
+Selector = JobSpec.selector
## - Service core.v1
Name; Type = ServiceSpec.type; Cluster-IP = ServiceSpec.clusterIP;
External-IP = ServiceSpec.externalIPs; Port(s) = ServiceSpec.ports; Age;
+Selector = ServiceSpec.selector
## networking.k8s.io Ingress networking.v1
Name; Class; Hosts; Address; Ports; Age
## networking.k8s.io IngressClass networking.v1
Name; Controller; Parameters; Age
## networking.k8s.io NetworkPolicy networking.v1
Name; Pod-Selector = NetworkPolicySpec.podSelector; Age
## networking.k8s.io ServiceCIDR networking.v1
Name; CIDRs = ServiceCIDRSpec.cidrs; Age
## networking.k8s.io IPAddress networking.v1
Name; ParentRef = IPAddressSpec.parentRef
## apps StatefulSet apps.v1
Name; Ready; Age; +Containers; +Images
## apps Deployment apps.v1
Name; Ready; Up-to-date = DeploymentStatus.updatedReplicas;
Available = DeploymentStatus.availableReplicas; Age; +Containers; +Images;
+Selector = DeploymentSpec.selector
## apps ControllerRevision apps.v1
Name; Controller; Revision = ControllerRevision.revision; Age
## autoscaling HorizontalPodAutoscaler autoscaling.v2
Name; Reference = HorizontalPodAutoscalerSpec.scaleTargetRef;
Targets = HorizontalPodAutoscalerSpec.metrics; MinPods = HorizontalPodAutoscalerSpec.minReplicas;
MaxPods = HorizontalPodAutoscalerSpec.maxReplicas;
Replicas = HorizontalPodAutoscalerStatus.currentReplicas; Age
## autoscaling Scale autoscaling.v1
Name:string/; Desired:integer = ScaleSpec.replicas; Available:integer = ScaleStatus.replicas; Age
## - Endpoints core.v1
Name; Endpoints = Endpoints.subsets; Age
## discovery.k8s.io EndpointSlice discovery.v1
Name; AddressType = EndpointSlice.addressType; Ports = EndpointSlice.ports;
Endpoints = EndpointSlice.endpoints; Age
## - Node core.v1
Name; Status; Roles; Age; Version = NodeSystemInfo.kubeletVersion;
+Internal-IP = NodeStatus.addresses; +External-IP = NodeStatus.addresses;
+OS-Image = NodeSystemInfo.osImage; +Kernel-Version = NodeSystemInfo.kernelVersion;
+Container-Runtime = NodeSystemInfo.containerRuntimeVersion
## -,events.k8s.io Event core.v1
Last Seen = Event.lastTimestamp; Type = Event.type; Reason = Event.reason;
Object = Event.involvedObject; +Subobject = ObjectReference.fieldPath; +Source = Event.source;
Message = Event.message; +First Seen = Event.firstTimestamp; +Count = Event.count; +Name
## - Namespace core.v1
Name; Status; Age
## - Secret core.v1
Name; Type = Secret.type; Data = Secret.data; Age
## - ConfigMap core.v1
Name; Data = ConfigMap.data; Age
## - ServiceAccount core.v1
Name; Age
## - PersistentVolume core.v1
Name; Capacity = PersistentVolumeSpec.capacity; Access Modes = PersistentVolumeSpec.accessModes;
Reclaim Policy = PersistentVolumeSpec.persistentVolumeReclaimPolicy;
Status = PersistentVolumeStatus.phase; Claim = PersistentVolumeSpec.claimRef; StorageClass;
VolumeAttributesClass; Reason = PersistentVolumeStatus.reason; Age;
+VolumeMode = PersistentVolumeSpec.volumeMode
## - PersistentVolumeClaim core.v1
Name; Status = PersistentVolumeClaimStatus.phase; Volume = PersistentVolumeClaimSpec.volumeName;
Capacity = PersistentVolumeClaimStatus.capacity;
Access Modes = PersistentVolumeClaimStatus.accessModes; StorageClass; VolumeAttributesClass; Age;
+VolumeMode = PersistentVolumeClaimSpec.volumeMode
## - ResourceQuota core.v1
Name; Request; Limit; Age
## - ComponentStatus core.v1
Name; Status; Message; Error
## rbac.authorization.k8s.io RoleBinding rbac.v1
Name; Role = RoleBinding.roleRef; Age; +Users; +Groups; +ServiceAccounts
## rbac.authorization.k8s.io ClusterRoleBinding rbac.v1
Name; Role = ClusterRoleBinding.roleRef; Age; +Users; +Groups; +ServiceAccounts
## certificates.k8s.io CertificateSigningRequest certificates.v1
Name; Age; SignerName = CertificateSigningRequestSpec.signerName;
Requestor = CertificateSigningRequestSpec.request;
RequestedDuration = CertificateSigningRequestSpec.expirationSeconds;
Condition = CertificateSigningRequestStatus.conditions
## coordination.k8s.io Lease coordination.v1
Name; Holder = LeaseSpec.holderIdentity; Age
## storage.k8s.io StorageClass storage.v1
Name; Provisioner = StorageClass.provisioner; ReclaimPolicy = StorageClass.reclaimPolicy;
VolumeBindingMode = StorageClass.volumeBindingMode;
AllowVolumeExpansion = StorageClass.allowVolumeExpansion; Age
## storage.k8s.io VolumeAttributesClass storage.v1
Name; DriverName = VolumeAttributesClass.driverName; Age
## storage.k8s.io VolumeAttachment storage.v1
Name; Attacher:string/name = VolumeAttachmentSpec.attacher;
PV = VolumeAttachmentSource.persistentVolumeName; Node = VolumeAttachmentSpec.nodeName;
Attached:boolean = VolumeAttachmentStatus.attached; Age
## storage.k8s.io CSINode storage.v1
Name; Drivers:integer; Age
## storage.k8s.io CSIDriver storage.v1
Name; AttachRequired:boolean = CSIDriverSpec.attachRequired;
PodInfoOnMount:boolean = CSIDriverSpec.podInfoOnMount;
StorageCapacity:boolean = CSIDriverSpec.storageCapacity;
TokenRequests = CSIDriverSpec.tokenRequests;
RequiresRepublish:boolean = CSIDriverSpec.requiresRepublish;
Modes = CSIDriverSpec.volumeLifecycleModes; Age
## scheduling.k8s.io PriorityClass scheduling.v1
Name; Value:integer = PriorityClass.value; Global-Default:boolean = PriorityClass.globalDefault;
Age; PreemptionPolicy = PriorityClass.preemptionPolicy
## node.k8s.io RuntimeClass node.v1
Name; Handler; Age
## admissionregistration.k8s.io MutatingWebhookConfiguration admissionregistration.v1
Name; Webhooks:integer = \
"Webhooks indicates the number of webhooks registered in this configuration"; Age
## admissionregistration.k8s.io ValidatingWebhookConfiguration admissionregistration.v1
Name; Webhooks:integer = \
"Webhooks indicates the number of webhooks registered in this configuration"; Age
## admissionregistration.k8s.io ValidatingAdmissionPolicy admissionregistration.v1
Name; Validations:integer = \
"Validations indicates the number of validation rules defined in this configuration";
ParamKind = "ParamKind specifies the kind of resources used to parameterize this policy"; Age
## admissionregistration.k8s.io ValidatingAdmissionPolicyBinding admissionregistration.v1
Name;
PolicyName = "PolicyName indicates the policy definition which the policy binding binded to";
ParamRef = "ParamRef indicates the param resource which sets the configuration param"; Age
## admissionregistration.k8s.io MutatingAdmissionPolicy admissionregistration.v1
Name; Mutations:integer = \
"Mutation indicates the number of mutations rules defined in this configuration";
ParamKind = "ParamKind specifies the kind of resources used to parameterize this policy"; Age
## admissionregistration.k8s.io MutatingAdmissionPolicyBinding admissionregistration.v1
Name;
PolicyName = "PolicyName indicates the policy definition which the policy binding binded to";
ParamRef = "ParamRef indicates the param resource which sets the configuration param"; Age
## resource.k8s.io DeviceClass resource.v1
Name; Age
## resource.k8s.io ResourceClaim resource.v1
Name; State = "A summary of the current state (allocated, pending, reserved, etc.)."; Age
## resource.k8s.io ResourceClaimTemplate resource.v1
Name; Age
## resource.k8s.io ResourceSlice resource.v1
Name; Node = ResourceSliceSpec.nodeName; Driver = ResourceSliceSpec.driver;
Pool = ResourcePool.name; Age
## resource.k8s.io DeviceTaintRule resource.v1
Name; Key = DeviceTaint.key; Value = DeviceTaint.value; Effect = DeviceTaint.effect;
TimeAdded = DeviceTaint.timeAdded; Age
## certificates.k8s.io ClusterTrustBundle certificates.v1
Name; SignerName = ClusterTrustBundleSpec.signerName
## certificates.k8s.io PodCertificateRequest certificates.v1
Name; PodName = PodCertificateRequestSpec.podName;
ServiceAccountName = PodCertificateRequestSpec.serviceAccountName;
NodeName = PodCertificateRequestSpec.nodeName; SignerName = PodCertificateRequestSpec.signerName;
State = "Is the request Pending, Issued, Denied, or Failed?";
UnverifiedUserAnnotations = PodCertificateRequestSpec.unverifiedUserAnnotations
## storagemigration.k8s.io StorageVersionMigration storagemigration.v1
Name:string; Resource = "GroupResource to migrate"; Status = "Status of the migration"
## apiextensions.k8s.io CustomResourceDefinition -
Name; Scope; Versions; Created At:date; +Group; +Kind; +ShortNames; +Established:boolean
## apiregistration.k8s.io APIService -
Name; Service = "The reference to the service that hosts this API endpoint.";
Available = "Whether this service is available."; Age
## metrics.k8s.io NodeMetrics -
Name; cpu:string/quantity; memory:string/quantity; Window:string/duration
## metrics.k8s.io PodMetrics -
Name; cpu:string/quantity; memory:string/quantity; Window:string/duration
## flowcontrol.apiserver.k8s.io FlowSchema flowcontrol.v1
Name; PriorityLevel = PriorityLevelConfigurationReference.name;
MatchingPrecedence = FlowSchemaSpec.matchingPrecedence;
DistinguisherMethod = FlowSchemaSpec.distinguisherMethod; Age;
MissingPL = "references a broken or non-existent PriorityLevelConfiguration"
## flowcontrol.apiserver.k8s.io PriorityLevelConfiguration flowcontrol.v1
Name; Type = PriorityLevelConfigurationSpec.type;
NominalConcurrencyShares = LimitedPriorityLevelConfiguration.nominalConcurrencyShares;
Queues = QueuingConfiguration.queues; HandSize = QueuingConfiguration.handSize;
QueueLengthLimit = QueuingConfiguration.queueLengthLimit; Age
"""

CREATED_AT = "Name; Created At:date"
"""What is printed of a kind that has no columns of its own."""

_CREATION = "meta.v1.ObjectMeta.creationTimestamp"
_IMPLIED = {"Name": "meta.v1.ObjectMeta.name", "Age": _CREATION, "Created At": _CREATION}


@cache
def _texts() -> dict[tuple[str, str], tuple[str, str]]:
    found = {}
    for block in COLUMNS.split("## ")[1:]:
        head, _, body = block.partition("\n")
        groups, kind, package = head.split()
        for group in groups.split(","):
            found["" if group == "-" else group, kind] = (body, package)
    return found


def printed_kinds() -> list[tuple[str, str]]:
    """Group and kind of everything that has columns of its own."""
    return list(_texts())


def columns_of(group: str, kind: str) -> list[Obj]:
    """The column definitions of a kind, a new list every time."""
    body, package = _texts().get((group, kind), (CREATED_AT, ""))
    return [_column(text.strip(), package) for text in body.split(";")]


def _column(text: str, package: str) -> Obj:
    head, _, field = text.partition(" = ")
    name, _, form = head.removeprefix("+").partition(":")
    kind, _, shape = (form or "string").partition("/")
    return {
        "name": name,
        "type": kind,
        "format": "name" if name == "Name" and not form else shape,
        "description": _documented(field or _IMPLIED.get(name, ""), package),
        "priority": int(head.startswith("+")),
    }


def _documented(field: str, package: str) -> str:
    """What the definitions say of a field."""
    if not field:
        return ""
    if field.startswith('"'):
        return field.strip('"')
    owner, _, name = field.rpartition(".")
    owner = owner if "." in owner else f"{package}.{owner}"
    root = "io.k8s.apimachinery.pkg.apis" if owner.startswith("meta.") else "io.k8s.api"
    return field_description(f"{root}.{owner}", name)

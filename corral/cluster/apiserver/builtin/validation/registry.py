"""Which rules apply to which kind, and the three questions the server asks.

A kind that is not in the table only has its metadata checked. Updates check the metadata twice
upstream (once for all kinds, once per kind); repeated findings are reported once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.cluster.apiserver.builtin.validation.core import basics, events, quotas
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, FieldError
from corral.cluster.apiserver.builtin.validation.fields.meta import (
    check_kube_finalizers,
    check_meta_changes,
    check_object_meta,
)
from corral.cluster.apiserver.builtin.validation.fields.names import (
    NameRule,
    config_map_key,
    name_any,
    name_is_label,
    name_is_path_segment,
    name_is_subdomain,
)
from corral.cluster.apiserver.builtin.validation.network import (
    endpoint_slices,
    networking,
    services,
)
from corral.cluster.apiserver.builtin.validation.pods import pods
from corral.cluster.apiserver.builtin.validation.pods import updates as pod_updates
from corral.cluster.apiserver.builtin.validation.storage import claims
from corral.cluster.apiserver.builtin.validation.storage import classes as storage
from corral.cluster.apiserver.builtin.validation.system import (
    api_services,
    cluster_kinds,
    devices,
    flowcontrol,
    policies,
    rbac,
    webhooks,
)
from corral.cluster.apiserver.builtin.validation.workloads import autoscaling, job_status, jobs
from corral.cluster.apiserver.builtin.validation.workloads import replicated as workloads
from corral.kube.types import Obj

__all__ = ["Rules", "validate_create", "validate_status_update", "validate_update"]

Create = Callable[[Errors, Obj], None]
Update = Callable[[Errors, Obj, Obj], None]


@dataclass(frozen=True, slots=True)
class Rules:
    """What is checked for one kind beyond the common metadata."""

    create: Create | None = None
    update: Update | None = None
    status: Update | None = None
    name: NameRule = name_is_subdomain
    namespaced: bool = True
    meta_last: bool = False
    """The kind checks its metadata only when the rest is sound."""
    kube_finalizers: bool = True
    """Finalizers must be qualified or standard names."""


def _again(create: Create) -> Update:
    """Kinds whose updates are checked like creations."""

    def update(errs: Errors, new: Obj, old: Obj) -> None:
        create(errs, new)

    return update


def _same(create: Create, *, name: NameRule = name_is_subdomain, namespaced: bool = True,
          kube_finalizers: bool = True) -> Rules:  # fmt: skip
    return Rules(create, _again(create), None, name, namespaced, False, kube_finalizers)


def _lease_candidate_name(name: str, is_prefix: bool = False) -> list[str]:
    return list(config_map_key(name))


_CORE = {
    "Pod": Rules(pods.validate_pod, pod_updates.validate_pod_update,
                 pod_updates.validate_pod_status),
    "PodTemplate": _same(pods.validate_pod_template_object),
    "Service": Rules(services.validate_service, services.validate_service_update,
                     services.validate_service_status, name_is_label),
    "Namespace": Rules(basics.validate_namespace, _again(basics.validate_namespace),
                       basics.validate_namespace_status, name_is_label, False),
    "Node": Rules(basics.validate_node, basics.validate_node_update,
                  basics.validate_node_update, namespaced=False),
    "ConfigMap": Rules(basics.validate_config_map, basics.validate_config_map_update),
    "Secret": Rules(basics.validate_secret, basics.validate_secret_update),
    "ServiceAccount": Rules(),
    "Endpoints": Rules(basics.validate_endpoints, basics.validate_endpoints_update),
    "PersistentVolumeClaim": Rules(claims.validate_claim, claims.validate_claim_update,
                                   claims.validate_claim_status),
    "PersistentVolume": Rules(claims.validate_volume, claims.validate_volume_update,
                              namespaced=False),
    "ResourceQuota": Rules(quotas.validate_quota, quotas.validate_quota_update,
                           quotas.validate_quota_status),
    "LimitRange": _same(quotas.validate_limit_range),
    "Event": Rules(events.validate_core_event, events.validate_core_event_update,
                   name=name_is_path_segment, meta_last=True, kube_finalizers=False),
    "ReplicationController": Rules(workloads.validate_controller,
                                   _again(workloads.validate_controller),
                                   workloads.validate_controller_status),
}  # fmt: skip
_APPS = {
    "Deployment": Rules(workloads.validate_deployment, workloads.validate_deployment_update,
                        workloads.validate_deployment_status),
    "ReplicaSet": Rules(workloads.validate_replica_set, workloads.validate_replica_set_update,
                        workloads.validate_replica_set_status),
    "StatefulSet": Rules(workloads.validate_stateful_set, workloads.validate_stateful_set_update,
                         workloads.validate_stateful_set_status, name_is_label),
    "DaemonSet": Rules(workloads.validate_daemon_set, workloads.validate_daemon_set_update,
                       workloads.validate_daemon_set_status),
    "ControllerRevision": Rules(workloads.validate_revision, workloads.validate_revision_update),
}  # fmt: skip
_BATCH = {
    "Job": Rules(jobs.validate_job, jobs.validate_job_update, job_status.validate_job_status),
    "CronJob": Rules(jobs.validate_cron_job, jobs.validate_cron_job_update),
}
_RBAC = {
    "Role": _same(rbac.validate_role, name=name_is_path_segment),
    "ClusterRole": _same(rbac.validate_cluster_role, name=name_is_path_segment, namespaced=False),
    "RoleBinding": Rules(rbac.validate_role_binding, rbac.validate_role_binding_update,
                         name=name_is_path_segment),
    "ClusterRoleBinding": Rules(rbac.validate_cluster_role_binding,
                                rbac.validate_cluster_role_binding_update,
                                name=name_is_path_segment, namespaced=False),
}  # fmt: skip
_NETWORKING = {
    "NetworkPolicy": Rules(networking.validate_network_policy,
                           networking.validate_network_policy_update),
    "Ingress": Rules(networking.validate_ingress, networking.validate_ingress_update,
                     networking.validate_ingress_status),
    "IngressClass": Rules(networking.validate_ingress_class,
                          networking.validate_ingress_class_update, namespaced=False),
    "IPAddress": Rules(networking.validate_ip_address, networking.validate_ip_address_update,
                       name=networking.ip_address_name, namespaced=False),
    "ServiceCIDR": Rules(networking.validate_service_cidr,
                         networking.validate_service_cidr_update, namespaced=False),
}  # fmt: skip
_STORAGE = {
    "StorageClass": Rules(storage.validate_storage_class, storage.validate_storage_class_update,
                          namespaced=False),
    "CSIDriver": Rules(storage.validate_csi_driver, storage.validate_csi_driver_update,
                       namespaced=False),
    "CSINode": Rules(storage.validate_csi_node, storage.validate_csi_node_update,
                     namespaced=False),
    "VolumeAttachment": Rules(storage.validate_attachment, storage.validate_attachment_update,
                              namespaced=False),
    "VolumeAttributesClass": Rules(storage.validate_attributes_class,
                                   storage.validate_attributes_class_update, namespaced=False),
    "CSIStorageCapacity": Rules(),
}  # fmt: skip


def _cluster_hook(create: Create) -> Rules:
    return _same(create, namespaced=False, kube_finalizers=False)


_ADMISSION = {
    "ValidatingWebhookConfiguration": _cluster_hook(webhooks.validate_webhooks),
    "MutatingWebhookConfiguration": _cluster_hook(webhooks.validate_webhooks),
    "ValidatingAdmissionPolicy": _cluster_hook(policies.validate_policy),
    "ValidatingAdmissionPolicyBinding": _cluster_hook(policies.validate_policy_binding),
    "MutatingAdmissionPolicy": _cluster_hook(policies.validate_mutating_policy),
    "MutatingAdmissionPolicyBinding": _cluster_hook(policies.validate_mutating_policy_binding),
}
_OTHERS = {
    ("autoscaling", "HorizontalPodAutoscaler"): Rules(
        autoscaling.validate_autoscaler, autoscaling.validate_autoscaler_update,
        autoscaling.validate_autoscaler_status),
    ("policy", "PodDisruptionBudget"): Rules(
        autoscaling.validate_disruption_budget, autoscaling.validate_disruption_budget_update,
        autoscaling.validate_disruption_budget_status, name=name_is_path_segment,
        meta_last=True, kube_finalizers=False),
    ("scheduling.k8s.io", "PriorityClass"): Rules(
        cluster_kinds.validate_priority_class, cluster_kinds.validate_priority_class_update,
        namespaced=False),
    ("coordination.k8s.io", "Lease"): Rules(
        cluster_kinds.validate_lease, cluster_kinds.validate_lease_update,
        kube_finalizers=False),
    ("coordination.k8s.io", "LeaseCandidate"): Rules(
        name=_lease_candidate_name, kube_finalizers=False),
    ("discovery.k8s.io", "EndpointSlice"): Rules(
        endpoint_slices.validate_endpoint_slice, endpoint_slices.validate_endpoint_slice_update),
    ("events.k8s.io", "Event"): Rules(events.validate_event, events.validate_event_update),
    ("certificates.k8s.io", "CertificateSigningRequest"): Rules(
        cluster_kinds.validate_signing_request, cluster_kinds.validate_signing_request_update,
        cluster_kinds.validate_signing_request_status, name=name_any, namespaced=False),
    ("node.k8s.io", "RuntimeClass"): Rules(
        cluster_kinds.validate_runtime_class, cluster_kinds.validate_runtime_class_update,
        namespaced=False, kube_finalizers=False),
    ("apiregistration.k8s.io", "APIService"): Rules(
        api_services.validate_api_service, _again(api_services.validate_api_service),
        api_services.validate_api_service_status, name=name_is_path_segment,
        namespaced=False, kube_finalizers=False),
    ("certificates.k8s.io", "ClusterTrustBundle"): Rules(
        devices.validate_trust_bundle, devices.validate_trust_bundle_update,
        name=name_any, namespaced=False),
    ("certificates.k8s.io", "PodCertificateRequest"): Rules(
        devices.validate_certificate_request, devices.validate_same_spec),
    ("resource.k8s.io", "DeviceClass"): Rules(namespaced=False),
    ("resource.k8s.io", "DeviceTaintRule"): Rules(namespaced=False),
    ("resource.k8s.io", "ResourceClaim"): Rules(update=devices.validate_claim_update),
    ("resource.k8s.io", "ResourceClaimTemplate"): Rules(update=devices.validate_same_spec),
    ("resource.k8s.io", "ResourceSlice"): Rules(
        devices.validate_slice, devices.validate_slice_update, namespaced=False),
    ("storagemigration.k8s.io", "StorageVersionMigration"): Rules(
        devices.validate_migration, devices.validate_migration_update, namespaced=False),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): Rules(
        flowcontrol.validate_flow_schema, _again(flowcontrol.validate_flow_schema),
        flowcontrol.validate_flow_status, namespaced=False),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): Rules(
        flowcontrol.validate_priority_level, _again(flowcontrol.validate_priority_level),
        flowcontrol.validate_flow_status, namespaced=False),
}  # fmt: skip

_RULES: dict[tuple[str, str], Rules] = {
    **{(group, kind): rules
       for group, kinds in (("", _CORE), ("apps", _APPS), ("batch", _BATCH),
                            ("rbac.authorization.k8s.io", _RBAC),
                            ("networking.k8s.io", _NETWORKING),
                            ("storage.k8s.io", _STORAGE),
                            ("admissionregistration.k8s.io", _ADMISSION))
       for kind, rules in kinds.items()},
    **_OTHERS,
}  # fmt: skip
_ANY = Rules(kube_finalizers=False)


def _looks_namespaced(obj: Obj) -> bool:
    """An unknown kind is taken for what it looks like: nothing here knows its scope."""
    return bool((obj.get("metadata") or {}).get("namespace"))


def _unique(errs: Errors) -> list[FieldError]:
    return errs if len(errs) < 2 else list(dict.fromkeys(errs))


def validate_create(group: str, version: str, kind: str, obj: Obj) -> list[FieldError]:
    """Everything wrong with an object that is to be created."""
    found = _RULES.get((group, kind))
    rules, errs = found or _ANY, Errors()
    if rules.meta_last and rules.create is not None:
        rules.create(errs, obj)
        if errs:
            return errs
    namespaced = rules.namespaced if found else _looks_namespaced(obj)
    check_object_meta(errs, obj, namespaced=namespaced, name_rule=rules.name)
    if rules.kube_finalizers:
        check_kube_finalizers(errs, obj)
    if rules.meta_last:
        return errs
    if rules.create is not None:
        rules.create(errs, obj)
    return _unique(errs)


def _validate_change(
    new: Obj, old: Obj, rules: Rules | None, check: Update | None
) -> list[FieldError]:
    errs, namespaced = Errors(), rules.namespaced if rules else _looks_namespaced(old)
    check_object_meta(errs, new, namespaced=namespaced, name_rule=name_is_path_segment)
    check_meta_changes(errs, new, old)
    if rules is not None and rules.kube_finalizers:
        check_kube_finalizers(errs, new)
    if check is not None:
        check(errs, new, old)
    return _unique(errs)


def validate_update(group: str, version: str, kind: str, new: Obj, old: Obj) -> list[FieldError]:
    """Everything wrong with an update: what may not change, and the new object itself."""
    found = _RULES.get((group, kind))
    return _validate_change(new, old, found, found.update if found else None)


def validate_status_update(
    group: str, version: str, kind: str, new: Obj, old: Obj
) -> list[FieldError]:
    """Everything wrong with an update through the ``status`` subresource."""
    found = _RULES.get((group, kind))
    return _validate_change(new, old, found, found.status if found else None)

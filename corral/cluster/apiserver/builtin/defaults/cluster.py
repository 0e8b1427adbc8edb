"""Defaults of the kinds that configure a cluster: admission, access, network, storage."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.strategy.base import rfc3339_now
from corral.kube.types import Obj

from .core import persistent_volume_spec

__all__ = ["DEFAULTS"]

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"


def _webhook(webhook: Obj) -> None:
    webhook.setdefault("failurePolicy", "Fail")
    _match(webhook)
    webhook.setdefault("timeoutSeconds", 10)
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    _scopes(webhook.get("rules"))


def api_service(obj: Obj) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _match(criteria: Obj) -> None:
    criteria.setdefault("matchPolicy", "Equivalent")
    criteria.setdefault("namespaceSelector", {})
    criteria.setdefault("objectSelector", {})


def _scopes(rules: list[Obj] | None) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def validating_webhooks(obj: Obj) -> None:
    for webhook in obj.get("webhooks") or ():
        _webhook(webhook)


def mutating_webhooks(obj: Obj) -> None:
    for webhook in obj.get("webhooks") or ():
        _webhook(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")


def _match_resources(resources: Obj | None) -> None:
    if resources is not None:
        _match(resources)
        _scopes(resources.get("resourceRules"))
        _scopes(resources.get("excludeResourceRules"))


def admission_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))


def admission_policy_binding(obj: Obj) -> None:
    _match_resources((obj.get("spec") or {}).get("matchResources"))


def binding(obj: Obj) -> None:
    role = obj.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


def network_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def ingress_class(obj: Obj) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def storage_class(obj: Obj) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def csi_driver(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    for switch in (
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
        "preventPodSchedulingIfMissing",
    ):
        spec.setdefault(switch, False)


def volume_attachment(obj: Obj) -> None:
    source = (obj.get("spec") or {}).get("source") or {}
    inline = source.get("inlineVolumeSpec")
    if inline is not None:
        persistent_volume_spec(inline)


def endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def flow_schema(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def priority_level(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for key, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                if not queuing.get(key):
                    queuing[key] = value
    if exempt is not None:
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)


def pod_certificate_request(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", 86400)


def token_request(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("expirationSeconds", 3600)


def resource_claim(obj: Obj) -> None:
    _claim_spec(obj.get("spec") or {})


def resource_claim_template(obj: Obj) -> None:
    _claim_spec((obj.get("spec") or {}).get("spec") or {})


def _claim_spec(spec: Obj) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            _device_request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _device_request(alternative)


def _device_request(request: Obj) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _taints(taints: list[Obj]) -> None:
    for taint in taints:
        if taint.get("timeAdded") is None:
            taint["timeAdded"] = rfc3339_now()


def device_taint_rule(obj: Obj) -> None:
    _taints([obj.setdefault("spec", {}).setdefault("taint", {})])


def resource_slice(obj: Obj) -> None:
    for device in (obj.get("spec") or {}).get("devices") or ():
        _taints(device.get("taints") or [])


DEFAULTS = {
    ("apiregistration.k8s.io", "v1", "APIService"): api_service,
    (_ADMISSION, "v1", "ValidatingWebhookConfiguration"): validating_webhooks,
    (_ADMISSION, "v1", "MutatingWebhookConfiguration"): mutating_webhooks,
    (_ADMISSION, "v1", "ValidatingAdmissionPolicy"): admission_policy,
    (_ADMISSION, "v1", "MutatingAdmissionPolicy"): admission_policy,
    (_ADMISSION, "v1", "ValidatingAdmissionPolicyBinding"): admission_policy_binding,
    (_ADMISSION, "v1", "MutatingAdmissionPolicyBinding"): admission_policy_binding,
    (_RBAC, "v1", "RoleBinding"): binding,
    (_RBAC, "v1", "ClusterRoleBinding"): binding,
    ("networking.k8s.io", "v1", "NetworkPolicy"): network_policy,
    ("networking.k8s.io", "v1", "IngressClass"): ingress_class,
    ("scheduling.k8s.io", "v1", "PriorityClass"): priority_class,
    ("storage.k8s.io", "v1", "StorageClass"): storage_class,
    ("storage.k8s.io", "v1", "CSIDriver"): csi_driver,
    ("storage.k8s.io", "v1", "VolumeAttachment"): volume_attachment,
    ("discovery.k8s.io", "v1", "EndpointSlice"): endpoint_slice,
    (_FLOW, "v1", "FlowSchema"): flow_schema,
    (_FLOW, "v1", "PriorityLevelConfiguration"): priority_level,
    ("certificates.k8s.io", "v1", "PodCertificateRequest"): pod_certificate_request,
    ("authentication.k8s.io", "v1", "TokenRequest"): token_request,
    ("resource.k8s.io", "v1", "ResourceClaim"): resource_claim,
    ("resource.k8s.io", "v1", "ResourceClaimTemplate"): resource_claim_template,
    ("resource.k8s.io", "v1", "DeviceTaintRule"): device_taint_rule,
    ("resource.k8s.io", "v1", "ResourceSlice"): resource_slice,
}

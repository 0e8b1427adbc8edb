"""Cluster configuration: admission, certificates, network, storage, fairness, scheduling."""

from __future__ import annotations

from corral.kube.types import Obj

from .base import Strategy, at, content, restore
from .netwarnings import cidr_warnings, ip_warnings
from .podwarnings import DEPRECATED_NODE_LABELS

__all__ = ["STRATEGIES", "SigningRequestStrategy"]

_ADMISSION = "admissionregistration.k8s.io"
_NETWORK = "networking.k8s.io"
_STORAGE = "storage.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
    "prevent possible logging of tokens in volume attributes"
)
_NEVER_INTERCEPTED = {
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
_REVIEW_GROUPS = {group for group, _ in _NEVER_INTERCEPTED}
_REVIEWS = {resource for _, resource in _NEVER_INTERCEPTED}


class WebhookStrategy(Strategy):
    """Warns of rules for resources that webhooks never see."""

    def warnings_common(self, obj: Obj) -> list[str]:
        return [
            f"webhooks[{i}].rules[{j}]: {resource}.{group} is excluded from admission webhooks; "
            "this rule will have no effect"
            for i, webhook in enumerate(obj.get("webhooks") or ())
            for j, rule in enumerate(webhook.get("rules") or ())
            for group, resource in _never_intercepted(rule)
        ]


def _never_intercepted(rule: Obj) -> list[tuple[str, str]]:
    """The resources of a rule that webhooks never see, in the order of its lists."""
    groups, resources = rule.get("apiGroups") or [], rule.get("resources") or []
    if "*" in groups or "*" in resources:
        return []
    groups = [g for g in dict.fromkeys(groups) if g in _REVIEW_GROUPS]
    resources = [r for r in dict.fromkeys(resources) if r in _REVIEWS]
    return [(g, r) for g in groups for r in resources if (g, r) in _NEVER_INTERCEPTED]


class SigningRequestStrategy(Strategy):
    """Who asks is recorded by the server; approving is a subresource of its own."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        for key in ("username", "uid", "groups", "extra"):
            obj.setdefault("spec", {}).pop(key, None)
        return super().prepare_create(obj)

    def record_requester(self, obj: Obj, user: Obj) -> None:
        """Write the requester (an authentication UserInfo) into a prepared request."""
        for key in ("username", "uid", "groups", "extra"):
            if user.get(key):
                obj["spec"][key] = user[key]

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        restore(new, old, "spec")

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        super().prepare_status_update(new, old)
        status = new.setdefault("status", {})
        for kind in ("Approved", "Denied"):
            _keep_conditions(status, old.get("status") or {}, kind)
        self._stamp(status, old.get("status") or {})

    def prepare_approval(self, new: Obj, old: Obj) -> None:
        """A write of the approval subresource changes conditions only."""
        self.keep_generation(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        self._stamp(status, before)
        restore(new, old, "spec")
        new["status"] = {**before}
        if status.get("conditions"):
            new["status"]["conditions"] = status["conditions"]
        else:
            new["status"].pop("conditions", None)

    def _stamp(self, status: Obj, before: Obj) -> None:
        now = self.now()
        held = {
            (c.get("type"), c.get("status")): c["lastTransitionTime"]
            for c in reversed(before.get("conditions") or [])
            if c.get("lastTransitionTime")
        }
        for condition in status.get("conditions") or ():
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = now
            if not condition.get("lastTransitionTime"):
                key = (condition.get("type"), condition.get("status"))
                condition["lastTransitionTime"] = held.get(key, now)


def _keep_conditions(status: Obj, before: Obj, kind: str) -> None:
    """Conditions of one type cannot be changed through the status, only as many as were."""
    conditions = status.get("conditions") or []
    mine = [i for i, c in enumerate(conditions) if c.get("type") == kind]
    held = [c for c in before.get("conditions") or () if c.get("type") == kind]
    if len(mine) == len(held):
        for index, condition in zip(mine, held, strict=True):
            conditions[index] = condition


class EndpointSliceStrategy(Strategy):
    """Everything but metadata counts as spec, and so do labels."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)
        return super().prepare_create(obj)

    def is_new_generation(self, new: Obj, old: Obj) -> bool:
        labels, before = new["metadata"].get("labels") or {}, old["metadata"].get("labels") or {}
        return bool(labels != before or content(new) != content(old))

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        if new.get("endpoints") != old.get("endpoints"):
            for endpoint in new.get("endpoints") or ():
                endpoint.pop("deprecatedTopology", None)

    def warnings_create(self, obj: Obj) -> list[str]:
        fqdn = obj.get("addressType") == "FQDN"
        deprecated = ["spec.addressType: FQDN endpoints are deprecated"] if fqdn else []
        return deprecated + super().warnings_create(obj)

    def warnings_common(self, obj: Obj) -> list[str]:
        labels = obj["metadata"].get("labels") or {}
        if labels.get("endpointslice.kubernetes.io/managed-by") in (
            "endpointslice-controller.k8s.io",
            "endpointslicemirroring-controller.k8s.io",
        ):
            return []
        return [
            warning
            for i, endpoint in enumerate(obj.get("endpoints") or ())
            for j, address in enumerate(endpoint.get("addresses") or ())
            for warning in ip_warnings(f"endpoints[{i}].addresses[{j}]", address)
        ]


class IngressStrategy(Strategy):
    def warnings_create(self, obj: Obj) -> list[str]:
        annotated = _INGRESS_CLASS in (obj["metadata"].get("annotations") or {})
        if not annotated or (obj.get("spec") or {}).get("ingressClassName") is not None:
            return []
        return [
            f'annotation "{_INGRESS_CLASS}" is deprecated, '
            "please use 'spec.ingressClassName' instead"
        ]


class NetworkPolicyStrategy(Strategy):
    def warnings_common(self, obj: Obj) -> list[str]:
        warnings: list[str] = []
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for i, rule in enumerate((obj.get("spec") or {}).get(direction) or ()):
                for j, peer in enumerate(rule.get(peers) or ()):
                    block = peer.get("ipBlock")
                    if block is not None:
                        path = f"spec.{direction}[{i}].{peers}[{j}].ipBlock"
                        warnings += cidr_warnings(f"{path}.cidr", block.get("cidr") or "")
                        for k, hole in enumerate(block.get("except") or ()):
                            warnings += cidr_warnings(f"{path}.except[{k}]", hole)
        return warnings


class RuntimeClassStrategy(Strategy):
    def warnings_common(self, obj: Obj) -> list[str]:
        selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [
            f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}"
            for key in selector
            if key in DEPRECATED_NODE_LABELS
        ]


class StorageClassStrategy(Strategy):
    def warnings_common(self, obj: Obj) -> list[str]:
        return [
            f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: "
            f"{DEPRECATED_NODE_LABELS[expression['key']]}"
            for i, topology in enumerate(obj.get("allowedTopologies") or ())
            for j, expression in enumerate(topology.get("matchLabelExpressions") or ())
            if expression.get("key") in DEPRECATED_NODE_LABELS
        ]


class DriverStrategy(Strategy):
    def warnings_create(self, obj: Obj) -> list[str]:
        spec = obj.get("spec") or {}
        exposed = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS_IN_SECRETS] if exposed else []

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        requests, before = ((o.get("spec") or {}).get("tokenRequests") for o in (new, old))
        return self.warnings_create(new) if requests != before else []


class LeaseStrategy(Strategy):
    """Coordinated election is off by default; its fields are dropped unless already in use."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        self._drop(obj.get("spec") or {}, {})
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        self._drop(new.get("spec") or {}, old.get("spec") or {})

    @staticmethod
    def _drop(spec: Obj, before: Obj) -> None:
        for key in ("strategy", "preferredHolder"):
            if before.get(key) is None:
                spec.pop(key, None)


_REFUSED = "field label not supported: {}"

STRATEGIES: list[Strategy] = [
    *(
        WebhookStrategy(
            group=_ADMISSION,
            kind=kind,
            first_generation=True,
            generation_of=("webhooks",),
            allow_unconditional_update=False,
        )
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    ),
    Strategy(
        group=_ADMISSION,
        kind="ValidatingAdmissionPolicy",
        initial_status={},
        first_generation=True,
        generation_of=("spec",),
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
    *(
        Strategy(
            group=_ADMISSION,
            kind=kind,
            first_generation=True,
            generation_of=("spec",),
            allow_unconditional_update=False,
        )
        for kind in (
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        )
    ),
    SigningRequestStrategy(
        group=_CERTIFICATES,
        kind="CertificateSigningRequest",
        initial_status={},
        resets=(("spec",), ("status",)),
        status_resets=(("spec",), ("status", "conditions")),
        selectors={"spec.signerName": at("spec", "signerName")},
        only_own_selectors=True,
        selector_refusal=_REFUSED,
    ),
    Strategy(
        group=_CERTIFICATES,
        kind="ClusterTrustBundle",
        allow_unconditional_update=False,
        selectors={"spec.signerName": at("spec", "signerName")},
        only_own_selectors=True,
        selector_refusal=_REFUSED,
    ),
    Strategy(
        group=_CERTIFICATES,
        kind="PodCertificateRequest",
        initial_status={},
        status_metadata="reset",
        allow_unconditional_update=False,
        selectors={
            f"spec.{name}": at("spec", name) for name in ("signerName", "podName", "nodeName")
        },
        only_own_selectors=True,
        selector_refusal=_REFUSED,
    ),
    LeaseStrategy(
        group="coordination.k8s.io",
        kind="Lease",
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    EndpointSliceStrategy(
        group="discovery.k8s.io",
        kind="EndpointSlice",
        first_generation=True,
        generation_of=("endpoints", "ports", "addressType"),
    ),
    *(
        Strategy(
            group=_FLOW,
            kind=kind,
            initial_status={},
            first_generation=True,
            generation_of=("spec",),
            status_metadata="old",
        )
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    ),
    IngressStrategy(
        group=_NETWORK,
        kind="Ingress",
        initial_status={"loadBalancer": {}},
        first_generation=True,
        generation_of=("spec",),
    ),
    Strategy(group=_NETWORK, kind="IngressClass", first_generation=True, generation_of=("spec",)),
    NetworkPolicyStrategy(
        group=_NETWORK, kind="NetworkPolicy", first_generation=True, generation_of=("spec",)
    ),
    Strategy(group=_NETWORK, kind="ServiceCIDR", initial_status={}, status_metadata="reset"),
    Strategy(group=_NETWORK, kind="IPAddress"),
    Strategy(
        group="apiregistration.k8s.io",
        kind="APIService",
        initial_status={},
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
    RuntimeClassStrategy(
        group="node.k8s.io",
        kind="RuntimeClass",
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    *(
        Strategy(group=_RBAC, kind=kind, allow_create_on_update=True)
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
    Strategy(group="scheduling.k8s.io", kind="PriorityClass", first_generation=True),
    StorageClassStrategy(group=_STORAGE, kind="StorageClass"),
    Strategy(group=_STORAGE, kind="VolumeAttributesClass"),
    DriverStrategy(
        group=_STORAGE, kind="CSIDriver", generation_of=("spec",), allow_unconditional_update=False
    ),
    Strategy(
        group=_STORAGE,
        kind="CSINode",
        initial_status={},
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
    Strategy(group=_STORAGE, kind="CSIStorageCapacity", allow_unconditional_update=False),
    Strategy(
        group=_STORAGE,
        kind="VolumeAttachment",
        initial_status={"attached": False},
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
    Strategy(
        group="resource.k8s.io", kind="DeviceClass", first_generation=True, generation_of=("spec",)
    ),
    Strategy(
        group="resource.k8s.io", kind="ResourceClaim", initial_status={}, status_metadata="reset"
    ),
    Strategy(
        group="resource.k8s.io",
        kind="DeviceTaintRule",
        initial_status={},
        first_generation=True,
        generation_of=("spec",),
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
    Strategy(
        group="resource.k8s.io",
        kind="ResourceSlice",
        first_generation=True,
        generation_of=("spec",),
        selectors={
            "spec.nodeName": at("spec", "nodeName"),
            "spec.driver": at("spec", "driver"),
            "spec.pool.name": at("spec", "pool", "name"),
        },
        only_own_selectors=True,
        selector_refusal="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
    ),
    Strategy(
        group="storagemigration.k8s.io",
        kind="StorageVersionMigration",
        initial_status={},
        status_metadata="reset",
        allow_unconditional_update=False,
    ),
]

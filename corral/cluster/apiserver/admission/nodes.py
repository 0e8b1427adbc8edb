"""NodeRestriction: a kubelet writes only what belongs to its own node; and topology labels."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.accounts import MIRROR, secret_names
from corral.cluster.apiserver.admission.certificates import parse_request
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.node import node_identity
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

__all__ = ["NodeRestriction", "TopologyLabels"]

PODS, NODES, CLAIMS, ACCOUNTS = "/pods", "/nodes", "/persistentvolumeclaims", "/serviceaccounts"
LEASES, CSI_NODES = "coordination.k8s.io/leases", "storage.k8s.io/csinodes"
REQUESTS = "certificates.k8s.io/certificatesigningrequests"
LEASE_NAMESPACE = "kube-node-lease"
TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

_RESTRICTED = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
        "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)  # fmt: skip
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_SIGNERS = frozenset(
    {"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"}
)


class NodeRestriction(Plugin):
    """Checks the writes of users that are nodes, and only theirs."""

    tables = frozenset({PODS, NODES, CLAIMS, ACCOUNTS, LEASES, CSI_NODES, REQUESTS})

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._checks = {
            PODS: self._pod,
            NODES: self._node,
            CLAIMS: self._claim,
            ACCOUNTS: self._token,
            LEASES: self._lease,
            CSI_NODES: self._csi_node,
            REQUESTS: self._certificate,
        }

    async def mutate(self, request: AdmissionRequest) -> bool:
        self._check(request)
        return False

    async def validate(self, request: AdmissionRequest) -> None:
        # What changes nothing is only shown to validation.
        if request.operation not in ("CREATE", "UPDATE") or request.subresource:
            self._check(request)

    def _check(self, request: AdmissionRequest) -> None:
        user = request.context.user
        if not user.name.startswith("system:node:"):
            return
        node = node_identity(user)
        if node is None:
            return
        if not node:
            raise refuse(request, f'could not determine node from user "{user.name}"')
        self._checks[request.kind.info.table](node, request)

    # -- pods ------------------------------------------------------------------------------

    def _pod(self, node: str, request: AdmissionRequest) -> None:
        match request.subresource:
            case "":
                self._plain_pod(node, request)
            case "status":
                self._pod_status(node, request)
            case "eviction":
                if self._stored_pod(request, request.name)["spec"].get("nodeName") != node:
                    why = f"node {node} can only evict pods with spec.nodeName set to itself"
                    raise refuse(request, why)
            case other:
                why = "only 'status' and 'eviction' are allowed"
                raise refuse(request, f'unexpected pod subresource "{other}", {why}')

    def _stored_pod(self, request: AdmissionRequest, name: str) -> Obj:
        entry = self._store.head(PODS, f"{request.namespace}/{name}")
        if entry is None:
            raise say.not_found("", "pods", name)
        return entry.decode()

    def _plain_pod(self, node: str, request: AdmissionRequest) -> None:
        if request.operation == "DELETE":
            if ((request.old or {}).get("spec") or {}).get("nodeName") != node:
                why = f'node "{node}" can only delete pods with spec.nodeName set to itself'
                raise refuse(request, why)
        elif request.operation == "CREATE":
            why = self._pod_problem(node, request.object or {})
            if why:
                raise refuse(request, why)
        else:
            raise refuse(
                request,
                f'unexpected operation "{request.operation}", node "{node}" can only create and '
                "delete mirror pods",
            )

    def _pod_problem(self, node: str, pod: Obj) -> str:
        """Why a node may not create this pod; empty when it may."""
        meta, spec = pod["metadata"], pod["spec"]
        if MIRROR not in (meta.get("annotations") or ()):
            end = f'node "{node}" can only create mirror pods'
            return f'pod does not have "{MIRROR}" annotation, {end}'
        if spec.get("nodeName") != node:
            return f'node "{node}" can only create pods with spec.nodeName set to itself'
        why = self._owner_problem(node, meta.get("ownerReferences") or [])
        if why:
            return why
        what = _api_reference(spec)
        return f'node "{node}" can not create pods that reference {what}' if what else ""

    def _owner_problem(self, node: str, owners: list[Obj]) -> str:
        create = f'node "{node}" can only create pods with'
        if len(owners) > 1:
            return f"{create} a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            return f"{create} an owner reference set to itself"
        if not owner.get("controller"):
            return f"{create} a controller owner reference set to itself"
        if owner.get("blockOwnerDeletion"):
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        entry = self._store.head(NODES, node)
        if entry is None:
            raise say.not_found("", "nodes", node)
        if owner.get("uid") != entry.uid:
            return f"node {node} UID mismatch: expected {owner.get('uid')} got {entry.uid}"
        return ""

    def _pod_status(self, node: str, request: AdmissionRequest) -> None:
        if request.operation != "UPDATE":
            raise refuse(request, f'unexpected operation "{request.operation}"')
        new, old = request.object or {}, request.old or {}
        if old["spec"].get("nodeName") != node:
            end = "can only update pod status for pods with spec.nodeName set to itself"
            raise refuse(request, f'node "{node}" {end}')
        if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            raise refuse(request, f'node "{node}" cannot update labels through pod status')
        after, before = new.get("status") or {}, old.get("status") or {}
        for field, words in (
            ("resourceClaimStatuses", "resource claim statues"),
            ("extendedResourceClaimStatus", "extended resource claim status"),
        ):
            if (after.get(field) or None) != (before.get(field) or None):
                raise refuse(request, f'node "{node}" cannot update {words}')

    # -- what a node owns ------------------------------------------------------------------

    def _node(self, node: str, request: AdmissionRequest) -> None:
        if request.name != node:
            why = f'node "{node}" is not allowed to modify node "{request.name}"'
            raise refuse(request, why)
        new, old = request.object or {}, request.old or {}
        if request.operation == "CREATE" and not request.subresource:
            if (new.get("spec") or {}).get("configSource") is not None:
                end = "is not allowed to create pods with a non-nil configSource"
                raise refuse(request, f'node "{node}" {end}')
            labels = _foreign_labels(new, {})
            if labels:
                end = f"is not allowed to set the following labels: {', '.join(labels)}"
                raise refuse(request, f'node "{node}" {end}')
        elif request.operation == "UPDATE":
            self._node_update(node, request, new, old)

    def _node_update(self, node: str, request: AdmissionRequest, new: Obj, old: Obj) -> None:
        after, before = new.get("spec") or {}, old.get("spec") or {}
        source = after.get("configSource")
        if source is not None and source != before.get("configSource"):
            end = "is not allowed to update configSource to a new non-nil configSource"
            raise refuse(request, f'node "{node}" {end}')
        if (after.get("taints") or []) != (before.get("taints") or []):
            raise refuse(request, f'node "{node}" is not allowed to modify taints')
        owners = [m["metadata"].get("ownerReferences") or [] for m in (new, old)]
        if owners[0] != owners[1]:
            raise refuse(request, f'node "{node}" is not allowed to modify ownerReferences')
        labels = _foreign_labels(new, old)
        if labels:
            raise refuse(request, f"is not allowed to modify labels: {', '.join(labels)}")

    def _claim(self, node: str, request: AdmissionRequest) -> None:
        if request.subresource != "status":
            raise refuse(request, "may only update PVC status")
        if request.operation != "UPDATE":
            raise refuse(request, f'unexpected operation "{request.operation}"')
        if _claim_rest(request.object or {}) != _claim_rest(request.old or {}):
            end = "is not allowed to update fields other than status.quantity and status.conditions"
            raise refuse(request, f'node "{node}" {end}')

    def _lease(self, node: str, request: AdmissionRequest) -> None:
        if request.namespace != LEASE_NAMESPACE:
            why = f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
            raise refuse(request, why)
        if request.name != node:
            why = "can only access node lease with the same name as the requesting node"
            raise refuse(request, why)

    def _csi_node(self, node: str, request: AdmissionRequest) -> None:
        if request.name != node:
            why = "can only access CSINode with the same name as the requesting node"
            raise refuse(request, why)

    # -- credentials -----------------------------------------------------------------------

    def _token(self, node: str, request: AdmissionRequest) -> None:
        if request.operation != "CREATE" or request.subresource != "token":
            return
        spec = (request.object or {}).get("spec") or {}
        ref = spec.get("boundObjectRef") or {}
        if (ref.get("apiVersion"), ref.get("kind")) != ("v1", "Pod") or not ref.get("name"):
            raise refuse(request, "node requested token not bound to a pod")
        if not ref.get("uid"):
            raise refuse(request, "node requested token with a pod binding without a uid")
        pod = self._stored_pod(request, ref["name"])
        if ref["uid"] != pod["metadata"].get("uid"):
            raise refuse(
                request,
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in "
                "record. The object might have been deleted and then recreated",
            )
        if pod["spec"].get("nodeName") != node:
            raise refuse(
                request, "node requested token bound to a pod scheduled on a different node"
            )
        self._audience(request, spec.get("audiences") or [], pod)

    def _audience(self, request: AdmissionRequest, audiences: list[str], pod: Obj) -> None:
        if len(audiences) > 1:
            raise refuse(request, "node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        if audience in self._pod_audiences(pod["spec"]):
            return
        user = request.context.user
        verb = "request-serviceaccounts-token-audience"
        attrs = Attributes(user, verb, request.namespace, "", "v1", audience, "", request.name)
        if not self._authorizer.authorize(attrs).allowed:
            end = f'audience "{audience}" not found in pod spec volume'
            raise refuse(request, f"{end}, {user.name} is not authorized to request tokens for it")

    def _pod_audiences(self, spec: Obj) -> set[str]:
        found: set[str] = set()
        for volume in spec.get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                token = source.get("serviceAccountToken")
                if token is not None:
                    found.add(token.get("audience", ""))
            driver = (volume.get("csi") or {}).get("driver")
            entry = self._store.get("storage.k8s.io/csidrivers", driver) if driver else None
            requests = (entry.decode().get("spec") or {}).get("tokenRequests") if entry else ()
            found.update(r.get("audience", "") for r in requests or ())
        return found

    def _certificate(self, node: str, request: AdmissionRequest) -> None:
        spec = (request.object or {}).get("spec") or {}
        if request.operation != "CREATE" or spec.get("signerName") not in _KUBELET_SIGNERS:
            return
        from cryptography.x509.oid import NameOID

        try:
            parsed = parse_request(spec.get("request") or "")
        except ValueError as why:
            raise refuse(request, f"unable to parse csr: {why}") from None
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if not names or names[-1].value != f"system:node:{node}":
            raise refuse(request, f"can only create a node CSR with CN=system:node:{node}")


def _foreign_labels(new: Obj, old: Obj) -> list[str]:
    """The changed labels that are not for a kubelet to set."""
    after = (new.get("metadata") or {}).get("labels") or {}
    before = (old.get("metadata") or {}).get("labels") or {}
    changed = {k for k in after.keys() | before.keys() if after.get(k) != before.get(k)}
    return sorted(filter(_is_foreign, changed))


def _is_foreign(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _within(domain, _RESTRICTED):
        return True
    reserved = _within(domain, "kubernetes.io") or _within(domain, "k8s.io")
    own = label in _OWN_LABELS or any(_within(domain, d) for d in _OWN_DOMAINS)
    return reserved and not own


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _claim_rest(claim: Obj) -> Any:
    """A claim without what a kubelet may change."""
    meta = {
        k: v
        for k, v in (claim.get("metadata") or {}).items()
        if k not in ("resourceVersion", "managedFields")
    }
    free = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
    status = {k: v for k, v in (claim.get("status") or {}).items() if k not in free}
    return {**claim, "metadata": meta, "status": status}


_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTIONS = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _api_reference(spec: Obj) -> str:
    """The first kind of API object a pod refers to; empty when it needs none."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(secret_names(spec)):
        return "secrets"
    if _names_config_map(spec):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for field, what in _VOLUMES.items():
            if volume.get(field) is not None:
                return what
        for source in (volume.get("projected") or {}).get("sources") or ():
            for field, what in _PROJECTIONS.items():
                if source.get(field) is not None:
                    return what
    return ""


def _names_config_map(spec: Obj) -> bool:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            env = container.get("env") or ()
            if any((e.get("valueFrom") or {}).get("configMapKeyRef") for e in env):
                return True
            if any(source.get("configMapRef") for source in container.get("envFrom") or ()):
                return True
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        if any((s.get("configMap") or {}).get("name") for s in sources):
            return True
    return False


class TopologyLabels(Plugin):
    """A pod that gets a node carries the zone and region of that node as labels."""

    tables = frozenset({PODS})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, request: AdmissionRequest) -> bool:
        binds = request.subresource == "binding"
        if not binds and (request.subresource or request.operation != "CREATE"):
            return False
        pod = request.object or {}
        name = (pod.get("spec") or {}).get("nodeName")
        entry = self._store.get(NODES, name) if name else None
        if entry is None:
            return False
        labels = {key: entry.labels[key] for key in TOPOLOGY if key in entry.labels}
        if not labels:
            return False
        meta = pod["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
        return True

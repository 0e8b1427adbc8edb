"""Escalation, certificate requests, NodeRestriction, and the list of default plugins."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.cluster.apiserver.admission.certificates import CertificateRequests
from corral.cluster.apiserver.admission.nodes import NodeRestriction
from corral.cluster.apiserver.admission.plugins import close_plugins, default_plugins
from corral.cluster.apiserver.admission.rbac import Escalation
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import Forbidden

ANN = UserInfo("ann", groups=("system:authenticated",))
KUBELET = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
RBAC = "rbac.authorization.k8s.io/v1"


async def refused(made) -> str:
    with pytest.raises(Forbidden) as error:
        await made
    return error.value.message


# -- escalation ----------------------------------------------------------------------------


async def test_roles_grant_only_what_their_writer_holds(world):
    world.plugins = [Escalation(world.authorizer)]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
    await world.create(role)
    world.user = ANN
    said = await refused(world.create({**role, "metadata": {"name": "s"}}, dry_run=True))
    assert said.startswith(
        'roles.rbac.authorization.k8s.io "s" is forbidden: user "ann" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        "held:"
    )
    subjects = [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "roleRef": ref,
        "subjects": subjects,
    }
    world.authorizer.set_object(
        "ClusterRole",
        {"metadata": {"name": "admin"}, "rules": rules, "kind": "ClusterRole", "apiVersion": RBAC},
    )
    assert "not currently held" in await refused(world.create(binding))


# -- certificates --------------------------------------------------------------------------


def certificate_request(*groups, name="ann", signer="kubernetes.io/kube-apiserver-client"):
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    built = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = built.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": signer,
            "usages": ["client auth"],
        },
    }


PREFIX = 'certificatesigningrequests.certificates.k8s.io "c" is forbidden: '


async def test_nobody_asks_for_the_masters_group(world):
    plugin = CertificateRequests(world.authorizer)
    await plugin.validate(world.request("CREATE", certificate_request("dev")))
    request = world.request("CREATE", certificate_request("dev", "system:masters"))
    assert await refused(plugin.validate(request)) == (
        f"{PREFIX}use of kubernetes.io/kube-apiserver-client signer with system:masters group is "
        "not allowed"
    )
    other = certificate_request("system:masters", signer="example.com/own")
    await plugin.validate(world.request("CREATE", other))


@pytest.mark.parametrize(
    ("subresource", "verb", "status"),
    [("approval", "approve", {}), ("status", "sign", {"certificate": "eA=="})],
)
async def test_approving_and_signing_need_the_signer(world, subresource, verb, status):
    plugin = CertificateRequests(world.authorizer)
    old = certificate_request("dev", signer="example.com/own")
    world.user = ANN
    request = world.request("UPDATE", {**old, "status": status}, old, subresource=subresource)
    assert await refused(plugin.validate(request)) == (
        f'{PREFIX}user not permitted to {verb} requests with signerName "example.com/own"'
    )
    rule = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": ["example.com/*"],
        "verbs": [verb],
    }
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "s"}, "rules": [rule]}
    world.authorizer.set_object("ClusterRole", role)
    world.authorizer.set_object(
        "ClusterRoleBinding",
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "s"},
            "roleRef": {"kind": "ClusterRole", "name": "s"},
            "subjects": [{"kind": "User", "name": "ann"}],
        },
    )
    await plugin.validate(request)


# -- nodes ---------------------------------------------------------------------------------


@pytest.fixture
def kubelet(world):
    world.user = KUBELET
    world.plugins = [NodeRestriction(world.store, world.authorizer)]
    return world


def node(name="n1", **more):
    labels = more.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        **more,
    }


def lease(name, namespace):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
    }


async def test_others_are_not_restricted(kubelet, pod):
    kubelet.user = ANN
    await kubelet.plugins[0].mutate(kubelet.request("CREATE", node("n2")))
    await kubelet.plugins[0].mutate(kubelet.request("CREATE", pod("p")))


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (node("n2"), 'node "n1" is not allowed to modify node "n2"'),
        (
            node(labels={"node-restriction.kubernetes.io/x": "", "kubernetes.io/new": ""}),
            'node "n1" is not allowed to set the following labels: kubernetes.io/new, '
            "node-restriction.kubernetes.io/x",
        ),
    ],
    ids=["another node", "labels"],
)
async def test_a_node_writes_itself(kubelet, obj, why):
    plugin = kubelet.plugins[0]
    said = await refused(plugin.mutate(kubelet.request("CREATE", obj)))
    assert said == f'nodes "{obj["metadata"]["name"]}" is forbidden: {why}'
    own = {"kubernetes.io/hostname": "h", "node.kubernetes.io/x": "", "example.com/y": ""}
    await plugin.mutate(kubelet.request("CREATE", node(labels=own)))


async def test_a_node_does_not_change_its_taints(kubelet):
    new = node(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    request = kubelet.request("UPDATE", new, node())
    said = await refused(kubelet.plugins[0].mutate(request))
    assert said == 'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'


async def test_leases(kubelet):
    plugin = kubelet.plugins[0]
    kubelet.namespace = "kube-node-lease"
    await plugin.mutate(kubelet.request("CREATE", lease("n1", "kube-node-lease")))
    said = await refused(plugin.mutate(kubelet.request("CREATE", lease("n2", "kube-node-lease"))))
    assert said.endswith("can only access node lease with the same name as the requesting node")
    kubelet.namespace = "team"
    said = await refused(plugin.mutate(kubelet.request("CREATE", lease("n1", "team"))))
    assert said.endswith('can only access leases in the "kube-node-lease" system namespace')


async def test_mirror_pods_of_a_node(kubelet, pod):
    plugin = kubelet.plugins[0]
    await kubelet.put(node() | {"metadata": {"name": "n1", "uid": "u"}})
    said = await refused(plugin.mutate(kubelet.request("CREATE", pod("p"))))
    assert said == (
        'pods "p" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node '
        '"n1" can only create mirror pods'
    )
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
    annotations = {"kubernetes.io/config.mirror": "x"}

    def mirror(owners, **spec):
        meta = {"annotations": annotations, "ownerReferences": owners}
        return kubelet.request("CREATE", pod("p", {"nodeName": "n1", **spec}, meta=meta))

    await plugin.mutate(mirror([owner]))
    for request, end in (
        (mirror([]), "can only create pods with an owner reference set to itself"),
        (mirror([owner, owner]), "a single owner reference set to itself"),
        (mirror([{**owner, "controller": False}]), "a controller owner reference set to itself"),
        (mirror([{**owner, "uid": "w"}]), "node n1 UID mismatch: expected w got u"),
        (mirror([owner], nodeName="n2"), "can only create pods with spec.nodeName set to itself"),
        (
            mirror([owner], volumes=[{"name": "c", "persistentVolumeClaim": {}}]),
            'node "n1" can not create pods that reference persistentvolumeclaims',
        ),
    ):
        assert (await refused(plugin.mutate(request))).endswith(end)


async def test_status_delete_and_evict_own_pods_only(kubelet, pod):
    plugin = kubelet.plugins[0]
    mine, foreign = pod("p", {"nodeName": "n1"}), pod("p", {"nodeName": "n2"})
    await plugin.mutate(kubelet.request("UPDATE", mine, mine, subresource="status"))
    request = kubelet.request("UPDATE", foreign, foreign, subresource="status")
    assert "can only update pod status for pods" in await refused(plugin.mutate(request))
    await plugin.validate(kubelet.request("DELETE", None, mine))
    said = await refused(plugin.validate(kubelet.request("DELETE", None, foreign)))
    assert said.endswith('node "n1" can only delete pods with spec.nodeName set to itself')
    await kubelet.put(foreign)
    request = kubelet.request("CREATE", foreign, subresource="eviction")
    said = await refused(plugin.validate(request))
    assert said.endswith("node n1 can only evict pods with spec.nodeName set to itself")
    said = await refused(plugin.mutate(kubelet.request("UPDATE", mine, mine)))
    assert 'unexpected operation "UPDATE"' in said


async def test_node_certificates(kubelet):
    plugin = kubelet.plugins[0]
    signer = "kubernetes.io/kubelet-serving"
    own = certificate_request("system:nodes", name="system:node:n1", signer=signer)
    await plugin.mutate(kubelet.request("CREATE", own))
    other = certificate_request("system:nodes", name="system:node:n2", signer=signer)
    said = await refused(plugin.mutate(kubelet.request("CREATE", other)))
    assert said == f"{PREFIX}can only create a node CSR with CN=system:node:n1"


# -- all together --------------------------------------------------------------------------


async def test_default_plugins_in_order(world, pod):
    plugins = default_plugins(
        store=world.store, authorizer=world.authorizer, kinds=world, catalog=world.catalog
    )
    assert [type(p).__name__ for p in plugins] == [
        "LimitRanger",
        "ServiceAccounts",
        "NodeRestriction",
        "NodeTaints",
        "PodSecurity",
        "Priority",
        "DefaultTolerations",
        "DefaultStorageClass",
        "InUseProtection",
        "ClaimResize",
        "RuntimeClasses",
        "CertificateRequests",
        "DefaultIngressClass",
        "TopologyLabels",
        "PodResize",
        "MutatingWebhooks",
        "Escalation",
        "ValidatingPolicies",
        "ValidatingWebhooks",
        "ResourceQuota",
    ]
    world.plugins = plugins
    await world.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    made = await world.create(pod("p"))
    spec = made["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["priority"] == 0
    assert len(spec["tolerations"]) == 2
    await close_plugins(plugins)

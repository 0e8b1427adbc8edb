"""What an installation consists of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from corral.api import all_crds, all_kinds
from corral.api.spot.kinds import CLOUD_LABEL, INSTANCE_LABEL
from corral.cli.main import app
from corral.operator import rbac
from corral.operator.manifests import (
    InstallSettings,
    cluster_rules,
    install_objects,
    local_objects,
)
from corral.operator.settings import ProcessSettings
from corral.runtime.webhooks import INJECT_LABEL

Obj = dict[str, Any]
OWN = (*rbac.namespace_rules(), *rbac.KUBELET_TOKEN_RULES, *rbac.LOCAL_NAMESPACE_RULES)


def found(kind: str, name: str = "", objects: list[Obj] | None = None) -> Obj:
    chosen = [
        obj
        for obj in (install_objects() if objects is None else objects)
        if obj["kind"] == kind and (not name or obj["metadata"]["name"] == name)
    ]
    assert len(chosen) == 1, (kind, name)
    return chosen[0]


def container() -> Obj:
    only: Obj = found("Deployment")["spec"]["template"]["spec"]["containers"][0]
    return only


def granted(objects: list[Obj]) -> set[tuple[str, str, str]]:
    """What the operator may do in the whole cluster."""
    return {
        (rule["apiGroups"][0], resource, verb)
        for name in (rbac.NAME, rbac.WORKLOADS)
        for rule in found("ClusterRole", name, objects=objects)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_everything_is_there() -> None:
    kinds = [obj["kind"] for obj in install_objects()]
    assert kinds == [
        *["CustomResourceDefinition"] * len(all_crds()),
        "Namespace",
        "ServiceAccount",
        *["ClusterRole", "ClusterRoleBinding"] * 2,
        *["Role", "RoleBinding"] * 2,
        *["ServiceAccount", "ClusterRole", "ClusterRoleBinding"],
        *["ClusterRole"] * 6,
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "Service",
        "Service",
        "Service",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Deployment",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "NetworkPolicy",
        "DaemonSet",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


def test_what_differs_is_set_everywhere() -> None:
    objects = install_objects(InstallSettings("elsewhere", image="here/corral:1", replicas=3))
    for obj in objects:
        where = "kube-system" if obj["metadata"]["name"].endswith("-tokens") else "elsewhere"
        assert obj["metadata"].get("namespace", where) == where
    assert found("Namespace", objects=objects)["metadata"]["name"] == "elsewhere"
    deployment = found("Deployment", objects=objects)["spec"]
    assert deployment["replicas"] == 3
    first = deployment["template"]["spec"]["containers"][0]
    assert first["image"] == "here/corral:1"
    assert "--namespace=elsewhere" in first["args"]
    binding = found("ClusterRoleBinding", rbac.NAME, objects=objects)
    assert binding["subjects"] == [rbac.service_account("elsewhere")]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in found(kind, objects=objects)["webhooks"]:
            assert webhook["clientConfig"]["service"]["namespace"] == "elsewhere"


def test_rights_where_jobs_run_can_be_given_by_namespace() -> None:
    objects = install_objects(InstallSettings(tenants=("team-a", "team-b")))
    bound = [
        (obj["kind"], obj["metadata"].get("namespace"))
        for obj in objects
        if obj["kind"].endswith("RoleBinding") and obj["roleRef"]["name"] == rbac.WORKLOADS
    ]
    assert bound == [("RoleBinding", "team-a"), ("RoleBinding", "team-b")]
    everywhere = found("ClusterRole", rbac.NAME, objects=objects)["rules"]
    given = {
        (resource, verb)
        for rule in everywhere
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not {right for right in given if right[0] == "secrets"}
    assert {verb for resource, verb in given if resource == "pods"} == {"list", "watch"}
    assert {verb for resource, verb in given if resource == "jobs"} == {"list", "watch"}


def test_kubelets_are_asked_with_a_right_of_its_own() -> None:
    objects = install_objects(InstallSettings("elsewhere"))
    account = {"kind": "ServiceAccount", "name": rbac.KUBELETS, "namespace": "elsewhere"}
    binding = found("ClusterRoleBinding", rbac.KUBELETS, objects=objects)
    assert binding["subjects"] == [account]
    bound = [
        obj["metadata"]["name"]
        for obj in objects
        if obj["kind"].endswith("RoleBinding") and obj["subjects"] == [account]
    ]
    assert bound == [rbac.KUBELETS]
    right = {"apiGroups": [""], "resources": ["nodes/checkpoint"], "verbs": ["create"]}
    assert found("ClusterRole", rbac.KUBELETS, objects=objects)["rules"] == [right]
    assert ("", "nodes/checkpoint", "create") not in granted(objects)
    tokens = {
        "apiGroups": [""],
        "resources": ["serviceaccounts/token"],
        "verbs": ["create"],
        "resourceNames": [rbac.KUBELETS],
    }
    own = found("Role", rbac.NAME, objects=objects)
    assert own["metadata"]["namespace"] == "elsewhere"
    assert tokens in own["rules"]


def test_both_roles_together_are_all_rights() -> None:
    def rights(rules: Iterable[rbac.Rule]) -> set[tuple[str, str, str, tuple[str, ...]]]:
        return {
            (rule.group, resource, verb, rule.names)
            for rule in rules
            for resource in rule.resources
            for verb in rule.verbs
        }

    everywhere, workloads = rbac.split(cluster_rules())
    assert rights(everywhere) | rights(workloads) == rights(cluster_rules())
    assert not rights(everywhere) & rights(workloads)


def test_our_pods_are_reached_at_their_ports_alone_and_reach_no_metadata() -> None:
    spec = found("NetworkPolicy", rbac.NAME)["spec"]
    assert (
        spec["podSelector"]["matchLabels"].items()
        <= found("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    )
    served = {port["containerPort"] for port in container()["ports"]}
    assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == served
    blocked = {net for to in spec["egress"][0]["to"] for net in to["ipBlock"]["except"]}
    assert "169.254.0.0/16" in blocked
    names = spec["egress"][1]  # caches on nodes answer at link-local addresses
    assert {(p["protocol"], p["port"]) for p in names["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert "to" not in names and len(spec["egress"]) == 2
    lent = install_objects(InstallSettings(allow_metadata=True))
    assert found("NetworkPolicy", rbac.NAME, objects=lent)["spec"]["egress"] == [{}]


def test_replicas_survive_each_other() -> None:
    spec = found("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    labels = spec["template"]["metadata"]["labels"]
    selectors = [
        spec["selector"]["matchLabels"],
        found("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(s["labelSelector"]["matchLabels"] for s in
          spec["template"]["spec"]["topologySpreadConstraints"]),
    ]  # fmt: skip
    for selector in selectors:
        assert selector.items() <= labels.items()


def test_notices_run_on_spot_machines_and_write_to_nodes_alone() -> None:
    daemons = found("DaemonSet", objects=install_objects(InstallSettings("here", image="i:1")))
    pod = daemons["spec"]["template"]["spec"]
    (only,) = pod["containers"]
    assert only["image"] == "i:1"
    said = CliRunner().invoke(app, [*only["command"][1:], "--help"])
    assert said.exit_code == 0, said.output
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    first, *others = (term["matchExpressions"] for term in affinity["nodeSelectorTerms"])
    assert [each["key"] for each in first] == [INSTANCE_LABEL, CLOUD_LABEL]
    assert all(len(term) == 1 and term[0]["operator"] == "In" for term in others)
    rules = found("ClusterRole", daemons["metadata"]["name"])["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "nodes",
        "nodes/status",
    }
    assert only["securityContext"] == container()["securityContext"]


def test_nobody_connects_to_any_of_our_pods_but_at_ports_that_are_served() -> None:
    """Each has a policy, whatever makes it."""
    objects = install_objects()
    chosen = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy"]
    for obj in objects:
        if obj["kind"] in ("Deployment", "DaemonSet"):
            labels = obj["spec"]["template"]["metadata"]["labels"]
            (policy,) = (
                p for p in chosen if p["podSelector"]["matchLabels"].items() <= labels.items()
            )
            (only,) = obj["spec"]["template"]["spec"]["containers"]
            served = {port["containerPort"] for port in only.get("ports", ())}
            assert {
                p["port"] for rule in policy.get("ingress", ()) for p in rule["ports"]
            } == served


def test_pods_may_do_nothing() -> None:
    pod = found("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container()["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    labels = found("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_ports_are_those_that_a_process_listens_on() -> None:
    settings = ProcessSettings()
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {
        "health": settings.health_port,
        "webhooks": settings.webhook_port,
        "reports": settings.report_port,
    }
    for obj in install_objects():
        if obj["kind"] == "Service" and "selector" in obj["spec"]:
            assert {port["targetPort"] for port in obj["spec"]["ports"]} <= ports.keys()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] in ports


def test_arguments_are_taken_by_the_command() -> None:
    said = CliRunner().invoke(app, ["operator", *container()["args"], "--help"])
    assert said.exit_code == 0, said.output


def test_authorities_are_injected_into_our_webhooks() -> None:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        config = found(kind)
        assert config["metadata"]["labels"][INJECT_LABEL]
        assert config["metadata"]["name"] == rbac.CONFIGURATIONS
        assert {w["failurePolicy"] for w in config["webhooks"]} == {"Fail"}
        names = {rule["resources"][0] for w in config["webhooks"] for rule in w["rules"]}
        assert names == {kind.resource().plural for kind in all_kinds()}


def test_printed_for_kubectl() -> None:
    said = CliRunner().invoke(app, ["install", "--print", "--no-gateway", "--namespace", "mine"])
    assert said.exit_code == 0, said.output
    assert list(yaml.safe_load_all(said.stdout)) == install_objects(InstallSettings("mine"))


class TestRights:
    """The roles give no more than what is written down."""

    def test_no_wildcards(self) -> None:
        for rule in (*cluster_rules(), *rbac.LOCAL_RULES, *OWN):
            words = {*rule.resources, *rule.verbs, rule.group}
            assert "*" not in words
            assert rule.resources
            assert rule.verbs

    def test_nothing_that_leads_to_more(self) -> None:
        for rule in (*cluster_rules(), *rbac.LOCAL_RULES, *OWN):
            assert rule.group != "rbac.authorization.k8s.io"
            assert not {"bind", "escalate", "impersonate"} & set(rule.verbs)
            if "serviceaccounts/token" in rule.resources:
                assert rule.names == (rbac.KUBELETS,)

    @pytest.mark.parametrize("resource", ["secrets"])
    def test_secrets_are_never_listed(self, resource: str) -> None:
        for rule in cluster_rules():
            if resource in rule.resources:
                assert set(rule.verbs) <= {"get", "create", "patch"}

    def test_nothing_is_granted_twice(self) -> None:
        seen: set[tuple[str, str, str, str]] = set()
        for rule in (*cluster_rules(), *rbac.LOCAL_RULES):
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        right = (rule.group, resource, verb, name)
                        assert right not in seen
                        seen.add(right)

    def test_the_same_rules_beside_an_embedded_server(self) -> None:
        beside = local_objects("someone")
        more = (*rbac.LOCAL_RULES, *rbac.AGENT_RULES)
        assert granted(beside) - granted(install_objects()) == {
            (rule.group, resource, verb)
            for rule in more
            for resource in rule.resources
            for verb in rule.verbs
        }
        assert granted(install_objects()) <= granted(beside)
        for name in (rbac.NAME, rbac.WORKLOADS):
            binding = found("ClusterRoleBinding", name, objects=beside)
            assert binding["subjects"] == [rbac.user("someone")]

    def test_rights_that_families_share(self) -> None:
        first = rbac.Rule("", ("pods", "services"), ("get", "list"))
        second = rbac.Rule("", ("pods", "secrets"), ("get", "create"))
        assert rbac.merged([first, second]) == (
            first,
            rbac.Rule("", ("pods",), ("create",)),
            rbac.Rule("", ("secrets",), ("get", "create")),
        )

"""Everything that `kubectl create` (and run, expose, autoscale) can make."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Obj, Objects, contains


@dataclass
class Case:
    """A `kubectl create …`, what it prints, and what must be stored then."""

    argv: str
    said: str
    where: tuple[str, str, str]
    expected: Any


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


RBAC = "rbac.authorization.k8s.io/v1"
NAMESPACED = {
    "configmap": Case(
        "configmap a --from-literal=x=1 --from-literal=y=2",
        "configmap/a created",
        ("v1", "configmaps", "a"),
        {"data": {"x": "1", "y": "2"}},
    ),
    "secret generic": Case(
        "secret generic a --from-literal=key=value --type=example.test/kind",
        "secret/a created",
        ("v1", "secrets", "a"),
        {"data": {"key": encoded("value")}, "type": "example.test/kind"},
    ),
    "secret docker-registry": Case(
        "secret docker-registry a --docker-server=r.test --docker-username=u --docker-password=p",
        "secret/a created",
        ("v1", "secrets", "a"),
        {"type": "kubernetes.io/dockerconfigjson"},
    ),
    "service clusterip": Case(
        "service clusterip a --tcp=80:8080 --tcp=443",
        "service/a created",
        ("v1", "services", "a"),
        {
            "spec": {
                "type": "ClusterIP",
                "selector": {"app": "a"},
                "sessionAffinity": "None",
                "ipFamilyPolicy": "SingleStack",
                "ports": [
                    {"name": "80-8080", "port": 80, "targetPort": 8080, "protocol": "TCP"},
                    {"name": "443", "port": 443, "targetPort": 443},
                ],
            }
        },
    ),
    "service headless": Case(
        "service clusterip a --clusterip=None",
        "service/a created",
        ("v1", "services", "a"),
        {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
    ),
    "service nodeport": Case(
        "service nodeport a --tcp=80:8080",
        "service/a created",
        ("v1", "services", "a"),
        {"spec": {"type": "NodePort", "externalTrafficPolicy": "Cluster"}},
    ),
    "service loadbalancer": Case(
        "service loadbalancer a --tcp=80",
        "service/a created",
        ("v1", "services", "a"),
        {"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}},
    ),
    "service externalname": Case(
        "service externalname a --external-name=outside.test",
        "service/a created",
        ("v1", "services", "a"),
        {"spec": {"type": "ExternalName", "externalName": "outside.test"}},
    ),
    "deployment": Case(
        "deployment a --image=example.test/a:1 --replicas=2 --port=8080",
        "deployment.apps/a created",
        ("apps/v1", "deployments", "a"),
        {
            "metadata": {"labels": {"app": "a"}, "generation": 1},
            "spec": {
                "replicas": 2,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": {"app": "a"}},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "a",
                                "image": "example.test/a:1",
                                "imagePullPolicy": "IfNotPresent",
                                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                                "terminationMessagePath": "/dev/termination-log",
                            }
                        ],
                        "restartPolicy": "Always",
                        "dnsPolicy": "ClusterFirst",
                        "terminationGracePeriodSeconds": 30,
                    }
                },
            },
        },
    ),
    "deployment with a command": Case(
        "deployment a --image=example.test/a -- sh -c true",
        "deployment.apps/a created",
        ("apps/v1", "deployments", "a"),
        {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {"command": ["sh", "-c", "true"], "imagePullPolicy": "Always"}
                        ]
                    }
                }
            }
        },
    ),
    "job": Case(
        "job a --image=example.test/a:1 -- train --fast",
        "job.batch/a created",
        ("batch/v1", "jobs", "a"),
        {
            "spec": {
                "backoffLimit": 6,
                "completions": 1,
                "parallelism": 1,
                "completionMode": "NonIndexed",
                "suspend": False,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"command": ["train", "--fast"]}],
                    }
                },
            }
        },
    ),
    "cronjob": Case(
        "cronjob a --image=example.test/a:1 --schedule=0_3_*_*_*",
        "cronjob.batch/a created",
        ("batch/v1", "cronjobs", "a"),
        {
            "spec": {
                "schedule": "0 3 * * *",
                "concurrencyPolicy": "Allow",
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "suspend": False,
            }
        },
    ),
    "serviceaccount": Case(
        "serviceaccount a", "serviceaccount/a created", ("v1", "serviceaccounts", "a"), {}
    ),
    "role": Case(
        "role a --verb=get,list --resource=pods,deployments.apps/scale",
        "role.rbac.authorization.k8s.io/a created",
        (RBAC, "roles", "a"),
        {
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["deployments/scale"]},
            ]
        },
    ),
    "role with names": Case(
        "role a --verb=get --resource=secrets --resource-name=one --resource-name=two",
        "role.rbac.authorization.k8s.io/a created",
        (RBAC, "roles", "a"),
        {"rules": [{"resourceNames": ["one", "two"], "resources": ["secrets"]}]},
    ),
    "rolebinding": Case(
        "rolebinding a --clusterrole=view --user=ann --group=team --serviceaccount=other:bot",
        "rolebinding.rbac.authorization.k8s.io/a created",
        (RBAC, "rolebindings", "a"),
        {
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "Group", "name": "team"},
                {"kind": "ServiceAccount", "name": "bot", "namespace": "other"},
            ],
        },
    ),
    "quota": Case(
        "quota a --hard=cpu=1500m,pods=2 --scopes=NotTerminating",
        "resourcequota/a created",
        ("v1", "resourcequotas", "a"),
        {"spec": {"hard": {"cpu": "1500m", "pods": "2"}, "scopes": ["NotTerminating"]}},
    ),
    "poddisruptionbudget": Case(
        "poddisruptionbudget a --selector=app=web --min-available=50%",
        "poddisruptionbudget.policy/a created",
        ("policy/v1", "poddisruptionbudgets", "a"),
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}},
    ),
    "ingress": Case(
        "ingress a --class=nginx --rule=web.test/path*=web:80,tls=cert --annotation=k=v",
        "ingress.networking.k8s.io/a created",
        ("networking.k8s.io/v1", "ingresses", "a"),
        {
            "metadata": {"annotations": {"k": "v"}},
            "spec": {
                "ingressClassName": "nginx",
                "rules": [
                    {
                        "host": "web.test",
                        "http": {
                            "paths": [
                                {
                                    "path": "/path",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ],
                "tls": [{"hosts": ["web.test"], "secretName": "cert"}],
            },
        },
    ),
}
CLUSTER = {
    "namespace": Case("namespace NAME", "namespace/NAME created", ("v1", "namespaces", "NAME"), {
        "metadata": {"labels": {"kubernetes.io/metadata.name": "NAME"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }),
    "clusterrole": Case(
        "clusterrole NAME --verb=get --resource=nodes",
        "clusterrole.rbac.authorization.k8s.io/NAME created",
        (RBAC, "clusterroles", "NAME"),
        {"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]},
    ),
    "clusterrole of urls": Case(
        "clusterrole NAME --verb=get --non-resource-url=/logs/*",
        "clusterrole.rbac.authorization.k8s.io/NAME created",
        (RBAC, "clusterroles", "NAME"),
        {"rules": [{"nonResourceURLs": ["/logs/*"], "verbs": ["get"]}]},
    ),
    "clusterrole aggregated": Case(
        "clusterrole NAME --aggregation-rule=example.test/none=NAME",
        "clusterrole.rbac.authorization.k8s.io/NAME created",
        (RBAC, "clusterroles", "NAME"),
        {
            "aggregationRule": {
                "clusterRoleSelectors": [{"matchLabels": {"example.test/none": "NAME"}}]
            }
        },
    ),
    "clusterrolebinding": Case(
        "clusterrolebinding NAME --clusterrole=view --user=ann",
        "clusterrolebinding.rbac.authorization.k8s.io/NAME created",
        (RBAC, "clusterrolebindings", "NAME"),
        {"roleRef": {"name": "view"}, "subjects": [{"kind": "User", "name": "ann"}]},
    ),
    "priorityclass": Case(
        "priorityclass NAME --value=1000 --description=high --preemption-policy=Never",
        "priorityclass.scheduling.k8s.io/NAME created",
        ("scheduling.k8s.io/v1", "priorityclasses", "NAME"),
        {"value": 1000, "description": "high", "preemptionPolicy": "Never"},
    ),
}  # fmt: skip


def words(argv: str) -> list[str]:
    return [word.replace("_", " ") for word in argv.split()]


@pytest.mark.parametrize("case", NAMESPACED.values(), ids=NAMESPACED.keys())
def test_create(kubectl: Kubectl, objects: Objects, case: Case) -> None:
    assert kubectl("create", *words(case.argv)).out == case.said + "\n"
    stored = objects.get(*case.where)
    assert contains(stored, case.expected), stored
    managers = {entry["manager"] for entry in stored["metadata"].get("managedFields", [])}
    assert "kubectl-create" in managers or not case.expected


@pytest.mark.parametrize("case", CLUSTER.values(), ids=CLUSTER.keys())
def test_create_of_the_cluster(admin: Kubectl, cluster: Objects, unique: str, case: Case) -> None:
    def named(text: Any) -> Any:
        if isinstance(text, dict):
            return {key: named(value) for key, value in text.items()}
        if isinstance(text, list):
            return [named(value) for value in text]
        return text.replace("NAME", f"case-{unique}") if isinstance(text, str) else text

    said = admin("create", *words(named(case.argv)))
    assert said.out == named(case.said) + "\n"
    api_version, plural, name = map(named, case.where)
    stored = cluster.get(api_version, plural, name)
    assert contains(stored, named(case.expected)), stored
    resource = plural if "/" not in api_version else f"{plural}.{api_version.split('/')[0]}"
    assert "deleted" in admin("delete", resource, name, "--wait=false").out


def test_services_get_addresses_and_node_ports(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "service", "clusterip", "inner", "--tcp=80")
    kubectl("create", "service", "nodeport", "outer", "--tcp=80", "--node-port=0")
    inner, outer = (objects.get("v1", "services", name)["spec"] for name in ("inner", "outer"))
    assert inner["clusterIP"].startswith("10.") and inner["clusterIPs"] == [inner["clusterIP"]]
    assert inner["clusterIP"] != outer["clusterIP"] and inner["ipFamilies"] == ["IPv4"]
    assert 30000 <= outer["ports"][0]["nodePort"] <= 32767
    taken = str(outer["ports"][0]["nodePort"])
    refused = kubectl.fails(
        "create", "service", "nodeport", "b", "--tcp=80", f"--node-port={taken}"
    )
    assert "provided port is already allocated" in refused


def test_files_become_configmaps_and_secrets(
    kubectl: Kubectl, objects: Objects, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "env").write_text("A=1\nB=2\n")
    kubectl(
        "create",
        "configmap",
        "files",
        f"--from-file={tmp_path}/text",
        f"--from-file=raw={tmp_path}/bytes",
    )
    stored = objects.get("v1", "configmaps", "files")
    assert stored["data"] == {"text": "hello"} and stored["binaryData"] == {"raw": "//4="}
    kubectl("create", "secret", "generic", "env", f"--from-env-file={tmp_path}/env")
    assert objects.get("v1", "secrets", "env")["data"] == {"A": encoded("1"), "B": encoded("2")}


def test_secret_tls(kubectl: Kubectl, objects: Objects, tls_pair: tuple[Path, Path]) -> None:
    cert, key = tls_pair
    said = kubectl("create", "secret", "tls", "pair", f"--cert={cert}", f"--key={key}")
    assert said.out == "secret/pair created\n"
    stored = objects.get("v1", "secrets", "pair")
    assert stored["type"] == "kubernetes.io/tls"
    assert stored["data"]["tls.crt"] == encoded(cert.read_text())


def test_job_from_cronjob(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "-f", "-", stdin=manifests.cronjob())
    said = kubectl("create", "job", "now", "--from=cronjob/nightly")
    assert said.out == "job.batch/now created\n"
    job = objects.get("batch/v1", "jobs", "now")
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    owner = job["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "nightly", True)


def test_run_dry_on_the_server(kubectl: Kubectl, objects: Objects) -> None:
    made = kubectl.json(
        "run", "one", "--image=example.test/a:1", "--env=A=1", "--labels=x=y", "--port=80",
        "--dry-run=server",
    )  # fmt: skip
    assert made["metadata"]["uid"] and made["metadata"]["labels"] == {"x": "y"}
    assert made["spec"]["serviceAccountName"] == "default"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    tolerated = {toleration["key"] for toleration in made["spec"]["tolerations"]}
    assert tolerated == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    mounts = made["spec"]["containers"][0]["volumeMounts"]
    assert mounts[0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert objects.find("v1", "pods", "one") is None


def test_run_makes_a_pod_and_exposes_it(kubectl: Kubectl, objects: Objects) -> None:
    said = kubectl("run", "one", "--image=example.test/a:1", "--port=80", "--expose")
    assert sorted(said.lines) == ["pod/one created", "service/one created"]
    assert objects.get("v1", "services", "one")["spec"]["selector"] == {"run": "one"}


def test_run_dry_on_the_client_asks_for_nothing(kubectl: Kubectl, objects: Objects) -> None:
    made = kubectl.json("run", "one", "--image=example.test/a:1", "--dry-run=client")
    assert "uid" not in made["metadata"] and objects.find("v1", "pods", "one") is None


def test_expose(kubectl: Kubectl, objects: Objects) -> None:
    kubectl(
        "create", "deployment", "web", "--image=example.test/a:1", "--replicas=0", "--port=8080"
    )
    said = kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080", "--name=front")
    assert said.out == "service/front exposed\n"
    spec = objects.get("v1", "services", "front")["spec"]
    assert contains(spec, {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]})
    assert kubectl("expose", "service", "front", "--name=again", "--port=81").out == (
        "service/again exposed\n"
    )


def test_autoscale(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "deployment", "web", "--image=example.test/a:1", "--replicas=0")
    said = kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    assert said.out == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    expected: Obj = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
    }
    newer = objects.get("autoscaling/v2", "horizontalpodautoscalers", "web")
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    assert contains(newer["spec"], expected | {"metrics": [metric]})
    older = objects.get("autoscaling/v1", "horizontalpodautoscalers", "web")
    assert contains(older["spec"], expected | {"targetCPUUtilizationPercentage": 80})


REFUSED = {
    "a name that is none": ("configmap Not_A_Name", 'ConfigMap "Not_A_Name" is invalid'),
    "a schedule that is none": (
        "cronjob a --image=i --schedule=never",
        "spec.schedule: Invalid value",
    ),
    "a binding that names no role": (
        "rolebinding a --user=u",
        "exactly one of clusterrole or role",
    ),
    "a quota that is none": ("quota a --hard=cpu=lots", "quantities must match"),
    "a label value too long": (
        "deployment " + "x" * 64 + " --image=i",
        "must be no more than 63 ",
    ),
}


@pytest.mark.parametrize(("argv", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(kubectl: Kubectl, argv: str, message: str) -> None:
    assert message in kubectl.fails("create", *argv.split())


def test_create_twice(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "a")
    refused = kubectl.fails("create", "configmap", "a")
    assert 'error: failed to create configmap: configmaps "a" already exists' in refused


def test_create_into_no_namespace(kubectl: Kubectl, unique: str) -> None:
    refused = kubectl.fails("create", "configmap", "a", "-n", f"none-{unique}")
    assert f'namespaces "none-{unique}" not found' in refused


def test_create_from_a_file_of_many(kubectl: Kubectl, objects: Objects) -> None:
    many = [manifests.configmap("a"), manifests.configmap("b"), manifests.service("c")]
    said = kubectl("create", "-f", "-", stdin=many)
    assert said.lines == ["configmap/a created", "configmap/b created", "service/c created"]
    refused = kubectl.fails("create", "-f", "-", stdin=many)
    assert refused.count("(AlreadyExists)") == 3


def test_create_with_a_generated_name(kubectl: Kubectl, objects: Objects) -> None:
    template = manifests.configmap()
    template["metadata"] = {"generateName": "made-"}
    names = {kubectl("create", "-f", "-", "-o", "name", stdin=template).out for _ in range(2)}
    assert len(names) == 2 and all(name.startswith("configmap/made-") for name in names)


def test_create_raw(kubectl: Kubectl, objects: Objects, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    said = kubectl("create", "--raw", path, "-f", "-", stdin=manifests.configmap("a", x="1"))
    assert said.json()["data"] == {"x": "1"}


def test_create_saves_the_config_for_apply(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "-f", "-", "--save-config", stdin=manifests.configmap("a", x="1"))
    annotations = objects.get("v1", "configmaps", "a")["metadata"]["annotations"]
    assert '"data":{"x":"1"}' in annotations["kubectl.kubernetes.io/last-applied-configuration"]

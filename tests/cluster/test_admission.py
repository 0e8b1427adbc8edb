"""Built-in admission: quotas, limits, priorities, service accounts, pod security."""

from __future__ import annotations

from typing import Any

from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]


def pod(name: str, **resources: Obj) -> Obj:
    made = manifests.pod(name)
    made["spec"]["containers"][0]["resources"] = resources
    return made


def post(objects: Objects, plural: str, obj: Obj) -> Any:
    return objects.backend.request("POST", objects.path(obj["apiVersion"], plural), obj)


def quota(objects: Objects, **hard: str) -> None:
    spec = {"hard": {k.replace("_", "."): v for k, v in hard.items()}}
    objects.create(
        "resourcequotas",
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec},
    )
    eventually(lambda: objects.get("v1", "resourcequotas", "q").get("status", {}).get("hard"))


def used(objects: Objects) -> Obj:
    found: Obj = objects.get("v1", "resourcequotas", "q")["status"]["used"]
    return found


def test_quota_of_pods(objects: Objects) -> None:
    quota(objects, pods="2", requests_cpu="1")
    cpu = {"requests": {"cpu": "400m"}}
    assert post(objects, "pods", pod("a", **cpu)).code == 201
    assert post(objects, "pods", pod("b", **cpu)).code == 201
    third = post(objects, "pods", pod("c", **cpu))
    assert third.code == 403
    message = third.json()["message"]
    assert "exceeded quota: q, requested: pods=1,requests.cpu=400m" in message
    assert used(objects) == {"pods": "2", "requests.cpu": "800m"}
    bare = post(objects, "pods", pod("d"))
    assert bare.code == 403
    assert "failed quota: q: must specify requests.cpu" in bare.json()["message"]
    path = objects.path("v1", "pods", "a") + "?gracePeriodSeconds=0"
    assert objects.backend.request("DELETE", path).code == 200
    eventually(lambda: used(objects) == {"pods": "1", "requests.cpu": "400m"})
    assert post(objects, "pods", pod("e", **cpu)).code == 201


def test_quota_of_counts_is_exact_under_concurrency(objects: Objects) -> None:
    from concurrent.futures import ThreadPoolExecutor

    quota(objects, **{"count/configmaps": "5"})
    room = 5 - int(used(objects)["count/configmaps"])

    def make(number: int) -> int:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
        code: int = post(objects, "configmaps", obj).code
        return code

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(make, range(16)))
    assert codes.count(201) == room and set(codes) == {201, 403}


def test_limit_range(objects: Objects) -> None:
    limit = {
        "type": "Container",
        "default": {"cpu": "500m"},
        "defaultRequest": {"cpu": "100m"},
        "max": {"cpu": "1"},
    }
    objects.create(
        "limitranges",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l"},
            "spec": {"limits": [limit]},
        },
    )
    eventually(lambda: post(objects, "pods", pod("x", limits={"cpu": "2"})).code == 403)
    made = objects.create("pods", pod("a"))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "100m"},
    }
    assert "kubernetes.io/limit-ranger" in made["metadata"]["annotations"]
    refused = post(objects, "pods", pod("b", limits={"cpu": "2"})).json()["message"]
    assert "maximum cpu usage per Container is 1, but limit is 2" in refused


def test_priority(objects: Objects, cluster: Objects, unique: str) -> None:
    name = f"high-{unique}"
    cluster.create(
        "priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
        },
    )
    wanted = pod("a")
    wanted["spec"]["priorityClassName"] = name
    made = eventually(lambda: (r := post(objects, "pods", wanted)).code == 201 and r.json())
    assert made["spec"]["priority"] == 1000
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    wanted["spec"]["priorityClassName"] = "none-such"
    wanted["metadata"]["name"] = "b"
    refused = post(objects, "pods", wanted)
    assert (
        refused.code == 403 and "no PriorityClass with name none-such" in refused.json()["message"]
    )
    cluster.delete("scheduling.k8s.io/v1", "priorityclasses", name)


def test_service_account(objects: Objects) -> None:
    made = objects.create("pods", pod("a"))
    assert made["spec"]["serviceAccountName"] == "default"
    volume = made["spec"]["volumes"][0]
    assert volume["name"].startswith("kube-api-access-")
    mounts = made["spec"]["containers"][0]["volumeMounts"]
    assert [m["mountPath"] for m in mounts] == ["/var/run/secrets/kubernetes.io/serviceaccount"]
    other = pod("b")
    other["spec"]["serviceAccountName"] = "nobody"
    refused = post(objects, "pods", other)
    assert refused.code == 403 and 'serviceaccount "nobody" not found' in refused.json()["message"]


def test_pod_security(objects: Objects, cluster: Objects, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.patch("v1", "namespaces", namespace, {"metadata": {"labels": labels}})
    refused = eventually(lambda: (r := post(objects, "pods", pod("a"))).code == 403 and r)
    assert 'violates PodSecurity "restricted:latest"' in refused.json()["message"]
    good = pod("b")
    good["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    good["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert post(objects, "pods", good).code == 201

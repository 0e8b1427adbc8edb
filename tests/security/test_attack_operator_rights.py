"""What somebody gets who has the operator's token, or one of the roles for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.kube import KubeClient, load_kubeconfig
from corral.operator import rbac
from corral.operator.install import apply_objects
from corral.operator.manifests import InstallSettings, cluster_rules
from corral.operator.process import operator_client
from corral.operator.settings import NAMESPACE
from tests.backends import Backend, own_backend, own_scope
from tests.backends.base import Reply
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.conftest import set_up
from tests.cluster.operator.operators import beside, job, operating

Obj = dict[str, Any]
TRAINING = "training.corral.dev/v1alpha1"
OWNER = {
    "apiVersion": TRAINING, "kind": "TrainingJob", "name": "j", "uid": "u", "controller": True,
}  # fmt: skip


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("rights")) as backend:
        asyncio.run(set_up(str(backend.kubeconfig)))
        yield backend


@pytest.fixture(scope=own_scope)
def token(backend: Backend) -> str:
    """Of the operator's service account."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{rbac.NAME}/token"
    reply = backend.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert reply.code == 201, reply.body
    return str(reply.json()["status"]["token"])


def create(backend: Backend, token: str, plural: str, namespace: str, obj: Obj) -> Reply:
    return backend.request("POST", f"/api/v1/namespaces/{namespace}/{plural}", obj, token=token)


def pod(name: str, **meta: Any) -> Obj:
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def secret(name: str, **meta: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **meta}}


def refused(reply: Reply) -> bool:
    return reply.code == 403 and b"the operator creates" in reply.body


@pytest.mark.attack(
    "operator's token",
    "runs a pod of its own with it",
    "only pods of our jobs are taken",
)
def test_pods_that_no_job_owns_are_refused(backend: Backend, token: str, namespace: str) -> None:
    eventually(lambda: refused(create(backend, token, "pods", namespace, pod("free"))))
    owned = pod("owned", ownerReferences=[OWNER])
    assert create(backend, token, "pods", namespace, owned).code == 201


@pytest.mark.attack(
    "operator's token", "names an owner that is none of our kinds", "the pod is refused"
)
def test_owners_of_other_kinds_do_not_count(backend: Backend, token: str, namespace: str) -> None:
    others = ("apps/v1", "v1", "training.corral.dev.example.com/v1")
    for number, version in enumerate(others):
        owner = {**OWNER, "apiVersion": version}
        made = pod(f"p{number}", ownerReferences=[owner])
        eventually(lambda made=made: refused(create(backend, token, "pods", namespace, made)))


@pytest.mark.attack("operator's token", "runs a pod in kube-system", "refused, whoever owns it")
def test_nothing_runs_in_namespaces_of_the_system(backend: Backend, token: str) -> None:
    owned = pod("owned", ownerReferences=[OWNER])
    eventually(lambda: refused(create(backend, token, "pods", "kube-system", owned)))


def workload(kind: str, name: str, **meta: Any) -> Obj:
    """A Job or a Deployment, whose controller makes pods of any service account."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        version, spec = "batch/v1", {"template": template, "suspend": True}
    else:
        version = "apps/v1"
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


@pytest.mark.attack(
    "operator's token",
    "has pods made for it by a Job or a Deployment of its own",
    "those are taken for our jobs only, and nowhere in the system's namespaces",
)
@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_what_makes_pods_is_refused(
    backend: Backend, token: str, namespace: str, kind: str
) -> None:
    group = "batch" if kind == "Job" else "apps"

    def made(where: str, **meta: Any) -> Reply:
        path = f"/apis/{group}/v1/namespaces/{where}/{kind.lower()}s"
        return backend.request("POST", path, workload(kind, "free", **meta), token=token)

    eventually(lambda: refused(made(namespace)))
    assert refused(made("kube-system", ownerReferences=[OWNER]))
    owned = made(namespace, ownerReferences=[OWNER])
    assert owned.code == 201, owned.body


@pytest.mark.attack(
    "operator's token",
    "exchanges the image of a pod that is there",
    "the operator notes things on pods and changes no spec",
)
def test_specs_of_pods_stay(backend: Backend, token: str, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert backend.request("POST", pods, pod("there")).code == 201

    def patched(patch: Obj) -> Reply:
        kind = "application/strategic-merge-patch+json"
        return backend.request("PATCH", f"{pods}/there", patch, content_type=kind, token=token)

    image = {"spec": {"containers": [{"name": "c", "image": "evil"}]}}
    eventually(lambda: patched(image).code == 403)
    noted = patched({"metadata": {"annotations": {"note": "checkpoint"}}})
    assert noted.code == 200, noted.body


@pytest.mark.attack(
    "operator's token",
    "changes or deletes what the system's own namespaces run on: DNS by its Service or ConfigMap",
    "nothing is written or deleted there",
)
def test_the_system_s_namespaces_stay(backend: Backend, token: str) -> None:
    where = "/api/v1/namespaces/kube-system"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guarded"}}
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "guarded"},
        "spec": {"ports": [{"port": 53}]},
    }  # fmt: skip
    for plural, obj in (("configmaps", config), ("services", service)):
        assert backend.request("POST", f"{where}/{plural}", obj).code == 201
        path = f"{where}/{plural}/guarded"
        patch = {"metadata": {"labels": {"a": "b"}}}
        kind = "application/merge-patch+json"

        def changed(path: str = path, patch: Obj = patch, kind: str = kind) -> Reply:
            return backend.request("PATCH", path, patch, content_type=kind, token=token)

        eventually(lambda changed=changed: refused(changed()))
        assert refused(backend.request("DELETE", path, token=token))
        assert backend.request("DELETE", path).code == 200


@pytest.mark.attack(
    "operator's token",
    "makes a token Secret for another account",
    "only Secrets of our jobs are taken",
)
def test_secrets_that_no_job_owns_are_refused(backend: Backend, token: str, namespace: str) -> None:
    of_account = {
        **secret("stolen", annotations={"kubernetes.io/service-account.name": "default"}),
        "type": "kubernetes.io/service-account-token",
    }
    eventually(lambda: refused(create(backend, token, "secrets", namespace, of_account)))
    kube_system = create(backend, token, "secrets", "kube-system", of_account)
    assert refused(kube_system), kube_system.body


@pytest.mark.attack(
    "operator's token",
    "deletes Secrets of kube-system, where it may take back the tokens that machines join with",
    "those tokens are all that it deletes there",
)
def test_only_join_tokens_are_deleted(backend: Backend, token: str) -> None:
    where = "/api/v1/namespaces/kube-system/secrets"
    join = {**secret("bootstrap-token-abcdef"), "type": "bootstrap.kubernetes.io/token"}
    assert backend.request("POST", where, secret("kept")).code == 201
    made = create(backend, token, "secrets", "kube-system", join)
    assert made.code == 201, made.body
    path = f"{where}/kept"
    eventually(lambda: refused(backend.request("DELETE", path, token=token)))
    gone = backend.request("DELETE", f"{where}/bootstrap-token-abcdef", token=token)
    assert gone.code == 200, gone.body
    assert backend.request("DELETE", path).code == 200


@pytest.mark.attack(
    "operator's token",
    "changes a Secret, a Deployment, a Job or a pod of others by giving it an owner of our kinds",
    "what is there is judged by the owners that it had, and those stay as they are",
)
@pytest.mark.parametrize("owner", ["none", "other"])
@pytest.mark.parametrize("kind", ["Secret", "Deployment", "Job", "Pod"])
def test_objects_of_others_are_not_taken_over(
    backend: Backend, token: str, objects: Objects, kind: str, owner: str
) -> None:
    namespace = objects.namespace
    owners = [] if owner == "none" else [config_map_owner(objects)]
    path = made_by_others(backend, namespace, kind, ownerReferences=owners)
    eventually(lambda: refused(create(backend, token, "pods", namespace, pod("free"))))
    taken = {"metadata": {"ownerReferences": [*owners, OWNER]}}
    changed = patched(backend, token, path, {**taken, **change_of(kind)})
    assert changed.code == 403, changed.body
    only = patched(backend, token, path, taken)
    assert only.code == 403 and b"changes no owners" in only.body, only.body
    applied = {
        **backend.request("GET", path).json(),
        "metadata": {"name": "there", **taken["metadata"]},
    }
    applied.pop("status", None)
    query, yaml = f"{path}?fieldManager=thief&force=true", "application/apply-patch+yaml"
    reply = backend.request("PATCH", query, applied, content_type=yaml, token=token)
    assert reply.code == 403, reply.body


@pytest.mark.attack(
    "operator's token",
    "takes the owner away from an object of a job, so that it outlives the job",
    "owners stay as they are; what else an object of a job says may be changed",
)
@pytest.mark.parametrize("kind", ["Secret", "Deployment"])
def test_owners_are_not_taken_away(
    backend: Backend, token: str, objects: Objects, kind: str
) -> None:
    name = f"owns-{kind.lower()}"
    body = {"apiVersion": TRAINING, "kind": "TrainingJob", **job(name)}
    uid = objects.create("trainingjobs", body)["metadata"]["uid"]
    owner = {**OWNER, "name": name, "uid": uid}
    path = made_by_others(backend, objects.namespace, kind, ownerReferences=[owner])
    taken = {"metadata": {"ownerReferences": None}}
    eventually(lambda: b"changes no owners" in patched(backend, token, path, taken).body)
    kept = patched(backend, token, path, {**change_of(kind), "metadata": {"labels": {"a": "b"}}})
    assert kept.code == 200, kept.body


def made_by_others(backend: Backend, namespace: str, kind: str, **meta: Any) -> str:
    """Where an object called ``there`` is, which an administrator has made."""
    obj, group, plural = {
        "Secret": (secret("there", **meta), "api", "secrets"),
        "Pod": (pod("there", **meta), "api", "pods"),
        "Deployment": (workload("Deployment", "there", **meta), "apis/apps", "deployments"),
        "Job": (workload("Job", "there", **meta), "apis/batch", "jobs"),
    }[kind]
    path = f"/{group}/v1/namespaces/{namespace}/{plural}"
    reply = backend.request("POST", path, obj)
    assert reply.code == 201, reply.body
    return f"{path}/there"


def change_of(kind: str) -> Obj:
    """What somebody would like to change about it."""
    if kind == "Secret":
        return {"data": {"key": "ZXZpbA=="}}
    if kind == "Deployment":
        containers = [{"name": "c", "image": "evil"}]
        return {"spec": {"template": {"spec": {"containers": containers}}}}
    return {"spec": {"suspend": False}} if kind == "Job" else {}


def patched(backend: Backend, token: str, path: str, patch: Obj) -> Reply:
    kind = "application/merge-patch+json"
    return backend.request("PATCH", path, patch, content_type=kind, token=token)


def config_map_owner(objects: Objects) -> Obj:
    """A reference to an owner that is there, and none of our kinds."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owns"}}
    uid = objects.create("configmaps", body)["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owns", "uid": uid}


@pytest.mark.attack("operator's token", "lists all Secrets", "it gets only those it can name")
def test_secrets_cannot_be_listed(backend: Backend, token: str, namespace: str) -> None:
    for where in (f"/api/v1/namespaces/{namespace}/secrets", "/api/v1/secrets"):
        assert backend.request("GET", where, token=token).code == 403
        assert backend.request("GET", f"{where}?watch=1", token=token).code == 403


@pytest.mark.attack("operator's token", "gives itself more rights", "it writes no roles")
@pytest.mark.parametrize("plural", ["clusterroles", "clusterrolebindings"])
def test_roles_cannot_be_written(backend: Backend, token: str, plural: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
    assert backend.request("POST", path, {"metadata": {"name": "mine"}}, token=token).code == 403


# -- installed for some namespaces only ------------------------------------------------------------


@pytest.fixture
def bound(backend: Backend, namespace: str) -> Iterator[str]:
    """The operator may create pods and read Secrets in this namespace alone."""
    subject = rbac.service_account(NAMESPACE)
    chosen = rbac.access_objects(cluster_rules(), subject, namespace=NAMESPACE, tenants=[namespace])
    whole = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{rbac.WORKLOADS}"
    kept = backend.request("GET", whole).json()
    assert backend.request("DELETE", whole).code == 200
    asyncio.run(applied(backend, chosen))
    yield namespace
    fresh = {key: kept[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
    path = whole.rpartition("/")[0]
    reply = backend.request("POST", path, {**fresh, "metadata": {"name": rbac.WORKLOADS}})
    assert reply.code == 201, reply.body


async def applied(backend: Backend, objects: list[Obj]) -> None:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        await apply_objects(client, objects)


@pytest.mark.attack(
    "operator's token",
    "reads Secrets of a namespace that did not opt in",
    "rights are bound in chosen namespaces alone",
)
def test_rights_end_at_chosen_namespaces(backend: Backend, token: str, bound: str) -> None:
    assert backend.request("POST", f"/api/v1/namespaces/{bound}/secrets", secret("s")).code == 201
    own = f"/api/v1/namespaces/{bound}/secrets/s"
    eventually(lambda: backend.request("GET", own, token=token).code == 200)
    other = "/api/v1/namespaces/default"
    assert backend.request("GET", f"{other}/secrets/s", token=token).code == 403
    owned = pod("owned", ownerReferences=[OWNER])
    assert create(backend, token, "pods", "default", owned).code == 403


async def test_a_job_elsewhere_says_what_is_missing(
    backend: Backend, token: str, bound: str, cluster: Objects, tmp_path: Path
) -> None:
    """Its status names the right and the namespace within seconds."""
    config = json.loads(backend.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    own = tmp_path / "operator.kubeconfig"
    own.write_text(json.dumps(config))
    default = Objects(backend, "default")
    default.create("trainingjobs", {"apiVersion": TRAINING, "kind": "TrainingJob", **job("stuck")})

    def is_told() -> bool:
        found = default.get(TRAINING, "trainingjobs", "stuck")
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any("forbidden" in condition["message"] for condition in conditions)

    try:
        async with (
            operator_client(load_kubeconfig([own]).resolve()) as client,
            operating(client, beside()),
        ):
            assert await asyncio.to_thread(eventually, is_told)
    finally:
        default.delete(TRAINING, "trainingjobs", "stuck")


# -- roles for people ------------------------------------------------------------------------------


@pytest.mark.attack(
    "roles for people", "writes a status, or what the operator records", "`edit` has neither right"
)
@pytest.mark.parametrize(
    ("verb", "plural", "allowed"),
    [
        ("create", "trainingjobs", True),
        ("patch", "trainingjobs/status", False),
        ("create", "checkpoints", False),
        ("patch", "checkpoints", False),
        ("delete", "checkpoints", True),
        ("patch", "checkpoints/status", False),
    ],
)
def test_what_editors_may(
    backend: Backend, objects: Objects, verb: str, plural: str, allowed: bool
) -> None:
    group = "rbac.authorization.k8s.io"
    objects.create(
        "rolebindings",
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "edits"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}],
        },
    )
    resource, _, sub = plural.partition("/")

    def may(verb: str, resource: str, sub: str) -> bool:
        asked = {
            "group": "training.corral.dev", "resource": resource, "subresource": sub,
            "verb": verb, "namespace": objects.namespace,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "eve", "resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(backend.request("POST", path, review).json()["status"]["allowed"])

    eventually(lambda: may("create", "trainingjobs", ""))
    assert may(verb, resource, sub) == allowed


def test_the_default_is_the_whole_cluster() -> None:
    assert InstallSettings().tenants == ()

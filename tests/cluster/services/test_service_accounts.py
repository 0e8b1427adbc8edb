"""Service accounts and their tokens: the same cases on every backend."""

from __future__ import annotations

import base64

from tests.cluster.manifests import obj
from tests.cluster.objects import Objects, eventually
from tests.cluster.services.service_stage import pod

TOKEN = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


def token_secret(account: str, name: str = "token") -> dict[str, object]:
    made = obj("v1", "Secret", name, type=TOKEN)
    made["metadata"]["annotations"] = {NAME: account}
    return made


def filled(objects: Objects, name: str = "token") -> dict[str, bytes]:
    def data() -> dict[str, str]:
        return dict(objects.get("v1", "secrets", name).get("data") or {})

    eventually(lambda: "token" in data())
    return {key: base64.b64decode(value) for key, value in data().items()}


def test_the_default_account_comes_back(objects: Objects) -> None:
    before = objects.get("v1", "serviceaccounts", "default")["metadata"]["uid"]
    objects.delete("v1", "serviceaccounts", "default")

    def uid() -> str:
        found = objects.find("v1", "serviceaccounts", "default") or {"metadata": {"uid": before}}
        return str(found["metadata"]["uid"])

    eventually(lambda: uid() != before)
    objects.create("pods", pod("one"))


def test_the_root_ca_comes_back(objects: Objects) -> None:
    before = objects.get("v1", "configmaps", "kube-root-ca.crt")
    objects.delete("v1", "configmaps", "kube-root-ca.crt")
    eventually(lambda: objects.find("v1", "configmaps", "kube-root-ca.crt"))
    after = objects.get("v1", "configmaps", "kube-root-ca.crt")
    assert after["data"] == before["data"]
    objects.patch("v1", "configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "no"}})
    eventually(
        lambda: objects.get("v1", "configmaps", "kube-root-ca.crt")["data"] == before["data"]
    )


def test_other_accounts_do_not(objects: Objects) -> None:
    objects.create("serviceaccounts", obj("v1", "ServiceAccount", "robot"))
    objects.delete("v1", "serviceaccounts", "robot")
    objects.delete("v1", "serviceaccounts", "default")
    eventually(lambda: objects.find("v1", "serviceaccounts", "default"))
    assert objects.find("v1", "serviceaccounts", "robot") is None


def test_a_token_secret_is_filled_and_works(objects: Objects) -> None:
    account = objects.create("serviceaccounts", obj("v1", "ServiceAccount", "robot"))
    objects.create("secrets", token_secret("robot"))
    data = filled(objects)
    assert data["namespace"].decode() == objects.namespace
    assert data["ca.crt"].startswith(b"-----BEGIN CERTIFICATE-----")
    notes = objects.get("v1", "secrets", "token")["metadata"]["annotations"]
    assert notes[UID] == account["metadata"]["uid"]
    review = obj("authentication.k8s.io/v1", "SelfSubjectReview", "")
    del review["metadata"]
    reply = objects.backend.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
        token=data["token"].decode(),
    )
    assert reply.code == 201, reply.body
    user = reply.json()["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{objects.namespace}:robot"


def test_a_token_secret_goes_with_its_account(objects: Objects) -> None:
    objects.create("serviceaccounts", obj("v1", "ServiceAccount", "robot"))
    objects.create("secrets", token_secret("robot"))
    filled(objects)
    objects.delete("v1", "serviceaccounts", "robot")
    eventually(lambda: objects.find("v1", "secrets", "token") is None)


def test_what_was_taken_out_of_a_secret_is_put_back(objects: Objects) -> None:
    objects.create("serviceaccounts", obj("v1", "ServiceAccount", "robot"))
    objects.create("secrets", token_secret("robot"))
    first = filled(objects)
    change = {"token": None, "namespace": None, "ca.crt": "eA==", "mine": "eA=="}
    objects.patch("v1", "secrets", "token", {"data": change})
    eventually(lambda: "namespace" in filled(objects))
    data = filled(objects)
    assert data["token"].count(b".") == 2
    assert data["namespace"].decode() == objects.namespace
    assert data["ca.crt"] == first["ca.crt"]
    assert data["mine"] == b"x"


def test_a_token_secret_of_nobody_is_removed(objects: Objects) -> None:
    objects.create("secrets", token_secret("nobody"))
    eventually(lambda: objects.find("v1", "secrets", "token") is None)

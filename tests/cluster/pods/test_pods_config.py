"""What containers are given: variables of every kind, volumes of every kind, kept up to date."""

from __future__ import annotations

import base64
import json
import os

import pytest

from tests.backends import Node
from tests.cluster.objects import eventually
from tests.cluster.pods.pods import Obj, Pods, container, python, shell


def config_map(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def mounted(script: str, path: str, volume: str = "v", **more: object) -> Obj:
    """A container that finds the volume's place in $V in every mode."""
    return shell(
        script,
        volumeMounts=[{"name": volume, "mountPath": path}],
        env=[{"name": "V", "value": path}],
        **more,
    )


def test_variables_of_every_kind(pods: Pods) -> None:
    pods.objects.create("configmaps", config_map("settings", RATE="0.1", mode="fast"))
    pods.objects.create("secrets", secret("keys", TOKEN="s3cret"))
    env = [
        {"name": "PLAIN", "value": "text"},
        {"name": "BUILT", "value": "$(PLAIN)-$(RATE)-$$(PLAIN)"},
        {
            "name": "FROM_MAP",
            "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}},
        },
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
        {
            "name": "OPTIONAL",
            "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": True}},
        },
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {
            "name": "MEMORY",
            "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
        },
    ]
    body = python(
        "import json, os; print(json.dumps(dict(os.environ)))",
        env=env,
        envFrom=[{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        resources={"requests": {"memory": "16Mi"}},
    )
    shown = json.loads(pods.output("vars", body, metadata={"labels": {"app": "trainer"}}))
    pod = pods.get("vars")
    assert shown["PLAIN"] == "text"
    assert shown["BUILT"] == "text-0.1-$(PLAIN)"
    assert shown["FROM_MAP"] == "fast"
    assert shown["FROM_SECRET"] == shown["TOKEN"] == "s3cret"
    assert shown["RATE"] == "0.1"
    assert "OPTIONAL" not in shown
    assert (shown["NAME"], shown["SPACE"]) == ("vars", pods.namespace)
    assert shown["NODE"] == pods.node.name
    assert shown["IP"] == pod["status"]["podIP"]
    assert shown["LABEL"] == "trainer"
    assert shown["MEMORY"] == "16"
    assert shown["HOSTNAME"] == "vars"


def test_missing_config_map_is_waited_for(pods: Pods) -> None:
    reference = {"configMapKeyRef": {"name": "later", "key": "x"}}
    pods.run("waits", shell("echo $X", env=[{"name": "X", "valueFrom": reference}]))
    pod = pods.wait("waits", lambda p: _waiting(p) == "CreateContainerConfigError")
    assert container(pod)["state"]["waiting"]["message"] == 'configmap "later" not found'
    pods.objects.create("configmaps", config_map("later", x="at last"))
    pods.phase("waits", "Succeeded")
    assert pods.log("waits") == "at last\n"


def _waiting(pod: Obj) -> str:
    if not pod["status"].get("containerStatuses"):
        return ""
    return str((container(pod)["state"].get("waiting") or {}).get("reason"))


def test_empty_dir_is_shared_and_goes(pods: Pods) -> None:
    writer = {**mounted("echo data > $V/file", "/shared"), "name": "writer"}
    reader = mounted("until test -f $V/file; do sleep 0.05; done; cat $V/file", "/shared")
    pods.run("shared", reader, writer, volumes=[{"name": "v", "emptyDir": {}}])
    pods.phase("shared", "Succeeded")
    assert pods.log("shared", "main") == "data\n"
    uid = pods.get("shared")["metadata"]["uid"]
    pods.delete("shared")
    pods.gone("shared")
    data = pods.node.folder / "data"  # where folders go while we look
    eventually(lambda: not any(uid in folders for _, folders, _ in os.walk(data)))


def test_config_map_volume_follows_changes(pods: Pods) -> None:
    pods.objects.create("configmaps", config_map("live", value="one"))
    script = "cat $V/value; echo; until grep -q two $V/value; do sleep 0.05; done; cat $V/value"
    pods.run(
        "live",
        mounted(script, "/config"),
        volumes=[{"name": "v", "configMap": {"name": "live"}}],
    )
    eventually(lambda: "one" in _log(pods, "live"))
    pods.objects.patch("v1", "configmaps", "live", {"data": {"value": "two"}})
    pods.phase("live", "Succeeded", seconds=120)
    assert pods.log("live") == "one\ntwo"


def _log(pods: Pods, name: str) -> str:
    path = f"{pods.objects.path('v1', 'pods', name)}/log"
    return pods.objects.backend.request("GET", path).body.decode()


def test_secret_items_and_modes(pods: Pods) -> None:
    pods.objects.create("secrets", secret("files", a="alpha", b="beta"))
    volume = {
        "secretName": "files",
        "items": [{"key": "a", "path": "deep/first", "mode": 0o400}],
    }
    text = pods.output(
        "items",
        mounted("cat $V/deep/first; echo; ls $V; stat -L -c %a $V/deep/first", "/secret"),
        volumes=[{"name": "v", "secret": volume}],
    )
    assert text == "alpha\ndeep\n400\n"


def test_projected_volume_with_token(pods: Pods) -> None:
    pods.objects.create("configmaps", config_map("part", x="1"))
    sources = [
        {"configMap": {"name": "part"}},
        {"downwardAPI": {"items": [{"path": "me", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
    ]
    text = pods.output(
        "projected",
        mounted("cat $V/x $V/me; echo; cat $V/token", "/projected"),
        volumes=[{"name": "v", "projected": {"sources": sources}}],
    )
    first, token = text.split("\n", 1)
    assert first == "1projected"
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["aud"] == ["vault"]
    assert claims["sub"] == f"system:serviceaccount:{pods.namespace}:default"
    assert claims["kubernetes.io"]["pod"]["name"] == "projected"


def test_service_account_reaches_the_api(pods: Pods) -> None:
    """With the variables, token and CA that every pod has, as client libraries use them."""
    code = """
import json, os, ssl, urllib.request
root = json.loads(os.environ.get("CORRAL_MOUNTS", "{}")).get(
    "/var/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/kubernetes.io/serviceaccount"
)
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
token = open(f"{root}/token").read()
space = open(f"{root}/namespace").read()
context = ssl.create_default_context(cafile=f"{root}/ca.crt")
body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    data=json.dumps(body).encode(),
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
)
with urllib.request.urlopen(request, context=context, timeout=30) as answer:
    print(json.load(answer)["status"]["userInfo"]["username"], space)
"""
    text = pods.output("asks", python(code))
    assert text == f"system:serviceaccount:{pods.namespace}:default {pods.namespace}\n"


def test_downward_api_volume_follows_labels(pods: Pods) -> None:
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    script = "until grep -q stage $V/labels; do sleep 0.05; done; cat $V/labels"
    pods.run(
        "labels",
        mounted(script, "/info"),
        volumes=[{"name": "v", "downwardAPI": {"items": items}}],
        metadata={"labels": {"app": "x"}},
    )
    pods.ready("labels")
    pods.objects.patch("v1", "pods", "labels", {"metadata": {"labels": {"stage": "two"}}})
    pods.phase("labels", "Succeeded", seconds=120)
    assert pods.log("labels") == 'app="x"\nstage="two"\n' or pods.log("labels") == (
        'app="x"\nstage="two"'
    )


def test_host_path(pods: Pods) -> None:
    place = pods.node.folder / "data" / "host"
    volume = {"path": str(place), "type": "DirectoryOrCreate"}
    pods.output(
        "host",
        mounted("echo kept > $V/file", "/host"),
        volumes=[{"name": "v", "hostPath": volume}],
    )
    assert (place / "file").read_text() == "kept\n"


def test_sub_path_and_read_only(pods: Pods) -> None:
    mounts = [{"name": "v", "mountPath": "/part", "subPathExpr": "of-$(WHO)"}]
    body = shell(
        "echo x > $PART/file",
        volumeMounts=mounts,
        env=[{"name": "WHO", "value": "me"}, {"name": "PART", "value": "/part"}],
    )
    reader = {**mounted("cat $V/of-me/file", "/all"), "name": "reader"}
    first, volumes = {**body, "name": "w"}, [{"name": "v", "emptyDir": {}}]
    pods.run("parts", reader, initContainers=[first], volumes=volumes)
    pods.phase("parts", "Succeeded")
    assert pods.log("parts", "reader") == "x\n"


def test_working_dir_and_args(pods: Pods) -> None:
    body = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", 'pwd; echo "$0" "$1"'],
        "args": ["$(A)", "two"],
        "env": [{"name": "A", "value": "one"}],
        "workingDir": "/tmp",
    }
    assert pods.output("words", body) == "/tmp\none two\n"


def test_python_image_without_command(pods: Pods) -> None:
    body = {"name": "main", "image": "python:3.12", "args": ["python", "-c", "print(6 * 7)"]}
    assert pods.output("entry", body) == "42\n"


def test_volumes_in_volumes(pods: Pods, node: Node) -> None:
    """What is written beside a mount goes to the volume around it, as does a working directory."""
    if node.name.startswith("plain"):
        pytest.skip("plain processes mount nothing")
    pods.objects.create("configmaps", config_map("settings", key="value"))
    mounts = [
        {"name": "v", "mountPath": "/data"},
        {"name": "settings", "mountPath": "/data/settings/deep"},
        {"name": "settings", "mountPath": "/data/file", "subPath": "key"},
        {"name": "other", "mountPath": "/data/other"},
    ]
    script = (
        "cat /data/settings/deep/key /data/file; echo; pwd; echo two > two; echo one > /data/one;"
        " mkdir /data/folder && echo three > /data/folder/three; echo no > /data/other/no"
    )
    writer = {**shell(script, volumeMounts=mounts, workingDir="/data/work"), "name": "w"}
    reader = {**mounted("cd $V; cat one work/two folder/three; ls other", "/all"), "name": "reader"}
    pods.run(
        "nested",
        reader,
        initContainers=[writer],
        volumes=[
            {"name": "v", "emptyDir": {}},
            {"name": "other", "emptyDir": {}},
            {"name": "settings", "configMap": {"name": "settings"}},
        ],
        securityContext={"runAsUser": 1234, "runAsGroup": 1234},
    )
    pods.phase("nested", "Succeeded")
    assert pods.log("nested", "w") == "valuevalue\n/data/work\n"
    assert pods.log("nested", "reader") == "one\ntwo\nthree\n"


def test_what_a_node_cannot_do_is_said(pods: Pods, node: Node) -> None:
    handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "other"}
    body = {**handler, "metadata": {"name": "other"}}
    reply = pods.objects.backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)
    assert reply.code in (201, 409), reply.body
    pods.run(
        "asking",
        shell("true"),
        runtimeClassName="other",
        hostUsers=False,
        securityContext={"supplementalGroups": [1234]},
    )
    pods.phase("asking", "Succeeded")
    mode = node.name
    wanted = {
        "runtimeClassName other": True,
        "hostUsers: false": mode == "plain",
        "supplementalGroups": mode != "root",
    }

    def said() -> bool:
        words = [text for reason, text in pods.events("asking") if reason == "NotHonored"]
        found = {name: any(f"without {name}" in text for text in words) for name in wanted}
        return found == wanted

    eventually(said)

"""Texts that take a matcher their length squared or cubed: whoever reads them stands still."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from corral.api.spot.rules import duration_seconds
from corral.checkpoints.signing.v4 import amazon
from corral.checkpoints.signing.xml import IF_ABSENT_S3, XmlSigner
from corral.clouds.consoles import host_keys_of
from corral.cluster.apiserver.crd.formats import is_format
from corral.cluster.node.container.environment import build, command_line
from corral.cluster.node.pulling.modules import ImageConfig
from corral.cluster.node.volumes.pod_volumes import PodVolumes
from corral.cluster.node.volumes.sources import ConfigError, PodContext
from corral.cluster.node.wasm.command import INPUTS, wasm_command
from corral.families.mpijob.lifecycle.diagnosis import blamed
from corral.oci.challenges import challenges
from corral.operator.reports.plans import PLAN, plan_of
from tests.backends import Backend
from tests.cluster.objects import Objects
from tests.security.outsiders import outsider

Obj = dict[str, Any]
LONG = 300_000
"""Characters: a second for what reads them once, hours for what reads them again and again."""


# -- the API server --------------------------------------------------------------------------------


def pod(container: Obj) -> Obj:
    whole = {"name": "c", "image": "busybox", **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "long"},
        "spec": {"containers": [whole]},
    }


@pytest.mark.attack(
    "apiserver",
    "A quantity, a field's path or a schedule of hundreds of thousands of characters that nearly "
    "is one",
    "Read once, from one end to the other, and refused",
)
@pytest.mark.parametrize(
    "container",
    [
        {"resources": {"requests": {"memory": "0" * LONG + "x"}}},
        {"resources": {"requests": {"memory": "1" * LONG + "x"}}},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "['" * (LONG // 2)}}}]},
    ],
    ids=["zeros", "digits", "path"],
)
def test_values_that_nearly_are_some(
    backend: Backend, objects: Objects, container: Mapping[str, Any]
) -> None:
    reply = backend.request("POST", objects.path("v1", "pods"), pod(dict(container)))
    assert reply.code in (400, 422)


@pytest.mark.attack(
    "apiserver",
    "A schedule with an interval that is too long, or has hundreds of thousands of digits",
    "422: it is no duration",
)
@pytest.mark.parametrize("interval", ["999999999999h", "9" * 400 + "h", "0" * LONG])
def test_intervals_of_schedules(backend: Backend, objects: Objects, interval: str) -> None:
    template = pod({})["spec"] | {"restartPolicy": "Never"}
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "long"},
        "spec": {
            "schedule": f"@every {interval}",
            "jobTemplate": {"spec": {"template": {"spec": template}}},
        },
    }
    reply = backend.request("POST", objects.path("batch/v1", "cronjobs"), body)
    assert reply.code == 422
    assert "duration" in reply.json()["message"]


@pytest.mark.attack(
    "apiserver",
    "YAML with hundreds of thousands of line breaks after a key",
    "Read once, and refused",
)
def test_line_breaks_of_yaml(backend: Backend, objects: Objects) -> None:
    body = b'{"kind"' + b"\n" * LONG + b"x}"
    path = objects.path("v1", "configmaps")
    reply = backend.request("POST", path, body, content_type="application/yaml")
    assert reply.code == 400


@pytest.mark.attack(
    "apiserver",
    "A duration in a custom resource that has hundreds of thousands of digits",
    "Read once, and refused",
)
@pytest.mark.parametrize("text", ["1" * LONG, "1" * LONG + "x", "1" * 400 + "h", "1 " * LONG])
def test_durations_of_custom_resources(text: str) -> None:
    assert not is_format("duration", text)
    assert duration_seconds("1" * LONG) is None


# -- nodes -----------------------------------------------------------------------------------------


class Nothing:
    def config_map(self, name: str) -> Obj | None:
        return None

    def secret(self, name: str) -> Obj | None:
        return None


class Large:
    """A ConfigMap and a Secret as large as they may be."""

    def __init__(self) -> None:
        text = "eHh4" * (900 << 8)
        self._found: Obj = {"data": {"large": text, "small": "eA=="}}

    def config_map(self, name: str) -> Obj | None:
        return self._found

    def secret(self, name: str) -> Obj | None:
        return self._found


def built(entries: list[tuple[str, str]]) -> dict[str, str]:
    container = {"name": "c", "env": [{"name": name, "value": value} for name, value in entries]}
    whole = pod(container)
    whole["metadata"]["namespace"] = "x"
    return build(whole["spec"]["containers"][0], PodContext(pod=whole), Nothing())


@pytest.mark.attack(
    "pods",
    "has a node expand a variable with hundreds of thousands of brackets that are never closed",
    "it is read once, and stays as it is",
)
def test_brackets_that_are_never_closed() -> None:
    text = "$(" * (LONG // 2)
    assert built([("A", text)]) == {"A": text}
    assert built([("A", "$$" + text)]) == {"A": "$" + text}


@pytest.mark.attack(
    "pods",
    "has a node expand forty variables, each of them twice the one before",
    "what is longer than a program can be given is refused while it grows",
)
def test_variables_that_double() -> None:
    doubled = [("V0", "x")] + [(f"V{n}", f"$(V{n - 1})" * 2) for n in range(1, 40)]
    with pytest.raises(ConfigError, match="variables and commands may have"):
        built(doubled)
    with pytest.raises(ConfigError, match="variables and commands may have"):
        built([("A", "x" * 100_000), ("B", "$(A)" * LONG)])
    with pytest.raises(ConfigError, match="variables and commands may have"):
        built([("A", "x" * 100_000), *((f"B{n}", "$(A)") for n in range(LONG))])
    known = {"A": "x" * 100_000}
    for words in (["$(A)"] * LONG, ["$(A)" * LONG]):
        with pytest.raises(ConfigError, match="variables and commands may have"):
            command_line({"command": words}, known)


@pytest.mark.attack(
    "pods",
    "fills a node's memory by naming one large Secret, ConfigMap or field again and again",
    "a pod's volumes and variables have a size, beyond which it waits with words that say so",
)
@pytest.mark.parametrize("size", ["large", "small"])
@pytest.mark.parametrize("kind", ["secret", "configMap", "downwardAPI", "volumes"])
def test_objects_that_are_named_again_and_again(tmp_path: Path, kind: str, size: str) -> None:
    items = [{"key": size, "path": f"p{number}"} for number in range(3000)]
    fields = [{"fieldRef": {"fieldPath": "metadata.annotations"}, "path": "p"}]
    parts: list[Obj] = [{kind: {"name": "x", "items": [item]}} for item in items]
    if kind == "downwardAPI":
        parts = [{kind: {"items": fields}}] * 3000
    volumes: list[Obj] = [{"name": "all", "projected": {"sources": parts}}]
    if kind == "volumes":
        volumes = [{"name": f"v{n}", "secret": {"secretName": "x"}} for n in range(100)]
    whole = pod({})
    whole["metadata"] |= {"namespace": "x", "annotations": {"a": "x" * 250_000}}
    whole["spec"]["volumes"] = volumes
    made = PodVolumes(tmp_path, sources=Large(), token=str, claim=Path)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="name fewer of them"):
            made.prepare(PodContext(pod=whole))
        assert tracemalloc.get_traced_memory()[1] < 160 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.attack(
    "pods",
    "fills a node's memory by variables from one large object with thousands of prefixes",
    "what is longer than a program can be given is refused while it grows",
)
def test_variables_of_objects_that_are_named_again_and_again() -> None:
    for kind in ("secretRef", "configMapRef"):
        many = [{"prefix": f"p{number}", kind: {"name": "x"}} for number in range(10_000)]
        whole = pod({"envFrom": many})
        with pytest.raises(ConfigError, match="variables and commands may have"):
            build(whole["spec"]["containers"][0], PodContext(pod=whole), Large())
    one = {"secretKeyRef": {"name": "x", "key": "small"}}
    named = [{"name": f"N{number}", "valueFrom": one} for number in range(10_000)]
    whole = pod({"env": named})
    found = build(whole["spec"]["containers"][0], PodContext(pod=whole), Large())
    assert len(found) == len(named)


@pytest.mark.attack(
    "modules",
    "breaks a node's work by JSON nested a hundred thousand deep: inputs, an image's config",
    "the pod waits with words that say why; such a config says nothing",
)
def test_deep_json_for_a_node() -> None:
    deep = "[" * 100_000
    words = {"name": "c", "command": ["/m.wasm"]}
    whole = pod(words)
    whole["metadata"]["annotations"] = {INPUTS: deep}
    with pytest.raises(ConfigError, match="is no list of whole numbers"):
        wasm_command(
            words, whole, ["/m.wasm"], mounts=[], env={}, allowed=["/m.wasm"], installed=True
        )
    assert ImageConfig.parse(deep.encode()) == ImageConfig()


# -- the operator ----------------------------------------------------------------------------------


@pytest.mark.attack(
    "endpoints",
    "has the operator stand still over a store's list of uploads that begin and never end",
    "it is read once, and of one answer a thousand are believed",
)
@pytest.mark.parametrize(
    "upload", ["<Upload>", "<Upload><Key>a</Key><UploadId>u</UploadId><Initiated>when</Initiated>"]
)
def test_lists_of_uploads(upload: str) -> None:
    with outsider() as store:
        store.body = upload.encode() * LONG if len(upload) < 10 else upload.encode() * 10_000
        signer = XmlSigner(
            amazon("key", "secret", region="r"),
            base=f"{store.url}/bucket",
            prefix="p",
            if_absent=IF_ABSENT_S3,
        )
        assert signer.sweep("", before=2e9) == 0
        ended = "<Initiated>2001-01-01T00:00:00Z</Initiated></Upload>"
        store.body = f"<Upload><Key>p/a</Key><UploadId>u</UploadId>{ended}".encode() * 1200
        assert signer.sweep("", before=2e9) == 1000


@pytest.mark.attack(
    "checkpoints",
    "breaks the operator's work by a plan in a job's annotation: deep, endless, huge",
    "it is as if there were none",
)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"attempt": Infinity, "step": 1, "time": 1}',
        '{"attempt": 1, "step": 1, "time": 1' + "0" * 400 + "}",
    ],
    ids=["deep", "endless", "huge"],
)
def test_plans_of_jobs(text: str) -> None:
    assert plan_of({"metadata": {"annotations": {PLAN: text}}}) is None


@pytest.mark.attack(
    "clouds",
    "has the operator stand still over a VM's console, where the VM writes what it likes",
    "it is read once; the keys are those of the last whole block",
)
def test_consoles_of_hostile_machines() -> None:
    begin, end = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
    assert host_keys_of(begin * LONG) == ()
    assert host_keys_of(end * LONG) == ()
    assert host_keys_of(begin + "ssh-" * LONG + end) == ()
    old, new = f"{begin}\nssh-rsa AA==\n{end}\n", f"{begin}\nssh-rsa BB==\n{end}\n"
    assert host_keys_of(old + new + begin + "\nssh-rsa CC==") == ("ssh-rsa BB==",)


@pytest.mark.attack(
    "mpijob",
    "has the operator stand still over a line of millions of brackets in a launcher's log",
    "of a line the beginning is read, and once",
)
def test_lines_of_a_launcher() -> None:
    lines = ["[" * (4 << 20), "[,1] " * LONG, "job-worker-1 exited with code 3", "rank" * LONG]
    found = blamed("job", lines)
    assert found is not None
    assert (found.pod, found.exit_code) == ("job-worker-1", 3)


@pytest.mark.attack(
    "endpoints",
    "has the operator stand still over what a registry says that it wants to be shown",
    "it is read once",
)
@pytest.mark.parametrize("said", [" " * LONG + '"', "a" * LONG + '"', 'B a="' + "\\" * LONG])
def test_challenges_of_registries(said: str) -> None:
    assert json.dumps([each.scheme for each in challenges([said])]) in ("[]", '["b"]')

from __future__ import annotations

import base64
from typing import Any

import pytest

from corral.cluster.node.container.environment import build, command_line, expand, service_variables
from corral.cluster.node.volumes.sources import ConfigError, PodContext, field_value, resource_value

POD: dict[str, Any] = {
    "metadata": {
        "name": "p", "namespace": "ns", "uid": "u-1",
        "labels": {"b": "2", "a": '"1"\n'}, "annotations": {"x/y": "z"},
    },
    "spec": {
        "nodeName": "n1", "serviceAccountName": "sa",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "250m"}}}],
    },
}  # fmt: skip
CONTEXT = PodContext(
    pod=POD, pod_ips=["127.1.2.3"], host_ips=["10.0.0.1"],
    allocatable={"cpu": "2", "memory": "1Gi"},
)  # fmt: skip


class Objects:
    def __init__(self, config_maps: dict[str, Any], secrets: dict[str, Any]) -> None:
        self._maps, self._secrets = config_maps, secrets

    def config_map(self, name: str) -> dict[str, Any] | None:
        return self._maps.get(name)

    def secret(self, name: str) -> dict[str, Any] | None:
        return self._secrets.get(name)


OBJECTS = Objects(
    {"cm": {"data": {"k": "v", "other": "o"}}},
    {"s": {"data": {"token": base64.b64encode(b"t0k").decode()}}},
)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        # the cases of Kubernetes' own documentation of the syntax
        ("$(VAR_A)", "A"), ("$(VAR_B)___$(VAR_A)", "B___A"), ("$(VAR_DNE)", "$(VAR_DNE)"),
        ("foo$$bar", "foo$bar"), ("$$(VAR_A)", "$(VAR_A)"), ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"), ("$VAR_A", "$VAR_A"), ("$(VAR_A", "$(VAR_A"),
        ("$()", "$()"), ("foo$", "foo$"), ("f000-$((VAR_A))", "f000-$((VAR_A))"),
        ("$(VAR_EMPTY)x", "x"), ("", ""),
    ],
)  # fmt: skip
def test_expand(text: str, result: str) -> None:
    assert expand(text, {"VAR_A": "A"}, {"VAR_A": "no", "VAR_B": "B", "VAR_EMPTY": ""}) == result


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"), ("metadata.namespace", "ns"), ("metadata.uid", "u-1"),
        ("metadata.labels['b']", "2"), ("metadata.labels['none']", ""),
        ("metadata.annotations['x/y']", "z"), ("metadata.labels", 'a="\\"1\\"\\n"\nb="2"'),
        ("spec.nodeName", "n1"), ("spec.serviceAccountName", "sa"), ("status.podIP", "127.1.2.3"),
        ("status.podIPs", "127.1.2.3"), ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1"),
    ],
)  # fmt: skip
def test_fields(path: str, value: str) -> None:
    assert field_value(path, CONTEXT) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.hostname", "unsupported fieldPath: spec.hostname"),
        ("spec.x['y']", "fieldPath \"spec.x['y']\" does not support subscript"),
    ],
)
def test_no_such_field(path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        field_value(path, CONTEXT)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "2000"),
        ({"resource": "requests.cpu", "containerName": "main"}, "1"),
        ({"resource": "requests.cpu", "containerName": "main", "divisor": "1m"}, "250"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "limits.memory", "divisor": "0"}, "67108864"),
        ({"resource": "limits.memory", "divisor": "60Mi"}, "2"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_resources(reference: dict[str, Any], value: str) -> None:
    container = {"resources": {"limits": {"memory": "64Mi"}}}
    assert resource_value(reference, container, CONTEXT) == value


def test_resources_refused() -> None:
    with pytest.raises(ConfigError, match=r"unsupported container resource : limits\.gpu"):
        resource_value({"resource": "limits.gpu"}, {}, CONTEXT)
    with pytest.raises(ConfigError, match="container x not found"):
        resource_value({"resource": "limits.cpu", "containerName": "x"}, {}, CONTEXT)


def test_every_kind_in_order() -> None:
    container = {
        "envFrom": [
            {"configMapRef": {"name": "cm"}, "prefix": "CM_"},
            {"secretRef": {"name": "s"}},
            {"secretRef": {"name": "none", "optional": True}},
        ],
        "env": [
            {"name": "EARLY", "value": "$(LATE) $(CM_k) $(token)"},
            {"name": "LATE", "value": "late"},
            {"name": "CM_other", "value": "mine"},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "GONE", "valueFrom": {
                "secretKeyRef": {"name": "s", "key": "no", "optional": True}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "EMPTY"},
        ],
    }  # fmt: skip
    assert build(container, CONTEXT, OBJECTS) == {
        "CM_k": "v", "CM_other": "mine", "token": "t0k", "EARLY": "$(LATE) v t0k", "LATE": "late",
        "KEY": "v", "SECRET": "t0k", "NAME": "p", "CPU": "2", "EMPTY": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, 'configmap "x" not found'),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, 'secret "x" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "q"}}}]},
            "couldn't find key q in ConfigMap ns/cm",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "q"}}}]},
            "couldn't find key q in Secret ns/s",
        ),
    ],
)
def test_missing(container: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(container, CONTEXT, OBJECTS)
    assert str(caught.value) == message


def service(name: str, namespace: str, ip: str, *ports: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": ip, "ports": list(ports)},
    }


def test_service_variables() -> None:
    services = [
        service("kubernetes", "default", "10.0.0.1", {"name": "https", "port": 443}),
        service(
            "my-db", "ns", "10.0.0.2", {"port": 5432}, {"name": "m", "port": 9, "protocol": "UDP"}
        ),
        service("headless", "ns", "None", {"port": 1}),
        service("elsewhere", "other", "10.0.0.3", {"port": 1}),
    ]
    found = service_variables(POD, services)
    assert found == {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443", "KUBERNETES_PORT": "tcp://10.0.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
        "MY_DB_SERVICE_HOST": "10.0.0.2", "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_M": "9", "MY_DB_PORT": "tcp://10.0.0.2:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.0.0.2:5432", "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432", "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.2",
        "MY_DB_PORT_9_UDP": "udp://10.0.0.2:9", "MY_DB_PORT_9_UDP_PROTO": "udp",
        "MY_DB_PORT_9_UDP_PORT": "9", "MY_DB_PORT_9_UDP_ADDR": "10.0.0.2",
    }  # fmt: skip
    alone = {**POD, "spec": {**POD["spec"], "enableServiceLinks": False}}
    assert {name.split("_")[0] for name in service_variables(alone, services)} == {"KUBERNETES"}


def test_command_line() -> None:
    env = {"A": "1"}
    assert command_line({"command": ["x", "$(A)"], "args": ["$(B)"]}, env) == ["x", "1", "$(B)"]
    assert command_line({"args": ["y"]}, env, entrypoint=["python"]) == ["python", "y"]
    assert command_line({"command": ["z"]}, env, entrypoint=["python"], cmd=["c"]) == ["z"]
    assert command_line({}, env, entrypoint=["python"], cmd=["c"]) == ["python", "c"]
    assert command_line({"args": ["y"]}, env, cmd=["c"]) == ["y"]
    with pytest.raises(ConfigError, match="no command specified"):
        command_line({}, env)

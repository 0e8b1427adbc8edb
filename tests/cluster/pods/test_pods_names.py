"""Pods find each other: by address, by name, through services. The same code in every mode."""

from __future__ import annotations

import pytest

from tests.cluster.objects import eventually
from tests.cluster.pods.pods import Obj, Pods, python

SERVER = """
import os, socket
server = socket.create_server((os.environ["ADDRESS"], 8080), reuse_port=True)
print("listening", flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(socket.gethostname().encode())
    peer.close()
"""
CLIENT = """
import os, socket, time
for name in os.environ["NAMES"].split():
    end = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection((name, int(os.environ["PORT"])), timeout=5) as peer:
                print(name, peer.makefile().read())
            break
        except OSError as err:
            if time.monotonic() > end:
                raise SystemExit(f"{name}: {err}")
            time.sleep(0.02)
"""
ADDRESS = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def serving(pods: Pods, name: str, **spec: object) -> Obj:
    labels = {"app": "server", "name": name}
    return pods.run(name, python(SERVER, env=[ADDRESS]), metadata={"labels": labels}, **spec)


def service(pods: Pods, name: str, *, headless: bool = False, **spec: object) -> Obj:
    body: Obj = {
        "selector": {"app": "server"},
        "ports": [{"name": "api", "port": 9090, "targetPort": 8080}],
        **spec,
    }
    if headless:
        body["clusterIP"] = "None"
        body["ports"][0]["port"] = 8080
    return pods.objects.create(
        "services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body},
    )


def ask(pods: Pods, pod: str, names: list[str], port: int) -> list[str]:
    env = [{"name": "NAMES", "value": " ".join(names)}, {"name": "PORT", "value": str(port)}]
    return pods.output(pod, python(CLIENT, env=env)).splitlines()


def test_by_address(pods: Pods) -> None:
    serving(pods, "target")
    address = pods.ready("target")["status"]["podIP"]
    assert ask(pods, "client", [address], 8080) == [f"{address} target"]


def test_every_pod_has_its_own_address_and_host_name(pods: Pods) -> None:
    for name in ("a", "b"):
        serving(pods, name)
    first, second = (pods.ready(name)["status"]["podIP"] for name in ("a", "b"))
    assert first != second
    assert ask(pods, "client", [first, second], 8080) == [f"{first} a", f"{second} b"]


def test_through_a_service(pods: Pods) -> None:
    made = service(pods, "front")
    serving(pods, "behind")
    pods.ready("behind")
    space = pods.namespace
    names = ["front", f"front.{space}", f"front.{space}.svc", f"front.{space}.svc.cluster.local"]
    assert ask(pods, "client", names, 9090) == [f"{name} behind" for name in names]
    assert made["spec"]["clusterIP"] != "None"


def test_service_variables(pods: Pods) -> None:
    service(pods, "front-end")
    serving(pods, "behind")
    pods.ready("behind")
    code = """
import os, socket
where = os.environ["FRONT_END_SERVICE_HOST"], int(os.environ["FRONT_END_SERVICE_PORT"])
with socket.create_connection(where, timeout=30) as peer:
    print(peer.makefile().read())
"""
    assert pods.output("client", python(code)) == "behind\n"


def test_pods_of_a_headless_service(pods: Pods) -> None:
    service(pods, "gang", headless=True, publishNotReadyAddresses=True)
    for index in range(3):
        serving(pods, f"w-{index}", hostname=f"w-{index}", subdomain="gang")
    space = pods.namespace
    names = [f"w-{index}.gang.{space}.svc" for index in range(3)]
    names += [f"w-{index}.gang" for index in range(3)]
    expected = [f"{name} w-{n % 3}" for n, name in enumerate(names)]
    assert ask(pods, "client", names, 8080) == expected


def test_own_name_is_own_address(pods: Pods) -> None:
    code = """
import os, socket
print(socket.gethostname())
print(socket.gethostbyname(socket.gethostname()) == os.environ["ADDRESS"])
"""
    service(pods, "gang", headless=True)
    body = python(code, env=[ADDRESS])
    text = pods.output("self", body, hostname="me", subdomain="gang")
    assert text == "me\nTrue\n"


def test_a_pod_that_goes_is_not_found(pods: Pods) -> None:
    service(pods, "gang", headless=True)
    serving(pods, "there", hostname="there", subdomain="gang")
    pods.ready("there")
    code = """
import socket, time
def known():
    try:
        return bool(socket.getaddrinfo("there.gang", 8080))
    except socket.gaierror:
        return False
while not known():
    time.sleep(0.02)
print("found", flush=True)
while known():
    time.sleep(0.02)
print("gone", flush=True)
"""
    pods.run("looks", python(code))
    eventually(lambda: pods.get("looks")["status"].get("containerStatuses"))
    pods.ready("looks")
    eventually(lambda: "found" in pods.log("looks"))
    pods.delete("there")
    pods.phase("looks", "Succeeded")
    assert pods.log("looks") == "found\ngone\n"


def test_host_aliases(pods: Pods) -> None:
    serving(pods, "target")
    address = pods.ready("target")["status"]["podIP"]
    env = [{"name": "NAMES", "value": "other.example"}, {"name": "PORT", "value": "8080"}]
    aliases = [{"ip": address, "hostnames": ["other.example"]}]
    text = pods.output("client", python(CLIENT, env=env), hostAliases=aliases)
    assert text == "other.example target\n"


def test_no_name_server_is_waited_for(any_pods: Pods) -> None:
    """Where nothing leads out of the pods' network, unknown names are unknown at once."""
    if any_pods.node.isolation != "root":
        pytest.skip("pods share the machine's network here")
    body = {"name": "main", "image": "busybox", "command": ["cat", "/etc/resolv.conf"]}
    assert "nameserver 127.0.0.1" in any_pods.output("resolver", body)

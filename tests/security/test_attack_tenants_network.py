"""Pods of tenant A against pods of tenant B over the network of a node of mode root.

What a pod opens on its own address is open to all pods, as anywhere in Kubernetes without
NetworkPolicies. Everything else is not: its localhost, its sockets without a file, its address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends import Backend, Node
from tests.cluster.objects import Objects, eventually
from tests.cluster.pods.pods import python
from tests.security.hostile_pods import Attacker, backend, hostile_node, nodes
from tests.security.outsiders import outsider

__all__ = ["backend", "nodes"]

ROUTE = pytest.mark.route("network of pods")
TENANTS = "tenant against tenant"
VICTIM = """
import os, socket, threading, time
def serve(sock, *where):
    sock.bind(*where); sock.listen()
    while True:
        client, _ = sock.accept(); client.sendall(b"theirs"); client.close()
own = os.environ["OWN"]
for place in (("127.0.0.1", 7001), (own, 7002)):
    threading.Thread(target=serve, args=(socket.socket(), place), daemon=True).start()
threading.Thread(
    target=serve, args=(socket.socket(socket.AF_UNIX), "\\0theirs"), daemon=True
).start()
time.sleep(600)
"""
CONNECT = """
def reach(kind, where):
    sock = socket.socket(kind)
    sock.settimeout(10)
    try:
        sock.connect(where)
        return sock.recv(100).decode()
    finally:
        sock.close()
"""


@pytest.fixture
def attacker(backend: Backend, nodes: dict[str, Node], objects: Objects) -> Attacker:
    return Attacker(objects, hostile_node(backend, nodes, "root"))


@pytest.fixture
def victim(attacker: Attacker, backend: Backend, unique: str) -> Iterator[str]:
    """The address of a pod of tenant B."""
    cluster = Objects(backend)
    name = f"tenant-b-{unique}"
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", about)
    theirs = Attacker(Objects(backend, name), attacker.node)
    eventually(lambda: theirs.objects.find("v1", "serviceaccounts", "default"))
    own = {"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    theirs.run("victim", python(VICTIM, env=[own]))
    yield str(theirs.ready("victim")["status"]["podIP"])
    cluster.delete("v1", "namespaces", name)


@pytest.mark.attack(
    TENANTS,
    "connects to what another's pod has on its localhost, and to its sockets without a file",
    "there is nothing: each pod has a network of its own",
)
@ROUTE
def test_what_a_pod_has_for_itself(attacker: Attacker, victim: str) -> None:
    code = f"""
import time
for _ in range(1000):  # it listens: what follows would reach it if it could
    try:
        print(reach(socket.AF_INET, ({victim!r}, 7002))); break
    except ConnectionRefusedError: time.sleep(0.02)
for address in ({victim!r}, "127.0.0.1", "localhost"):
    attempt(lambda: reach(socket.AF_INET, (address, 7001)))
attempt(lambda: reach(socket.AF_UNIX, "\\0theirs"))
"""
    assert attacker.tries(CONNECT + code) == ["theirs", *["ECONNREFUSED"] * 4]


@pytest.mark.attack(
    TENANTS,
    "takes the address of another's pod: binds it, gives it to its device, changes its own",
    "it may not: the network is not the pod's to administer",
)
@ROUTE
def test_the_address_of_a_pod(attacker: Attacker, victim: str) -> None:
    code = f"""
import fcntl, struct
attempt(lambda: socket.socket().bind(({victim!r}, 7002)))
sock = socket.socket()
def request(number, *more):
    fcntl.ioctl(sock, number, struct.pack("16s24s", b"eth0", b"".join(more)))
address = struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton({victim!r}))
attempt(lambda: request(0x8916, address))   # SIOCSIFADDR
attempt(lambda: request(0x8924, struct.pack("H6s", 1, b"\\x0a\\x58aaaa")))   # SIOCSIFHWADDR
attempt(lambda: request(0x8914, struct.pack("H", 0)))   # SIOCSIFFLAGS
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
body = struct.pack("BBBBI", socket.AF_INET, 16, 0, 0, 2)
body += struct.pack("HH4s", 8, 2, socket.inet_aton({victim!r}))
link.send(struct.pack("IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)   # RTM_NEWADDR
print(errno.errorcode[-struct.unpack("i", link.recv(100)[16:20])[0]])
print(sorted(socket.gethostbyname_ex(socket.gethostname())[2]) != [{victim!r}])
"""
    lines = attacker.tries(code)
    assert lines == ["EADDRNOTAVAIL", "EPERM", "EPERM", "EPERM", "EPERM", "True"]


@pytest.mark.attack(
    TENANTS,
    "listens to others' packets, and sends packets in their name",
    "it has no such sockets",
)
@ROUTE
def test_packets_of_others(attacker: Attacker, victim: str) -> None:
    code = """
for family, kind, number in ((17, 3, 0x0300), (17, 2, 0x0300), (2, 3, 255), (2, 3, 6), (10, 3, 6)):
    attempt(lambda: socket.socket(family, kind, number))
one = socket.socket()
attempt(lambda: one.setsockopt(0, 19, 1) or one.bind(("10.88.255.254", 0)))   # IP_TRANSPARENT
"""
    assert set(attacker.tries(code)) == {"EPERM"}


@pytest.mark.attack(
    TENANTS,
    "connects to what the machine has on its loopback, by the address of the pods' gateway too",
    "nothing of the machine is in the pods' network",
)
@ROUTE
def test_the_loopback_of_the_machine(attacker: Attacker, victim: str) -> None:
    gateway = f"{victim.rpartition('.')[0].rpartition('.')[0]}.0.1"
    with outsider() as machine, outsider("0.0.0.0") as anywhere:
        places = [("127.0.0.1", machine.port), ("0.0.0.0", machine.port), (gateway, machine.port),
                  (gateway, anywhere.port), ("127.0.0.1", anywhere.port)]  # fmt: skip
        code = f"""
import json
for address, port in json.loads({json.dumps(json.dumps(places))}):
    attempt(lambda: reach(socket.AF_INET, (address, port)))
"""
        found = attacker.tries(CONNECT + code)
        assert machine.connections == anywhere.connections == []
    assert not [line for line in found if line.startswith("done")]


@pytest.mark.attack(
    TENANTS,
    "has the node call what the machine has on its loopback: by the host of a probe or a hook",
    "probes and hooks connect from inside the pod, whatever host they name",
)
@ROUTE
@pytest.mark.parametrize("how", ["httpGet", "tcpSocket"])
def test_hosts_of_probes(attacker: Attacker, how: str) -> None:
    hosts = ("127.0.0.2", "0.0.0.0", "127.1")
    with outsider() as machine, outsider("0.0.0.0") as anywhere:
        places = [(host, at.port) for host in hosts for at in (machine, anywhere)]
        containers = [
            idle(f"c{number}", {"readinessProbe": {how: {"host": host, "port": port}}})
            for number, (host, port) in enumerate(places)
        ]
        hook = {"postStart": {"httpGet": {"host": "0.0.0.0", "port": machine.port}}}
        attacker.run("probing", *containers)
        attacker.run("hooked", idle("c", {"lifecycle": hook}))
        eventually(lambda: all(unhealthy(attacker, f"{host}:{port}") for host, port in places))
        eventually(lambda: "FailedPostStartHook" in dict(attacker.events("hooked")))
        assert machine.connections == anywhere.connections == []


def idle(name: str, more: dict[str, Any]) -> dict[str, Any]:
    return python("import time; time.sleep(600)", **more) | {"name": name}


def unhealthy(attacker: Attacker, place: str) -> bool:
    """Whether a probe has tried a place, in vain."""
    said = attacker.events("probing")
    return any(reason == "Unhealthy" and place in message for reason, message in said)

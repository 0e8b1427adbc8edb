"""One suite for the network of pods, in every mode that this machine lets us have."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from corral.cluster.node.isolation import Capabilities, Mode
from corral.cluster.node.network.namespaces import inode_of
from corral.kube.resources import ENDPOINTSLICES, EVENTS, PODS, SERVICES
from tests.backends import Backend
from tests.unit.cluster.node.network_rig import (
    Agent,
    Pod,
    agent_on,
    make_namespace,
    make_service,
    until,
)

RANK: dict[str, int] = {"plain": 0, "user": 1, "root": 2}

SERVER = (
    "import os, socket, sys\ns = socket.socket()\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind((os.environ['CORRAL_POD_IP'], int(sys.argv[1]))); s.listen(500)\n"
    "print('up', flush=True)\n"
    "while True:\n    c, _ = s.accept(); c.sendall(os.environ['HOSTNAME'].encode()); c.close()\n"
)
CLIENT = (
    "import socket, sys\n"
    "for _ in range(int((sys.argv + [1])[3])):\n"
    "    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)\n"
    "    print(s.recv(100).decode())\n"
)
UDP_SERVER = (
    "import os, socket\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
    "s.bind((os.environ['CORRAL_POD_IP'], 5353)); print('up', flush=True)\n"
    "while True:\n"
    "    data, who = s.recvfrom(100); s.sendto(data + os.environ['HOSTNAME'].encode(), who)\n"
)
UDP_CLIENT = (
    "import socket, sys\ns = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(1)\n"
    "for _ in range(30):\n"
    "    s.sendto(b'hello ', (sys.argv[1], int(sys.argv[2])))\n"
    "    try: print(s.recv(100).decode()); break\n"
    "    except TimeoutError: pass\n"
    "else: sys.exit('no answer')\n"
)
RESOLVE = (
    "import json, socket, sys\n"
    "def ask(name):\n"
    "    try: return sorted({a[4][0] for a in socket.getaddrinfo(name, 1, socket.AF_INET)})\n"
    "    except OSError: return []\n"
    "print(json.dumps([ask(name) for name in sys.argv[1:]]))\n"
)


@pytest.fixture(scope="module")
def highest() -> Mode:
    return Capabilities.detect("corral-test").mode


@pytest.fixture(params=["root", "user", "plain"])
def mode(request: pytest.FixtureRequest, highest: Mode) -> Mode:
    wanted: Mode = request.param
    if RANK[highest] < RANK[wanted]:
        pytest.skip(f"this machine lets us have no more than mode {highest}")
    return wanted


@pytest.fixture
async def agent(backend: Backend, tmp_path: Path, mode: Mode) -> AsyncIterator[Agent]:
    mounts, devices = mounts_now(), socket.if_nameindex()
    async with agent_on(str(backend.kubeconfig), tmp_path / "one", mode) as agent:
        yield agent
        gateway = agent.network._gateway
        made = inode_of(gateway.namespace) if gateway and gateway.namespace >= 0 else 0
    assert mounts_now() == mounts
    assert socket.if_nameindex() == devices
    assert not (tmp_path / "machine").exists()
    assert not (tmp_path / "one" / "network").exists()
    assert not holders_of(made), "somebody still has the gateway open"


def mounts_now() -> str:
    return Path("/proc/self/mounts").read_text()


def holders_of(namespace: int) -> list[str]:
    """Processes that keep a network namespace alive."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            links = [f"/proc/{name}/fd/{fd}" for fd in os.listdir(f"/proc/{name}/fd")]
            links.append(f"/proc/{name}/ns/net")
            found += [link for link in links if os.readlink(link) == f"net:[{namespace}]"]
    return found


@pytest.fixture
async def namespace(agent: Agent) -> str:
    return await make_namespace(agent.client)


async def resolve(pod: Pod, *names: str) -> list[list[str]]:
    found: list[list[str]] = json.loads(await pod.result(RESOLVE, *names))
    return found


# -- pods ------------------------------------------------------------------------------------------


async def test_two_pods_by_address_and_name(agent: Agent, namespace: str) -> None:
    """The same port in two pods; each knows its own name, and both find each other."""
    await make_service(agent.client, namespace, "ring", clusterIP="None", selector={"ring": "1"})
    labels = {"ring": "1"}
    one = await agent.pod("one", namespace, hostname="one", subdomain="ring", labels=labels)
    two = await agent.pod("two", namespace, hostname="two", subdomain="ring", labels=labels)
    assert one.address != two.address
    await asyncio.gather(one.serve(SERVER, "4711"), two.serve(SERVER, "4711"))
    await one.knows(f"two.ring.{namespace}.svc.cluster.local")
    await two.knows("one.ring")
    for pod, other in ((one, two), (two, one)):
        for host in (other.address, f"{other.name}.ring", f"{other.name}.ring.{namespace}.svc"):
            assert await pod.result(CLIENT, host, "4711") == other.name
    who = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"
    assert await one.result(who) == f"one {one.address}"
    assert await one.result("import os; print(os.environ['HOSTNAME'])") == "one"


async def test_names_follow_readiness(agent: Agent, namespace: str) -> None:
    await make_service(agent.client, namespace, "web", clusterIP="None")
    await make_service(
        agent.client, namespace, "all", clusterIP="None", publishNotReadyAddresses=True,
        selector={"app": "web"},
    )  # fmt: skip
    watcher = await agent.pod("watcher", namespace)
    elsewhere = await make_namespace(agent.client)
    names = [{"name": "c", "image": "python", "args": [f"http://web.{namespace}.svc:80/"]}]
    foreign = await agent.pod("foreign", elsewhere, containers=names)
    stranger = await agent.pod("stranger", elsewhere)
    web = await agent.pod("web", namespace, ready=False)
    await watcher.knows("all", f"all.{namespace}.svc")
    assert "web" not in watcher.names().split()
    await web.report(ready=True)
    await watcher.knows("web", f"web.{namespace}", f"web.{namespace}.svc.cluster.local")
    await foreign.knows(f"web.{namespace}", f"web.{namespace}.svc")
    assert "web" not in foreign.names().split()
    assert namespace not in stranger.names(), "nobody is told which services others have"
    assert await resolve(watcher, "web", f"web.{namespace}", "nothing.svc") == [
        [web.address], [web.address], [],
    ]  # fmt: skip
    await web.report(ready=False)
    await watcher.forgets("web")
    await watcher.knows("all")
    await web.remove()
    await watcher.forgets("all")


async def test_many_addresses_behind_one_name(agent: Agent, namespace: str) -> None:
    await make_service(agent.client, namespace, "many", clusterIP="None")
    pods = [await agent.pod(f"p{n}", namespace, labels={"app": "many"}) for n in range(3)]
    await until(lambda: pods[0].names().count(f" many.{namespace}.svc ") == 3)
    assert await resolve(pods[0], "many") == [sorted(pod.address for pod in pods)]


async def test_host_aliases_and_fqdn(agent: Agent, namespace: str) -> None:
    aliases = [{"ip": "10.9.8.7", "hostnames": ["db", "db.example"]}]
    pod = await agent.pod("p", namespace, hostAliases=aliases, hostname="h", subdomain="none")
    full = f"h.none.{namespace}.svc.cluster.local"
    assert await resolve(pod, "db.example", "h", full) == [
        ["10.9.8.7"], [pod.address], [pod.address],
    ]  # fmt: skip


async def test_host_network(agent: Agent, namespace: str) -> None:
    pod = await agent.pod("h", namespace, hostNetwork=True)
    assert agent.network.own_addresses(pod.sandbox) == agent.network.host_addresses()
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
        assert await pod.result(code, str(server.getsockname()[1])) == ""
    await pod.remove()


# -- services --------------------------------------------------------------------------------------


async def test_service_address(agent: Agent, namespace: str) -> None:
    """By name, by variable; balanced over the ready pods; refused without any."""
    ports = [{"name": "http", "containerPort": 8080}]
    await make_service(
        agent.client, namespace, "web", 8000, ports=[{"port": 8000, "targetPort": "http"}]
    )
    client = await agent.pod("client", namespace)
    await client.knows("web")
    with pytest.raises(AssertionError, match="refused"):
        await client.result(CLIENT, "web", "8000")
    webs = [
        await agent.pod(f"web{n}", namespace, labels={"app": "web"}, ports=ports) for n in (1, 2)
    ]
    for web in webs:
        await web.serve(SERVER, "8080")
    await until(lambda: agent.network._names._proxy._of.get(f"{namespace}/web"))
    told = (await client.result(CLIENT, "web", "8000", "60")).splitlines()
    assert set(told) == {"web1", "web2"} and len(told) == 60
    code = (
        "import os, socket\n"
        "s = socket.create_connection((os.environ['WEB_SERVICE_HOST'], "
        "int(os.environ['WEB_SERVICE_PORT'])), 20)\nprint(s.recv(9).decode())"
    )
    assert await client.result(code) in ("web1", "web2")
    await webs[0].remove()
    await until(lambda: len(targets(agent, namespace, "web")) == 1)
    assert set((await client.result(CLIENT, "web", "8000", "20")).splitlines()) == {"web2"}
    await agent.client.delete(SERVICES, "web", namespace=namespace)
    await client.forgets("web", f"web.{namespace}")


def targets(agent: Agent, namespace: str, name: str) -> list[tuple[str, int]]:
    directory = agent.network._names._directory
    assert directory is not None
    state = directory.service(f"{namespace}/{name}")
    assert state is not None
    return [target for each in state.targets.values() for target in each.all()]


async def test_connections_in_parallel(agent: Agent, namespace: str) -> None:
    """Large answers, half-closed connections, many at once."""
    await make_service(agent.client, namespace, "echo", 7000)
    server = await agent.pod("echo", namespace)
    code = (
        "import asyncio, os\n"
        "async def one(r, w):\n"
        "    data = await r.read(-1)\n"
        "    w.write(data * 200); await w.drain(); w.close()\n"
        "async def main():\n"
        "    s = await asyncio.start_server(one, os.environ['CORRAL_POD_IP'], 7000, backlog=500)\n"
        "    print('up', flush=True); await s.serve_forever()\n"
        "asyncio.run(main())"
    )
    await server.serve(code)
    client = await agent.pod("client", namespace)
    await client.knows("echo")
    await until(lambda: agent.network._names._proxy._of.get(f"{namespace}/echo"))
    code = (
        "import asyncio\n"
        "async def one(n):\n"
        "    r, w = await asyncio.open_connection('echo', 7000)\n"
        "    w.write(b'%04d' % n * 500); w.write_eof()\n"
        "    data = await r.read(-1); w.close()\n"
        "    return data == b'%04d' % n * 100000\n"
        "async def main():\n"
        "    print(all(await asyncio.gather(*(one(n) for n in range(100)))))\n"
        "asyncio.run(main())"
    )
    assert await client.result(code) == "True"


async def test_datagrams(agent: Agent, namespace: str) -> None:
    ports = [{"port": 5300, "targetPort": 5353, "protocol": "UDP"}]
    await make_service(agent.client, namespace, "dns", ports=ports)
    servers = [await agent.pod(f"dns{n}", namespace, labels={"app": "dns"}) for n in (1, 2)]
    for server in servers:
        await server.serve(UDP_SERVER)
    client = await agent.pod("client", namespace)
    await client.knows("dns")
    assert await client.result(UDP_CLIENT, "dns", "5300") in ("hello dns1", "hello dns2")
    await servers[0].remove()
    await until(lambda: len(targets(agent, namespace, "dns")) == 1)
    assert await client.result(UDP_CLIENT, "dns", "5300") == "hello dns2"


async def test_affinity(agent: Agent, namespace: str) -> None:
    await make_service(agent.client, namespace, "sticky", 8000, sessionAffinity="ClientIP")
    for n in range(3):
        await (await agent.pod(f"s{n}", namespace, labels={"app": "sticky"})).serve(SERVER, "8000")
    client = await agent.pod("client", namespace)
    await client.knows("sticky")
    await until(lambda: len(targets(agent, namespace, "sticky")) == 3)
    assert len(set((await client.result(CLIENT, "sticky", "8000", "20")).splitlines())) == 1


async def test_node_port(agent: Agent, namespace: str) -> None:
    made = await make_service(agent.client, namespace, "np", 8000, type="NodePort")
    await (await agent.pod("np", namespace)).serve(SERVER, "8000")
    port = made["spec"]["ports"][0]["nodePort"]
    await until(lambda: len(agent.network._names._proxy._of.get(f"{namespace}/np", ())) == 2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b"np"
    writer.close()


async def test_service_without_selector(agent: Agent, namespace: str) -> None:
    """Its endpoints are what a slice says, here something on the machine itself."""
    address = agent.network.host_addresses()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address that a slice may have")
    spec = {"selector": None, "ports": [{"port": 9000, "name": "x"}]}
    await make_service(agent.client, namespace, "ext", **spec)
    client = await agent.pod("client", namespace)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"machine")
        writer.close()

    server = await asyncio.start_server(greet, address, 0)
    piece = {
        "metadata": {"name": "ext-1", "labels": {"kubernetes.io/service-name": "ext"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "x", "port": server.sockets[0].getsockname()[1]}],
    }
    await agent.client.create(ENDPOINTSLICES, piece, namespace=namespace)
    await until(lambda: agent.network._names._proxy._of.get(f"{namespace}/ext"))
    assert await client.result(CLIENT, "ext", "9000") == "machine"
    server.close()


async def test_names_for_services(agent: Agent, namespace: str) -> None:
    await make_service(agent.client, namespace, "real", 8000)
    other = f"real.{namespace}.svc.cluster.local"
    await make_service(
        agent.client, namespace, "alias", type="ExternalName", externalName=other, selector=None
    )
    pod = await agent.pod("p", namespace)
    await pod.knows("alias", "real")
    real, alias = await resolve(pod, "real", "alias")
    assert real == alias and len(real) == 1


@pytest.fixture
def authority(backend: Backend) -> str:
    """The certificate by which the API server is known: pods do not see its file."""
    return Path(backend.ca_file).read_text()


async def test_the_api_server(agent: Agent, namespace: str, authority: str) -> None:
    """As its variables name it, in every mode."""
    pod = await agent.pod("p", namespace)
    code = (
        "import os, ssl, sys, urllib.request\n"
        "host, port = (os.environ['KUBERNETES_SERVICE_' + x] for x in ('HOST', 'PORT'))\n"
        "tls = ssl.create_default_context(cadata=sys.argv[1])\n"
        "url = f'https://{host}:{port}/readyz'\n"
        "print(urllib.request.urlopen(url, context=tls).read().decode())"
    )
    await until(lambda: agent.network.service_environment(pod.obj))
    if agent.mode == "root":
        await until(lambda: agent.network._names._proxy._of.get("default/kubernetes"))
    assert await pod.result(code, authority) == "ok"


async def test_ports_that_an_ordinary_user_may_not_have(agent: Agent, namespace: str) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may listen at every port")
    await make_service(agent.client, namespace, "low", 80)
    await agent.pod("low", namespace)
    async with asyncio.timeout(20):
        while True:
            events = (await agent.client.list_all(EVENTS, namespace))["items"]
            if any("ports below 1024" in event["message"] for event in events):
                return
            await asyncio.sleep(0.05)


# -- from the agent --------------------------------------------------------------------------------


async def test_dialing(agent: Agent, namespace: str) -> None:
    pod = await agent.pod("p", namespace)
    await pod.serve(SERVER, "4800")
    for host in ("", pod.address):
        reader, writer = await agent.network.dial(pod.sandbox, 4800, host)
        assert await reader.read() == b"p"
        writer.close()
    with pytest.raises(OSError):
        await agent.network.dial(pod.sandbox, 4801)


async def test_http(agent: Agent, namespace: str) -> None:
    pod = await agent.pod("p", namespace)
    code = (
        "import os, http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(204); self.end_headers()\n"
        "s = http.server.HTTPServer((os.environ['CORRAL_POD_IP'], 8080), H)\n"
        "print('up', flush=True); s.serve_forever()"
    )
    await pod.serve(code)
    async with aiohttp.ClientSession(
        connector=agent.network.http_connector(pod.sandbox)
    ) as session:
        for _ in range(3):
            async with session.get(f"http://{pod.address}:8080/") as answer:
                assert answer.status == 204


def is_there(network: str) -> bool:
    return not network or os.path.exists(network)


async def test_what_pods_leave_is_taken_away_together(agent: Agent, namespace: str) -> None:
    """Their addresses are nobody else's until then."""
    pods = [await agent.pod(name, namespace) for name in ("a", "b")]
    for pod in pods:
        await agent.network.close(pod.sandbox)
    other = await agent.pod("c", namespace)
    kept = agent.folder / "network" / "pods"
    if agent.mode == "root":
        assert other.address not in {pod.address for pod in pods}
    again = await agent.network.open(pods[0].obj)
    assert is_there(again.network)
    gone = pods[1].obj["metadata"]["uid"]
    await until(lambda: not [name for name in os.listdir(kept) if name.startswith(gone)])
    assert is_there(again.network)
    await agent.network.close(again)


# -- several of them, one after the other and side by side -----------------------------------------


async def test_restart(agent: Agent, namespace: str) -> None:
    """Pods go on while no agent runs; the next one finds them, and what has changed."""
    await make_service(agent.client, namespace, "web", 8000)
    web, client = await agent.pod("web", namespace), await agent.pod("client", namespace)
    gone = await agent.pod("gone", namespace)
    server = await web.serve(SERVER, "8000")
    await client.knows("web")
    await agent.stop(remove=False)
    await agent.client.delete(SERVICES, "web", namespace=namespace)
    await agent.client.delete(PODS, "gone", namespace=namespace, grace_seconds=0)
    await make_service(agent.client, namespace, "later", 8000, selector={"app": "web"})
    again = Agent(agent.client, agent.folder, agent.mode)
    await again.start()
    try:
        sandbox = again.network.restore(web.obj)
        assert sandbox == web.sandbox and again.network.restore(client.obj) == client.sandbox
        assert again.network.restore({"metadata": {"uid": "unknown"}}) is None
        await client.knows("later")
        await client.forgets("web")
        client.agent = again
        await until(lambda: again.network._names._proxy._of.get(f"{namespace}/later"))
        assert await client.result(CLIENT, "later", "8000") == "web"
        await until(lambda: gone.obj["metadata"]["uid"] not in again.network._left)
        kept = agent.folder / "network" / "pods"
        await until(lambda: f"{gone.obj['metadata']['uid']}.hosts" not in os.listdir(kept))
        new = await again.pod("new", namespace)
        assert new.address not in (web.address, client.address)
    finally:
        await again.stop(remove=True)
        await server.wait()


async def test_two_nodes_of_one_cluster(
    agent: Agent, namespace: str, backend: Backend, tmp_path: Path
) -> None:
    """They have different addresses, and pods of one reach those of the other."""
    await make_service(agent.client, namespace, "web", 8000)
    async with agent_on(str(backend.kubeconfig), tmp_path / "two", agent.mode) as other:
        web, client = await other.pod("web", namespace), await agent.pod("client", namespace)
        assert web.address.rpartition(".")[0] != client.address.rpartition(".")[0]
        await web.serve(SERVER, "8000")
        assert await client.result(CLIENT, web.address, "8000") == "web"
        await client.knows("web")
        await until(lambda: agent.network._names._proxy._of.get(f"{namespace}/web"))
        assert set((await client.result(CLIENT, "web", "8000", "10")).splitlines()) == {"web"}
        await web.remove()
    await agent.pod("after", namespace)


async def test_two_clusters_beside_each_other(
    agent: Agent, namespace: str, backend: Backend, tmp_path: Path
) -> None:
    """Told apart by an identity here; each has its own pods under the same names."""
    await make_service(agent.client, namespace, "web", 8000)
    machine = tmp_path / "machine"
    async with agent_on(
        str(backend.kubeconfig), tmp_path / "b", agent.mode, cluster="b", machine=machine
    ) as other:
        one, two = await agent.pod("one", namespace), await other.pod("two", namespace)
        for pod in (one, two):
            await pod.serve(SERVER, "8000")
            assert await pod.result(CLIENT, pod.address, "8000") == pod.name
        if agent.mode == "root":
            # the very same addresses, and no way between them
            assert one.address == two.address
        else:
            assert one.address.rpartition(".")[0] != two.address.rpartition(".")[0]


async def test_many_sandboxes(agent: Agent, namespace: str) -> None:
    """More than one block has; the kernel has forgotten them all soon after."""
    pods = [
        {"metadata": {"uid": f"u{n}", "name": f"p{n}", "namespace": namespace}, "spec": {}}
        for n in range(300)
    ]
    opened = [await agent.network.open(pod) for pod in pods]
    assert len({sandbox.address for sandbox in opened}) == 300
    assert await agent.network.open(pods[7]) is opened[7]
    await asyncio.gather(*(agent.network.close(sandbox) for sandbox in opened))
    again = await agent.network.open(pods[0])
    await agent.network.close(again)
    await agent.network.close(again)


async def test_opened_twice_at_once(agent: Agent, namespace: str) -> None:
    pod = {"metadata": {"uid": "twice", "name": "p", "namespace": namespace}, "spec": {}}
    one, two = await asyncio.gather(agent.network.open(pod), agent.network.open(pod))
    assert one is two
    await agent.network.close(one)

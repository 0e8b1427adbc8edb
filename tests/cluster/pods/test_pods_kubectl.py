"""The commands of kubectl that need running pods, over both of its transports."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.backends import Backend, Node, RealBackend
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import eventually
from tests.cluster.pods.pods import Pods, container, python, shell

ECHO = """
import os, socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.rfile.readline():
            self.wfile.write(data.upper())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 200
Server((os.environ["ADDRESS"], 8080), Echo).serve_forever()
"""
ADDRESS = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@pytest.fixture(scope="module", autouse=True)
def metrics(backend: Backend) -> None:
    """Figures for `kubectl top`: begun early, for a metrics server measures before it answers."""
    if isinstance(backend, RealBackend):
        backend.start_metrics()


@pytest.fixture(params=["websocket", "spdy"])
def streaming(request: pytest.FixtureRequest, kubectl: Kubectl) -> Kubectl:
    """kubectl with each transport of streams in turn."""
    on = "true" if request.param == "websocket" else "false"
    kubectl.env |= {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": on,
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": on,
    }
    return kubectl


def test_logs_follow(any_pods: Pods, kubectl: Kubectl) -> None:
    any_pods.run("talks", shell("for n in 1 2 3; do echo line $n; sleep 0.2; done"))
    any_pods.wait("talks", lambda p: p["status"].get("containerStatuses"))
    eventually(lambda: kubectl.run("logs", "talks").code == 0)
    assert kubectl("logs", "-f", "talks").out == "line 1\nline 2\nline 3\n"
    assert kubectl("logs", "--tail=1", "talks").out == "line 3\n"
    assert kubectl("logs", "--limit-bytes=6", "talks").out == "line 1"
    stamped = kubectl("logs", "--timestamps", "talks").lines[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z line 1", stamped)
    assert kubectl("logs", "--since=1h", "talks").out == "line 1\nline 2\nline 3\n"


def test_logs_previous(any_pods: Pods, kubectl: Kubectl) -> None:
    any_pods.run("again", shell("echo attempt; exit 1"), restartPolicy="OnFailure")
    any_pods.wait("again", lambda p: container(p)["restartCount"] >= 1)
    assert kubectl("logs", "--previous", "again").out == "attempt\n"
    any_pods.run("fresh", shell("sleep 100"))
    any_pods.ready("fresh")
    assert "previous terminated container" in kubectl.fails("logs", "--previous", "fresh")


def test_exec(any_pods: Pods, streaming: Kubectl) -> None:
    any_pods.run("host", shell("sleep 1000"))
    any_pods.ready("host")
    assert streaming("exec", "host", "--", "sh", "-c", "hostname; exit 0").out == "host\n"
    failed = streaming.run("exec", "host", "--", "sh", "-c", "echo bad >&2; exit 42")
    assert failed.code == 42
    assert "bad" in failed.err
    assert streaming("exec", "-i", "host", "--", "cat", stdin="from here").out == "from here"
    missing = streaming.run("exec", "host", "--", "no-such-program")
    assert missing.code != 0
    assert "not found" in missing.err


def test_exec_in_a_terminal(pods: Pods, streaming: Kubectl) -> None:
    pods.run("host", shell("sleep 1000"))
    pods.ready("host")
    with terminal(streaming, "exec", "-it", "host", "--", "sh") as screen:
        # the size comes after the start; written so that the echo of the line does not match
        screen.write('until [ "$(stty size)" = "33 1"01 ]; do sleep 0.05; done; stty size\n')
        screen.read_until(r"33 101")
        screen.write("tty | sed s/pts.*/terminal/\n")
        screen.read_until(r"/dev/.*terminal")
        screen.write("exit 3\n")
        assert screen.exit_code() == 3


def test_programs_may_open_terminals(pods: Pods) -> None:
    code = "import os; print(os.isatty(os.openpty()[1]))"
    assert pods.output("opens", python(code)) == "True\n"


def test_attach(any_pods: Pods, streaming: Kubectl) -> None:
    any_pods.run("listens", shell('read line; echo "got $line"', stdin=True, stdinOnce=True))
    any_pods.ready("listens")
    assert "got hello" in streaming("attach", "-i", "listens", stdin="hello\n").out
    any_pods.phase("listens", "Succeeded")


def test_copy_both_ways(any_pods: Pods, streaming: Kubectl, tmp_path: Path) -> None:
    body = shell("sleep 1000", volumeMounts=[{"name": "v", "mountPath": "/box"}])
    any_pods.run("store", body, volumes=[{"name": "v", "emptyDir": {}}])
    any_pods.ready("store")
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(3_000_000))
    streaming("cp", str(sent), "store:/box/file")
    back = tmp_path / "back"
    streaming("cp", "store:/box/file", str(back))
    assert _digest(back) == _digest(sent)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_port_forward_under_load(any_pods: Pods, streaming: Kubectl) -> None:
    any_pods.run("echo", python(ECHO, env=[{"name": "ADDRESS", "value": "0.0.0.0"}]))
    any_pods.ready("echo")
    with streaming.running("port-forward", "pod/echo", ":8080") as output:
        line = output.until("Forwarding from")
        port = int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])  # type: ignore[index]

        def talk(number: int) -> bool:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
                stream = peer.makefile("rwb")
                for turn in range(10):
                    stream.write(f"hello {number} {turn}\n".encode())
                    stream.flush()
                    if stream.readline() != f"HELLO {number} {turn}\n".encode():
                        return False
            return True

        eventually(lambda: _answers(port))
        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(talk, range(200)))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            peer.sendall(b"ready\n")
            return peer.recv(6) == b"READY\n"
    except OSError:
        return False


def test_port_forward_to_nobody(any_pods: Pods, streaming: Kubectl) -> None:
    any_pods.run("quiet", shell("sleep 1000"))
    any_pods.ready("quiet")
    with streaming.running("port-forward", "pod/quiet", ":9") as output:
        port = int(re.search(r"127\.0\.0\.1:(\d+)", output.until("Forwarding from"))[1])  # type: ignore[index]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
            assert peer.recv(10) == b""


def test_drain(any_pods: Pods, any_node: Node, kubectl: Kubectl) -> None:
    any_pods.run("bare", shell("sleep 1000"))
    any_pods.ready("bare")
    try:
        refused = kubectl.run("drain", any_node.name, "--ignore-daemonsets", "--timeout=30s")
        assert refused.code != 0
        assert "--force" in refused.err
        selector = f"--pod-selector=only={any_pods.namespace}"
        any_pods.objects.patch(
            "v1", "pods", "bare", {"metadata": {"labels": {"only": any_pods.namespace}}}
        )
        kubectl("drain", any_node.name, "--ignore-daemonsets", "--force", selector, "--timeout=30s")
        any_pods.gone("bare")
    finally:
        kubectl("uncordon", any_node.name)


def test_rollout(any_pods: Pods, any_node: Node, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment(any_node.name, "one"))
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web").out
    kubectl("apply", "-f", "-", stdin=deployment(any_node.name, "two"))
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web").out
    assert _versions(any_pods) == {"two"}
    kubectl("rollout", "undo", "deployment/web")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web").out
    eventually(lambda: _versions(any_pods) == {"one"})
    history = kubectl("rollout", "history", "deployment/web").out
    assert re.search(r"^3\s", history, re.MULTILINE)


def _versions(pods: Pods) -> set[str]:
    reply = pods.objects.backend.request("GET", pods.objects.path("v1", "pods"))
    return {
        pod["spec"]["containers"][0]["env"][0]["value"]
        for pod in reply.json()["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def deployment(node: str, version: str) -> dict[str, object]:
    labels = {"app": "web"}
    body = shell("sleep 1000", env=[{"name": "VERSION", "value": version}])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [body],
                },
            },
        },
    }


def test_top(any_pods: Pods, kubectl: Kubectl) -> None:
    burn = python("while True: sum(range(10000))")
    any_pods.run("burns", burn)
    any_pods.ready("burns")
    eventually(lambda: kubectl.run("top", "pod", "burns").code == 0, seconds=60)
    _, (name, cpu, memory) = kubectl("top", "pod", "burns").rows
    assert name == "burns"
    assert cpu.endswith("m") and int(cpu[:-1]) > 100
    assert memory.endswith("Mi")
    assert any_pods.node.name in kubectl("top", "node").out


# -- a terminal ------------------------------------------------------------------------------------


class Screen:
    """The other side of a kubectl that believes it is in a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self._process = process
        self._master = master
        self._shown = ""

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, pattern: str, *, seconds: float = 30) -> None:
        """Read until the pattern was shown."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self._shown):
            left = end - time.monotonic()
            assert left > 0, f"{pattern!r} was not shown: {self._shown!r}"
            if select.select([self._master], [], [], left)[0]:
                self._shown += self._read(pattern)

    def _read(self, pattern: str) -> str:
        try:
            return os.read(self._master, 1 << 16).decode()
        except OSError:  # what Linux answers when the last program in the terminal has ended
            raise AssertionError(f"ended without {pattern!r}: {self._shown!r}") from None

    def exit_code(self) -> int:
        return self._process.wait(30)


class terminal:
    """Run kubectl in a pseudo-terminal of 33 rows and 101 columns."""

    def __init__(self, kubectl: Kubectl, *argv: str) -> None:
        self._kubectl = kubectl
        self._argv = argv

    def __enter__(self) -> Screen:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        self._process = subprocess.Popen(
            self._kubectl._command(self._argv),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._kubectl._environment(None),
            start_new_session=True,
        )
        os.close(slave)
        return Screen(self._process, self._master)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

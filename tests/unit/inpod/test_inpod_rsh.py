"""The agent that MPI launchers call like ssh, against an API server of the test's own.

It is run as launchers run it: a program of one file, without Corral.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rsh_server import ERROR, STDERR, STDOUT, RshServer, Session, exited, pod

import corral.inpod
from corral.cluster.apiserver.auth.pki import ensure_pki
from corral.inpod import rsh

HOST = "w-0.job.team.svc.cluster.local"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pod has of its service account; the server's key is beside it."""
    folder = tmp_path_factory.mktemp("credentials")
    pki = ensure_pki(folder / "pki", hosts=["127.0.0.1"])
    (folder / "ca.crt").write_bytes(pki.ca.cert)
    (folder / "cert.pem").write_bytes(pki.serving.cert)
    (folder / "key.pem").write_bytes(pki.serving.key)
    (folder / "token").write_text("secret\n")
    (folder / "namespace").write_text("own")
    return folder


@pytest.fixture
def server(credentials: Path) -> Iterator[RshServer]:
    server = RshServer(credentials, credentials / "cert.pem", credentials / "key.pem")
    yield server
    server.close()


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start(server: RshServer, *words: str, **env: str) -> subprocess.Popen[bytes]:
    """The agent, beginning to run."""
    program = Path(corral.inpod.__file__).parent / "rsh.py"
    variables = {
        "PATH": os.environ["PATH"],
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "CORRAL_MOUNTS": json.dumps({rsh.CREDENTIALS: str(server.folder)}),
        **env,
    }
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-I", str(program), *words],
        stdin=pipe, stdout=pipe, stderr=pipe, env=variables,
    )  # fmt: skip


def run(server: RshServer, *words: str, data: bytes = b"", **env: str) -> tuple[int, bytes, bytes]:
    """Exit code and output of the agent."""
    with start(server, *words, **env) as process:
        out, err = process.communicate(data, timeout=60)
    return process.returncode, out, err


# -- command lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "host", "command"),
    [
        ("h c", "h", "c"),
        ("-x h a  'b'", "h", "a 'b'"),
        ("-q -x -o ConnectionAttempts=3 h c -n", "h", "c -n"),
        ("-oConnectionAttempts=3 -l me -p 22 me@h c", "h", "c"),
        ("-xqTp22 h c", "h", "c"),
        ("h -l me -n c -x", "h", "c -x"),
        ("-- h c", "h", "c"),
    ],
)
def test_command_lines_of_ssh(line: str, host: str, command: str) -> None:
    call = rsh.Call(line.split())
    assert (call.host, call.command) == (host, command)


def test_what_options_mean() -> None:
    call = rsh.Call(["-n", "-o ConnectionAttempts=3", "-oConnectTimeout 4", "h", "c"])
    assert (call.stdin, call.patience) == (False, 12.0)
    assert rsh.Call(["-oConnectionAttempts=x", "h", "c"]).patience == 60.0


@pytest.mark.parametrize("words", [[], ["-x"], ["-l"], ["h"], ["-x", "h", "-n"]])
def test_incomplete_command_lines(words: list[str]) -> None:
    with pytest.raises(rsh.Failure):
        rsh.Call(words)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (HOST, ("team", "w-0")),
        ("w-0.job.team.svc", ("team", "w-0")),
        ("w-0.job.team.svc.", ("team", "w-0")),
        ("w-0", ("own", "w-0")),
        ("w-0.job", ("own", "w-0")),
    ],
)
def test_the_pod_of_a_host(host: str, expected: tuple[str, str]) -> None:
    assert rsh.locate(host, "own") == expected


def test_long_commands_do_not_go_into_the_url() -> None:
    query, first = rsh.query_of("echo 'a\\n'\n" + "x" * 5000, "main", stdin=False)
    assert len(query) < 300 and "stdin=true" in query
    assert first.endswith(b"\n") and first.count(b"\n") == 1


# -- runs ---------------------------------------------------------------------------------------


def test_output_and_exit_code(server: RshServer) -> None:
    def script(session: Session) -> None:
        session.send(STDOUT, b"")
        session.send(STDOUT, b"out" * 50_000)
        session.send(STDERR, b"err")
        session.send(0, b"ping", kind=9)
        assert session.receive() is not None
        session.send(STDOUT, b"!", last=False)
        session.send(0, b"?", kind=0)
        session.send(ERROR, exited(7))

    server.script = script
    code, out, err = run(server, "-x", "-o", "ConnectionAttempts=10", HOST, "do", "it;", "now")
    assert (code, out, err) == (7, b"out" * 50_000 + b"!?", b"err")
    seen = server.requests[-1]
    assert seen.path == "/api/v1/namespaces/team/pods/w-0/exec"
    assert seen.query["command"] == ["sh", "-c", "do it; now"]
    assert seen.query["container"] == ["main"]
    assert seen.headers["authorization"] == "Bearer secret"
    assert seen.headers["sec-websocket-protocol"].startswith("v5.channel.k8s.io")


@pytest.mark.parametrize("size", [0, 10, 300, 200_000])
def test_input_and_its_end(server: RshServer, size: int) -> None:
    def script(session: Session) -> None:
        data = session.read_input()
        session.send(STDOUT, str(len(data)).encode())
        session.send(ERROR, exited(0))

    server.script, server.chunked = script, True
    assert run(server, "w-0", "wc", data=b"x" * size) == (0, str(size).encode(), b"")
    assert server.requests[-1].path == "/api/v1/namespaces/own/pods/w-0/exec"


def test_no_input(server: RshServer) -> None:
    assert run(server, "-n", "w-0", "true")[0] == 0
    assert "stdin" not in server.requests[-1].query


def test_a_long_command_arrives_as_it_was(server: RshServer) -> None:
    """What a shell makes of it is what the shell of an ordinary command would."""
    text = f"printf '%s|' 'a\\n$HOME \"b\"\n c' {'x' * 4000}; cat"
    expected = subprocess.run(["sh", "-c", text], input=b"in", capture_output=True, check=True)

    def script(session: Session) -> None:
        done = subprocess.run(
            session.request.query["command"], input=session.read_input(),
            capture_output=True, check=True,
        )  # fmt: skip
        session.send(STDOUT, done.stdout)
        session.send(ERROR, exited(0))

    server.script = script
    assert run(server, "w-0", text, data=b"in") == (0, expected.stdout, b"")


def test_the_host_itself_needs_no_api(server: RshServer) -> None:
    found = run(server, "me.job.team.svc", "exit", "3", CORRAL_HOSTNAME="me")
    assert found == (3, b"", b"") and not server.requests


# -- waiting and failing ------------------------------------------------------------------------


def test_pods_that_do_not_run_yet_are_waited_for(server: RshServer) -> None:
    server.answers = [
        (404, {"message": 'pods "w-0" not found'}),
        (403, {"message": "not yet"}),
        (200, pod("waiting")),
        (200, pod(deletionTimestamp="now")),
        (200, pod()),
    ]
    assert run(server, "w-0", "true")[0] == 0
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, pod("waiting")), "pod w-0 does not run: Pending, ContainerCreating"),
        ((404, {"message": 'pods "w-0" not found'}), 'the API answered 404: pods "w-0" not found'),
        ((403, {"message": "no"}), "the API answered 403: no"),
    ],
)
def test_waiting_has_an_end(server: RshServer, answer: Any, words: str) -> None:
    server.answers = [answer]
    found = run(server, "-o", "ConnectionAttempts=1", "-oConnectTimeout=1", "w-0", "true")
    assert found == (255, b"", f"corral rsh: w-0: {words}\n".encode())


def test_a_refused_exec(server: RshServer) -> None:
    server.refuse = (500, {"message": "container not found"})
    code, _, err = run(server, "-oConnectionAttempts=1", "-oConnectTimeout=1", "w-0", "true")
    assert (code, err) == (255, b"corral rsh: w-0: the API answered 500: container not found\n")
    assert len(server.requests) > 2


def test_a_command_that_could_not_be_run(server: RshServer) -> None:
    status = {"status": "Failure", "reason": "InternalError", "message": "no\nsuch thing"}
    server.script = lambda session: session.send(ERROR, json.dumps(status).encode())
    assert run(server, "w-0", "true") == (255, b"", b"corral rsh: w-0: no such thing\n")


def test_a_lost_connection(server: RshServer) -> None:
    """The command may have run: it is not started again."""
    server.script = lambda session: session.send(STDOUT, b"half")
    found = run(server, "w-0", "true")
    assert found == (255, b"half", b"corral rsh: w-0: the connection was lost\n")
    assert len(server.requests) == 2


def test_an_exec_without_an_answer(server: RshServer) -> None:
    """It may have reached the pod: it is not repeated."""
    server.refuse = (0, {})
    code, _, err = run(server, "w-0", "true")
    assert code == 255 and err.startswith(b"corral rsh: w-0: no answer of the API at 127.0.0.1:")
    assert len(server.requests) == 2


def test_nonsense_instead_of_a_pod(server: RshServer) -> None:
    server.answers = [(200, {"kind": "Table"}), (200, pod())]
    assert run(server, "w-0", "true")[0] == 0


def test_nobody_listens(server: RshServer, free_port: int) -> None:
    options = ("-oConnectionAttempts=1", "-oConnectTimeout=1")
    code, _, err = run(server, *options, "w-0", "true", KUBERNETES_SERVICE_PORT=str(free_port))
    assert code == 255 and b"no answer of the API at 127.0.0.1:" in err and err.count(b"\n") == 1


def test_no_cluster(server: RshServer) -> None:
    code, _, err = run(server, "w-0", "true", KUBERNETES_SERVICE_HOST="")
    assert code == 255 and err.startswith(b"corral rsh: w-0: KUBERNETES_SERVICE_HOST is not set")


def test_a_server_that_is_not_trusted(server: RshServer, tmp_path: Path) -> None:
    other = ensure_pki(tmp_path / "pki", hosts=["127.0.0.1"])
    (tmp_path / "ca.crt").write_bytes(other.ca.cert)
    for name in ("token", "namespace"):
        (tmp_path / name).write_text("x")
    mounts = json.dumps({rsh.CREDENTIALS: str(tmp_path)})
    code, _, err = run(server, "w-0", "true", CORRAL_MOUNTS=mounts)
    assert code == 255 and b"is not trusted" in err and err.count(b"\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_command_ends_with_the_agent(server: RshServer, number: signal.Signals) -> None:
    left: list[object] = []

    def script(session: Session) -> None:
        session.send(STDOUT, b"here")
        left.append(session.receive())

    server.script = script
    with start(server, "w-0", "sleep infinity") as process:
        assert process.stdout is not None and process.stdout.read(4) == b"here"
        process.send_signal(number)
        assert server.ended.wait(30)
        code = process.wait(30)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    # Nothing, or the farewell of a WebSocket.
    assert left == [None if number == signal.SIGKILL else (8, b"\x03\xe8")]


def test_nobody_reads_the_output(server: RshServer) -> None:
    def script(session: Session) -> None:
        assert session.read_input() == b"go"
        for _ in range(3):
            session.send(STDOUT, b"x" * 100_000)
        session.send(ERROR, exited(5))

    server.script = script
    with start(server, "w-0", "yes") as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.close()
        process.stdin.write(b"go")
        process.stdin.close()
        assert process.wait(60) == 5


def test_it_imports_little_before_it_has_to() -> None:
    """Every daemon of an MPI waits for this; the rest comes while a connection is made."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import rsh; print(*sys.modules)"
    folder = str(Path(corral.inpod.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    slow = {"ssl", "json", "typing", "re", "http.client", "selectors", "urllib.parse", "socket"}
    assert not slow & set(done.stdout.split())

"""What others write never acts on the terminal of whoever looks: every command, every field."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
import typer
import yaml

from corral.cli import main, odh
from corral.cli.completion import complete_names
from corral.cli.program import start
from corral.kube.printable import printable, printable_lines
from tests.e2e.cli_jobs.commands import Cli
from tests.security.hostile_server import EVIL, HostileServer, job


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HostileServer]:
    found = HostileServer(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def cli(
    server: HostileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Cli:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CORRAL_GATEWAY", "CORRAL_TOKEN", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return Cli(monkeypatch, capfd, namespace="default", folder=tmp_path)


def harmless(text: str) -> bool:
    """No character acts, hides or turns; no line begins as the attacker wants."""
    lines = re.split(r"[\n\r\x0b\x0c\x85\u2028\u2029]", text)
    forged = [line for line in lines if line.lstrip(" ").startswith("FORGED") and line[:2] != "  "]
    return printable_lines(text) == text and not forged


COMMANDS = (
    ("get trainingjobs", 0),
    ("get mpijobs", 0),
    ("get trainingjob/victim", 0),
    ("get all", 0),
    ("get trainingjobs -o name", 0),
    ("describe trainingjob/victim", 0),
    ("describe mpijob/victim", 0),
    ("describe trainingjob/victim -o yaml", 0),
    ("explain trainingjob/victim", 0),
    ("explain mpijob/victim", 0),
    ("events trainingjob/victim", 0),
    ("events trainingjob/victim -o name", 0),
    ("top trainingjob/victim", 0),
    ("cost trainingjob/victim", 0),
    ("wait trainingjob/victim --timeout 5s", 1),
    ("wait spotinstancejob/victim --timeout 5s", 1),
    ("suspend trainingjob/victim", None),
    ("resume trainingjob/victim", None),
    ("scale trainingjob/victim --replicas 3", None),
    ("spot instances", 0),
    ("spot history", 0),
    ("spot history --rates", 0),
    ("fl metrics victim", None),
    ("fl metrics victim --proplets", None),
    ("fl models victim", 0),
)


@pytest.mark.attack(
    "terminal",
    "puts terminal sequences and line ends into every field of a job, its pods and events",
    "every command of corral prints them escaped, each in its own line",
)
@pytest.mark.parametrize(("command", "code"), COMMANDS, ids=[c for c, _ in COMMANDS])
def test_fields_of_objects(command: str, code: int | None, cli: Cli, server: HostileServer) -> None:
    server.pods = "Running" if command.startswith("top") else "Pending"
    words = command.split()
    at = 2 if words[0] in ("spot", "fl") else 1
    said = run(cli, [*words[:at], "-n", "default", *words[at:]], code)
    assert said.strip()
    assert harmless(said), said


def run(cli: Cli, words: list[str], code: int | None, program: str = "corral") -> str:
    """What a command wrote, to both outputs; ``code`` None: however it ended."""
    cli.monkeypatch.setattr(sys, "argv", [program, *words])
    cli.capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        (main.main if program == "corral" else odh.main)()
    sys.stdout.flush()
    captured = cli.capfd.readouterr()
    assert code is None or int(ended.value.code or 0) == code, captured
    assert "Traceback" not in captured.err, captured
    return captured.out + captured.err


@pytest.mark.attack(
    "terminal",
    "puts terminal sequences into the fields of an MPIJob that odh shows",
    "odh prints them escaped",
)
@pytest.mark.parametrize("verb", ["list mpijob", "describe mpijob victim", "delete mpijob victim"])
def test_odh(verb: str, cli: Cli) -> None:
    first, *rest = verb.split()
    more = ["--no-wait"] if first == "delete" else []
    said = run(cli, ["training", first, "-n", "default", *rest, *more], None, "odh")
    assert said.strip()
    assert harmless(said), said


@pytest.mark.attack(
    "terminal",
    "answers requests with errors whose words are terminal sequences (webhook, proxy, server)",
    "the error is one escaped line",
)
@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504])
def test_errors_of_servers(code: int, cli: Cli, server: HostileServer) -> None:
    server.refuses = code
    said = run(cli, ["suspend", "-n", "default", "trainingjob/victim"], None)
    assert harmless(said), said
    errors = [line for line in said.splitlines() if line.startswith("corral: ")]
    assert errors, said


@pytest.mark.attack(
    "terminal",
    "hides text in what -o yaml and -o json print: bidirectional overrides, NEL, zero width",
    "both are escaped as JSON and YAML escape, and mean the same when they are read",
)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents(form: str, cli: Cli) -> None:
    said = run(cli, ["get", "-n", "default", "trainingjob/victim", "-o", form], 0)
    out = said.split("corral: warning")[0]
    assert harmless(out), out
    found = json.loads(out) if form == "json" else yaml.safe_load(out)
    wanted = job("trainingjobs")["status"]["message"].replace("\ud800", "\ufffd")
    assert found["status"]["message"] == wanted


@pytest.mark.attack(
    "terminal",
    "writes sequences, carriage returns and C1 controls to its log",
    "a terminal gets them escaped and every line with its prefix; --raw and pipes get the bytes",
)
@pytest.mark.parametrize("program", ["corral logs", "corral logs --raw", "odh logs", "piped"])
def test_logs(program: str, server: HostileServer, tmp_path: Path) -> None:
    server.pods = "Failed"
    module = "corral.cli.odh" if program.startswith("odh") else "corral.cli.main"
    words = ["training", "logs", "mpijob", "victim"] if module.endswith("odh") else [
        "logs", "--prefix", "trainingjob/victim", *(["--raw"] if "raw" in program else [])
    ]  # fmt: skip
    said = in_terminal(server, tmp_path, module, words, piped=program == "piped")
    assert "first" in said and "last" in said
    if program in ("corral logs --raw", "piped"):
        assert "\x1b]52;c;" in said
        return
    plain = re.sub(r"\x1b\[(\d+|0)m", "", said)  # the colours of our prefixes
    assert "\x1b" not in plain and "\x9b" not in plain and "\u202e" not in plain
    forged = [line for line in plain.splitlines() if line.startswith("FORGED")]
    assert not forged or program.startswith("odh"), plain
    assert r"\x1b]52;c;" in plain


def in_terminal(
    server: HostileServer, folder: Path, module: str, words: list[str], *, piped: bool = False
) -> str:
    """What a command shows in a terminal (or to a pipe)."""
    env = {
        "KUBECONFIG": str(server.kubeconfig), "HOME": str(folder), "TERM": "xterm-256color",
        "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    argv = ["-m", module, *words]
    command, arguments = sys.executable, argv
    if piped:
        shell = " ".join([sys.executable, *argv])
        command, arguments = "/bin/sh", ["-c", f"{shell} | cat -u"]
    child = pexpect.spawn(command, arguments, env=env, timeout=60, dimensions=(50, 4000))
    said = child.read().decode(errors="surrogateescape")
    child.close()
    return str(said).replace("\r\n", "\n")


@pytest.mark.attack(
    "terminal",
    "gives a job a name that a shell would act on when it completes words",
    "only names that Kubernetes allows are completed",
)
def test_completion(cli: Cli, server: HostileServer) -> None:
    server.more = ("good", "$(touch x)", "\x1b[2J", "a\nb", "a;b", "-o")
    context = typer.Context(typer.main.get_command(main.app))
    context.params = {"kubeconfig": str(server.kubeconfig)}
    assert complete_names(context, "trainingjobs", "") == ["good", "victim"]


@pytest.mark.attack(
    "terminal",
    "sends what a command does not expect, so that it ends with a traceback that quotes it",
    "the traceback is escaped like all else",
)
@pytest.mark.parametrize("program", ["corral", "odh"])
def test_tracebacks_of_commands(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def broken() -> None:
        raise ValueError(EVIL)

    with (
        pytest.raises(SystemExit) as ended,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", [program])
        start(app, program)
    said = capfd.readouterr().err
    assert ended.value.code == 1
    assert said.startswith("Traceback") and "ValueError" in said
    assert printable_lines(said) == said


def test_the_server_is_hostile() -> None:
    """The cases above would be worth nothing without it."""
    assert printable(EVIL) != EVIL
    assert not harmless(EVIL)

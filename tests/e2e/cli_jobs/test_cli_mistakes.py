"""The mistakes that people are most likely to make: one line, a hint that helps, an exit code."""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.api import all_crds
from tests.backends import Backend, own_backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import install
from tests.e2e.cli_jobs.commands import SLEEPS, Cli, training_job
from tests.e2e.cli_jobs.conftest import NOBODY_TOKEN
from tests.e2e.clusters import Up


@dataclass
class Scene:
    """What a case may prepare."""

    cli: Cli
    up: Up
    objects: Objects

    def file(self, name: str, text: str) -> str:
        (self.cli.folder / name).write_text(text)
        return name

    def kubeconfig(self, **changes: Any) -> str:
        """Another kubeconfig: ``server`` and ``user`` may differ."""
        config = json.loads(self.up.kubeconfig.read_text())
        if "server" in changes:
            config["clusters"][0]["cluster"]["server"] = changes["server"]
        if "user" in changes:
            config["users"][0]["user"] = changes["user"]
        return self.file("other.kubeconfig", json.dumps(config))

    def job(self, name: str, command: list[str] | None = None, **spec: Any) -> None:
        self.objects.create("trainingjobs", training_job(name, command or ["true"], **spec))


Prepare = Callable[[Scene], list[str]]


@dataclass
class Mistake:
    """The words of a command, its exit code, and what must be said."""

    words: Prepare | list[str]
    code: int
    says: list[str]

    def prepared(self, scene: Scene) -> list[str]:
        return self.words(scene) if callable(self.words) else self.words


def with_job(*words: str) -> Prepare:
    def prepare(scene: Scene) -> list[str]:
        scene.job("digits", runPolicy={"suspend": True})
        return list(words)

    return prepare


def elsewhere(scene: Scene) -> list[str]:
    Objects(scene.up, "default").create(
        "trainingjobs", training_job(scene.cli.namespace, ["true"], runPolicy={"suspend": True})
    )
    return ["describe", scene.cli.namespace]


def expired(scene: Scene) -> list[str]:
    """A client certificate of yesterday, by the cluster's own authority."""
    pki = scene.up.data / "pki"
    issuer = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * day)
        .not_valid_after(now - day)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    (scene.cli.folder / "old.crt").write_bytes(certificate.public_bytes(pem))
    (scene.cli.folder / "old.key").write_bytes(key.private_bytes(pem, traditional, plain))
    user = {"client-certificate": "old.crt", "client-key": "old.key"}
    return ["get", "--kubeconfig", scene.kubeconfig(user=user)]


def no_config(scene: Scene) -> list[str]:
    scene.cli.monkeypatch.delenv("KUBECONFIG")
    return ["get"]


def not_there(scene: Scene) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return ["get", "--kubeconfig", scene.kubeconfig(server=f"https://127.0.0.1:{port}")]


def manifest(text: str, *words: str) -> Prepare:
    return lambda scene: ["apply", "-f", scene.file("job.yaml", text), *words]


def job_yaml(**spec: Any) -> str:
    return json.dumps(training_job("digits", ["true"], **spec))


def exists(scene: Scene) -> list[str]:
    scene.job("digits", runPolicy={"suspend": True})
    scene.cli.program()
    return ["run", "--name", "digits", "--", "python", "train.py"]


def finished(scene: Scene) -> list[str]:
    scene.job("digits")
    scene.cli("wait", "digits", "--timeout", "60s")
    return ["suspend", "digits"]


MISTAKES: dict[str, Mistake] = {
    "a kind that does not exist": Mistake(["get", "trainjob"], 2, ["did you mean trainingjobs"]),
    "a typo in a name": Mistake(with_job("describe", "digts"), 3, ["did you mean 'digits'"]),
    "the wrong namespace": Mistake(elsewhere, 3, ["add -n default"]),
    "no cluster configured": Mistake(no_config, 8, ["corral up --detach"]),
    "no cluster running": Mistake(not_there, 8, ["is it running?", "corral up"]),
    "no rights": Mistake(
        lambda scene: ["get", "tj", "--kubeconfig", scene.kubeconfig(user={"token": NOBODY_TOKEN})],
        4,
        ["nobody may not list trainingjobs.training.corral.dev", "rolebindings"],
    ),
    "credentials that nobody believes": Mistake(
        lambda scene: ["get", "tj", "--kubeconfig", scene.kubeconfig(user={"token": "wrong"})],
        4,
        ["does not accept these credentials", "log in again"],
    ),
    "an expired certificate": Mistake(expired, 4, ["expired", "renew"]),
    "a context that is not there": Mistake(
        ["get", "--context", "prod"], 8, ["'prod'", "known contexts: test"]
    ),
    "a namespace that is not there": Mistake(
        ["run", "--no-code", "-n", "nowhere", "--", "true"], 3, ["kubectl create namespace nowhere"]
    ),
    "invalid YAML": Mistake(manifest("a: [1\nb: 2\n"), 7, ["job.yaml", "line 2", "indentation"]),
    "YAML that is no object": Mistake(manifest("just words\n"), 7, ["apiVersion"]),
    "an unknown field": Mistake(
        manifest(job_yaml(replica=3)), 7, ["there is no field spec.replica", "correct the fields"]
    ),
    "a value that is not allowed": Mistake(
        manifest(job_yaml(framework="caffe")), 7, ["spec.framework", "pytorch"]
    ),
    "a file that is not there": Mistake(["apply", "-f", "jobs.yaml"], 3, ["jobs.yaml", "path"]),
    "an empty file": Mistake(manifest("# nothing\n"), 2, ["no object", "empty"]),
    "an empty command": Mistake(["run"], 2, ["corral run -- python train.py"]),
    "a script that is not in the folder": Mistake(
        ["run", "--", "python", "trian.py"], 2, ["trian.py", "--dir"]
    ),
    "an invalid name": Mistake(["run", "--name", "My_Job", "--", "true"], 2, ["'my-job'"]),
    "a name that is too long": Mistake(
        ["run", "--name", "x" * 60, "--", "true"], 2, ["longer than 56"]
    ),
    "a job that exists already": Mistake(exists, 6, ["already", "--name", "corral delete"]),
    "a variable without a value": Mistake(
        ["run", "-e", "NOT_SET_HERE", "--", "true"], 2, ["--env NOT_SET_HERE=value"]
    ),
    "a time that is none": Mistake(
        with_job("wait", "digits", "--timeout", "soon"), 2, ["90s, 30m"]
    ),
    "waiting for too long": Mistake(
        with_job("wait", "digits", "--timeout", "0.5s"), 5, ["within 0.5 s", "--timeout"]
    ),
    "waiting for a phase that there is not": Mistake(
        with_job("wait", "digits", "--for", "done"), 2, ["phases are", "Succeeded"]
    ),
    "deleting what is not there": Mistake(["delete", "tj/gone"], 3, ["'gone'", "corral get"]),
    "suspending a job that is over": Mistake(finished, 6, ["Succeeded", "corral restart"]),
    "restarting a job that is not over": Mistake(
        with_job("restart", "digits"), 6, ["only a job that is over", "force"]
    ),
    "running as a kind that has no command": Mistake(
        ["run", "--kind", "checkpoint", "--", "true"], 2, ["trainingjob or mpijob", "apply -f"]
    ),
    "an option that is not there": Mistake(["get", "--fase", "Failed"], 2, ["--phase"]),
    "a command that is not there": Mistake(["desribe", "digits"], 2, ["describe"]),
    "a gateway without a token": Mistake(
        lambda scene: [
            "get",
            "--gateway",
            "https://127.0.0.1:1",
            "--kubeconfig",
            scene.kubeconfig(user={}),
        ],
        4,
        ["CORRAL_TOKEN"],
    ),
}


@pytest.fixture
def scene(cli: Cli, up: Up, objects: Objects) -> Scene:
    return Scene(cli, up, objects)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_a_hint(scene: Scene, name: str) -> None:
    mistake = MISTAKES[name]
    said = scene.cli(*mistake.prepared(scene), code=mistake.code)
    (line,) = said.err.splitlines()
    assert line.startswith("corral: ")
    for words in mistake.says:
        assert words in line
    assert said.out == ""


def test_there_are_at_least_twenty() -> None:
    assert len(MISTAKES) >= 20


# -- mistakes that show later ----------------------------------------------------------------------


def explained(cli: Cli, job: str, *says: str, options: tuple[str, ...] = ()) -> None:
    """`corral explain` comes to say all of it."""

    def told() -> bool:
        text = cli("explain", job, *options).out
        return all(words in text for words in says)

    eventually(told, seconds=60)


def test_an_image_that_nobody_knows(cli: Cli) -> None:
    cli("run", "-d", "--no-code", "--name", "unknown", "--image", "nvcr.io/x:1", "--", "true")
    explained(cli, "unknown", "nvcr.io/x:1", "image")


def test_more_gpus_than_there_are(cli: Cli) -> None:
    cli("run", "-d", "--no-code", "--name", "greedy", "--gpus", "8", "--", "true")
    explained(cli, "greedy", "nvidia.com/gpu")


def test_logs_before_there_is_a_pod(cli: Cli, objects: Objects) -> None:
    objects.create("trainingjobs", training_job("later", SLEEPS, runPolicy={"suspend": True}))
    said = cli("logs", "later")
    assert said.out == ""
    assert "no logs of trainingjob/later yet" in said.err
    assert "corral explain trainingjob/later" in said.err


def test_a_port_that_is_taken(cli: Cli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = cli("up", "--data-dir", str(tmp_path / "other"), "--port", port, code=1)
    assert port in said.err
    assert "--port" in said.err


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster that knows nothing of us."""
    with own_backend(tmp_path_factory.mktemp("bare")) as backend:
        yield backend


def test_a_cluster_without_corral(cli: Cli, bare: Backend) -> None:
    config = str(bare.kubeconfig)
    cli.program()
    words = ("run", "--kubeconfig", config, "-n", "default", "--", "python", "train.py")
    for command in (words, ("get", "tj", "--kubeconfig", config), ("get", "--kubeconfig", config)):
        said = cli(*command, code=3)
        assert "this cluster does not know TrainingJobs" in said.err
        assert "corral install" in said.err
    install(Objects(bare), all_crds())
    cli(*words[:-3], "--detach", "--name", "waits", *words[-3:])
    # A controller that has not looked at once is away; nobody need wait for it here.
    cli.monkeypatch.setattr("corral.client.explain.explanation._UNSEEN_SECONDS", 0.0)
    explained(cli, "waits", "operator", options=("--kubeconfig", config, "-n", "default"))

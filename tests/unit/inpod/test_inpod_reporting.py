"""Reports against a real server that fails in every way it can."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import math
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from inpod_operator import Operator, running

from corral.inpod import patience
from corral.inpod.client import Client
from corral.inpod.environment import Environment
from corral.inpod.errors import Unavailable
from corral.inpod.replica import Replica

Make = Callable[..., Replica]


def report(replica: Replica, step: int, **metrics: object) -> None:
    replica.report(step, total=100, metrics=metrics)


def steps(operator: Operator) -> list[int]:
    return [body["step"] for body in operator.bodies("report") if "step" in body]


def test_a_report_has_everything_that_the_operator_reads(replica: Make, operator: Operator) -> None:
    pod = replica(report_url=operator.url, replica=2, attempt=3)
    pod.report(12, total=100, epoch=1.0, metrics={"loss": 0.25, "lr": 1})
    pod.flush()
    body = operator.bodies("report")[-1]
    assert body.pop("time") > 0
    assert body == {
        "replica": 2,
        "attempt": 3,
        "step": 12,
        "total": 100,
        "epoch": 1,
        "metrics": {"loss": 0.25, "lr": 1.0},
    }


def test_all_reports_go_over_one_connection(replica: Make, operator: Operator) -> None:
    pod = replica(report_url=operator.url)
    for step in range(5):
        report(pod, step)
        pod.flush()
    assert steps(operator) == [0, 1, 2, 3, 4]
    assert operator.connections == 1


def test_the_newest_report_wins_while_the_server_is_slow(replica: Make, operator: Operator) -> None:
    operator.faults.append("slow")
    pod = replica(report_url=operator.url)
    report(pod, 0)
    for step in range(1, 1000):
        report(pod, step)
    assert not operator.calls, "all of that happened before the first answer"
    operator.release.set()
    pod.flush()
    assert steps(operator)[-1] == 999
    assert len(steps(operator)) <= 3


@pytest.mark.parametrize("fault", [500, 503, 429, 408, "refuse", "drop", "half", 502])
def test_a_failed_report_is_repeated(
    replica: Make, operator: Operator, fault: str | int, caplog: pytest.LogCaptureFixture
) -> None:
    operator.faults.extend([fault] * 4)
    pod = replica(report_url=operator.url)
    report(pod, 7, loss=1.0)
    pod.flush()
    assert set(steps(operator)) == {7}
    assert len(steps(operator)) >= 5
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, "one warning, however often it failed"


def test_nobody_listens_and_training_does_not_notice(
    monkeypatch: pytest.MonkeyPatch, replica: Make
) -> None:
    monkeypatch.setattr("corral.inpod.replica.REPORT_PATIENCE", 0.05)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        pod = replica(report_url=f"http://127.0.0.1:{free.getsockname()[1]}/x")
    for step in range(100):
        report(pod, step)
    pod.flush()


def test_a_fenced_attempt_reports_no_more_and_saves_no_more(
    replica: Make, operator: Operator, tmp_path: Path
) -> None:
    operator.faults.append(409)
    pod = replica(report_url=operator.url)
    report(pod, 1)
    pod.flush()
    report(pod, 2)
    pod.flush()
    assert steps(operator) == [1]
    assert not pod.maybe_checkpoint(lambda path: None, step=3, force=True)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_report_that_is_refused_is_dropped(
    replica: Make, operator: Operator, status: int
) -> None:
    operator.faults.append(status)
    pod = replica(report_url=operator.url)
    report(pod, 1)
    pod.flush()
    report(pod, 2)
    pod.flush()
    assert steps(operator) == [1, 2]


def test_a_new_token_is_read_when_the_file_changes_or_the_old_one_fails(
    replica: Make, operator: Operator, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    operator.token = "first"
    pod = replica(report_url=operator.url, token_file=str(token))
    report(pod, 1)
    pod.flush()
    operator.token = "second"
    report(pod, 2)
    operator.wait(lambda: operator.calls[-1] == ("report", {}))  # refused: 401
    fresh = tmp_path / "token.new"
    fresh.write_text("second")
    fresh.replace(token)
    pod.flush()
    assert steps(operator) == [1, 2]


def test_a_missing_token_is_waited_for(replica: Make, operator: Operator, tmp_path: Path) -> None:
    operator.token = "late"
    pod = replica(report_url=operator.url, token_file=str(tmp_path / "token"))
    report(pod, 1)
    (tmp_path / "token").write_text("late")
    pod.flush()
    assert steps(operator) == [1]


class Tensor:
    def __init__(self, value: float) -> None:
        self._value = value

    def __float__(self) -> float:
        return self._value

    def __int__(self) -> int:
        return int(self._value)


def test_metrics_are_finite_numbers_or_null(
    replica: Make, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    pod = replica(report_url=operator.url)
    for _ in range(3):
        pod.report(
            Tensor(3),  # type: ignore[arg-type]
            epoch=1.75,
            metrics={
                "nan": math.nan,
                "inf": math.inf,
                "tensor": Tensor(0.5),
                "text": "low",
                "none": None,
            },
        )
    pod.flush()
    body = operator.bodies("report")[-1]
    assert (body["step"], body["epoch"]) == (3, 1)
    assert body["metrics"] == {
        "nan": None,
        "inf": None,
        "tensor": 0.5,
        "text": None,
        "none": None,
    }
    assert caplog.text.count("metric text is no number") == 1


@pytest.mark.parametrize("step", ["x", -1, None, math.nan, 1 << 60])
def test_a_step_that_is_none_is_left_out(replica: Make, operator: Operator, step: object) -> None:
    pod = replica(report_url=operator.url)
    pod.report(step, metrics={"loss": 1.0})  # type: ignore[arg-type]
    pod.flush()
    assert "step" not in operator.bodies("report")[-1]


def test_more_metrics_than_the_operator_takes_are_left_out(
    replica: Make, operator: Operator
) -> None:
    pod = replica(report_url=operator.url)
    pod.report(1, metrics={f"m{n}": n for n in range(100)})
    pod.flush()
    assert len(operator.bodies("report")[-1]["metrics"]) == 64


def test_checkpointing_alone_reports_the_step(replica: Make, operator: Operator) -> None:
    pod = replica(report_url=operator.url, interval=1e9)
    pod.maybe_checkpoint(lambda path: None, step=4)
    pod.flush()
    body = operator.bodies("report")[-1]
    assert (body["step"], body["sharded"]) == (4, False)


def certificate(folder: Path) -> str:
    """A certificate for 127.0.0.1, its key beside it; returns its PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "operator")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "cert.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem.decode()


def test_tls_with_the_operators_own_authority(replica: Make, tmp_path: Path) -> None:
    server = Operator()
    pem = certificate(tmp_path)
    server.secure(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    with running(server):
        pod = replica(report_url=server.url, ca=pem)
        report(pod, 1)
        pod.flush()
        assert steps(server) == [1]


def test_a_server_that_the_authority_did_not_sign_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    server = Operator()
    certificate(tmp_path)
    server.secure(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    with running(server):
        other = certificate(tmp_path / "other")
        client = Client(Environment(report_url=server.url, ca=other))
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            client.post("report", {"step": 1})
        assert not server.calls


def test_backoff_grows_to_its_cap_with_jitter() -> None:
    backoff = patience.Backoff(base=1.0, cap=8.0)
    delays = [backoff.next() for _ in range(40)]
    for delay, whole in zip(delays, [1, 2, 4, 8, *[8] * 36], strict=True):
        assert whole / 2 <= delay <= whole
    assert len(set(delays)) > 30
    backoff.reset()
    assert backoff.next() <= 1.0


def test_patience_ends() -> None:
    clock = iter(range(100))

    def fail() -> None:
        raise Unavailable("away")

    short = patience.Patience(
        3, backoff=patience.Backoff(base=0.0), clock=lambda: float(next(clock))
    )
    with pytest.raises(Unavailable):
        short.retry(fail)
    assert short.stalled.is_set()

"""Reflection, health and TLS, with clients that know nothing of the server but its address."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc

from corral.client import Change, errors
from corral.gateway.grpc import GrpcSettings
from corral.gateway.grpc.failures import CODES
from corral.gateway.problems import TITLES
from corral.v1 import jobs_pb2 as pb
from corral.v1.jobs_pb2_grpc import JobServiceStub
from tests.unit.gateway_grpc.grpc_stage import BEARER, OBJECT, TOKEN, Stage, stage
from tests.unit.gateway_grpc.reflecting import VERSIONS, Reflecting

GET = pb.GetRequest(kind="mpijobs", namespace="n", name="pi")


async def beside(running: Stage, work: Any, *arguments: Any) -> Any:
    """Do blocking work with a channel of its own, beside the server's loop."""

    def connected() -> Any:
        with grpc.insecure_channel(f"127.0.0.1:{running.server.port}") as channel:
            return work(channel, *arguments)

    return await asyncio.to_thread(connected)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_needs_nothing_but_the_address(version: str) -> None:
    def explore(channel: grpc.Channel) -> None:
        client = Reflecting(channel, version)
        assert {"corral.v1.JobService", "corral.v1.MPIJobService", version} < set(client.services())
        assert "WatchMPIJobStatus" in client.methods("corral.v1.MPIJobService")
        where = {"namespace": "n", "name": "pi"}
        answer = client.call("corral.v1.JobService/Get", {"kind": "mpi", **where}, token=TOKEN)
        assert orjson.loads(base64.b64decode(answer["object"]["json"])) == OBJECT
        answer = client.call("corral.v1.MPIJobService/GetMPIJob", where, token=TOKEN)
        assert answer["object"]["spec"]["slotsPerWorker"] == 2
        answers = client.call("corral.v1.MPIJobService/WatchMPIJobStatus", where, token=TOKEN)
        assert [change["type"] for change in answers] == ["CHANGE_TYPE_ADDED"]

    async def one() -> Any:
        yield Change("ADDED", OBJECT, "Running")

    async with stage() as running:
        running.gateway.answers["watch"] = one
        await beside(running, explore)


async def test_health_is_told_for_every_service_until_the_end() -> None:
    async with stage() as running:
        stub = health_pb2_grpc.HealthStub(running.channel)
        for name in ("", "corral.v1.JobService", "corral.v1.TrainingJobService"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="corral.v1.JobService"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.create_task(running.server.stop())
        async with asyncio.timeout(30):
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            watch.cancel()
            await stopping


async def test_a_taken_address_is_an_error() -> None:
    async with stage() as running:
        with pytest.raises(OSError, match="cannot listen"):
            async with stage(settings=GrpcSettings(port=running.server.port)):
                raise AssertionError("it listens")


def test_every_problem_has_a_code() -> None:
    assert set(CODES) == set(TITLES)
    assert {errors.JobError.code} <= {status for status, _ in TITLES.values()}


# --- TLS -----------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> GrpcSettings:
    """A certificate of its own for 127.0.0.1, in the files of the settings."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("gateway.test")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    settings = GrpcSettings(certificate=folder / "tls.crt", key=folder / "tls.key")
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(pem, form, plain))
    (folder / "tls.crt").write_bytes(made.public_bytes(pem))
    return settings


async def get_over_tls(port: int, trusted: bytes) -> str:
    credentials = grpc.ssl_channel_credentials(trusted)
    options = [("grpc.ssl_target_name_override", "gateway.test")]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        answer = await JobServiceStub(channel).Get(GET, metadata=BEARER, timeout=30)
        return str(answer.object.name)


async def test_tls_and_a_certificate_that_is_renewed(tmp_path: Path) -> None:
    settings = certificate(tmp_path, "first")
    first = (tmp_path / "tls.crt").read_bytes()
    async with stage(settings=settings) as running:
        assert await get_over_tls(running.server.port, first) == "pi"
        certificate(tmp_path, "second")
        second = (tmp_path / "tls.crt").read_bytes()
        assert await get_over_tls(running.server.port, second) == "pi"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get_over_tls(running.server.port, first)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError):  # without TLS there is no answer
            await JobServiceStub(running.channel).Get(GET, metadata=BEARER, timeout=30)
        (line, *_) = await running.audited(1)
        assert TOKEN not in str(line)


async def test_half_of_a_renewed_certificate_does_no_harm(tmp_path: Path) -> None:
    settings = certificate(tmp_path, "first")
    first = (tmp_path / "tls.crt").read_bytes()
    async with stage(settings=settings) as running:
        (tmp_path / "tls.crt").write_bytes(b"half")
        assert await get_over_tls(running.server.port, first) == "pi"
        (tmp_path / "tls.key").unlink()
        assert await get_over_tls(running.server.port, first) == "pi"

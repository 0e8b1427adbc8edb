"""The serving certificate over the years; judged by what a client gets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from server_node import unverified

from corral.cluster.node.server.certificates import Certificates

NAMES = ("node-1", "127.0.0.1", "10.0.0.7", "fd00::7")


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def serving(certificates: Certificates) -> AsyncIterator[int]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificates.listening())
    async with server:
        yield server.sockets[0].getsockname()[1]


async def shown(port: int) -> bytes:
    """The certificate a client is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(found)


async def test_made_once_and_kept(tmp_path: Path) -> None:
    async with serving(Certificates(tmp_path, NAMES)) as port:
        first = await shown(port)
    async with serving(Certificates(tmp_path, NAMES[:2])) as port:
        assert await shown(port) == first
    found = x509.load_der_x509_certificate(first)
    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert held.get_values_for_type(x509.DNSName) == ["node-1"]
    assert [str(ip) for ip in held.get_values_for_type(x509.IPAddress)] == [*NAMES[1:]]
    assert (tmp_path / "node.key").stat().st_mode & 0o777 == 0o600


async def test_verifiable_by_its_own_file(tmp_path: Path) -> None:
    async with serving(Certificates(tmp_path, NAMES)) as port:
        context = ssl.create_default_context(cafile=str(tmp_path / "node.crt"))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.close()
        await writer.wait_closed()


async def test_renewed_while_serving(tmp_path: Path) -> None:
    clock = Clock()
    async with serving(Certificates(tmp_path, NAMES, now=clock)) as port:
        first = await shown(port)
        clock.now += timedelta(days=300)
        assert await shown(port) == first
        clock.now += timedelta(days=40)
        assert await shown(port) != first


async def test_new_names_need_a_new_one(tmp_path: Path) -> None:
    async with serving(Certificates(tmp_path, NAMES)) as port:
        first = await shown(port)
    async with serving(Certificates(tmp_path, (*NAMES, "10.0.0.8"))) as port:
        assert await shown(port) != first


@pytest.mark.parametrize("file", ["node.crt", "node.key"])
async def test_damaged_files_are_replaced(tmp_path: Path, file: str) -> None:
    async with serving(Certificates(tmp_path, NAMES)) as port:
        first = await shown(port)
    (tmp_path / file).write_text("nonsense")
    async with serving(Certificates(tmp_path, NAMES)) as port:
        assert await shown(port) != first


async def test_given_files_are_read_again(tmp_path: Path) -> None:
    old, new = Certificates(tmp_path / "a", NAMES), Certificates(tmp_path / "b", NAMES)
    old.listening(), new.listening()
    given = (tmp_path / "a" / "node.crt", tmp_path / "a" / "node.key")
    async with serving(Certificates(tmp_path / "c", NAMES, given=given)) as port:
        first = await shown(port)
        given[1].write_text("half written")
        assert await shown(port) == first
        for path in given:
            path.write_bytes((tmp_path / "b" / path.name).read_bytes())
        assert await shown(port) != first
    assert not (tmp_path / "c").exists()


def test_given_files_must_be_there(tmp_path: Path) -> None:
    missing = (tmp_path / "no.crt", tmp_path / "no.key")
    with pytest.raises(OSError):
        Certificates(tmp_path, NAMES, given=missing).listening()

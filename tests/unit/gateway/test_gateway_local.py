from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from corral.gateway import local
from corral.gateway.local import LocalSettings
from corral.runtime.serving.listening import Listen, bind, first_connection


def settings(folder: Path, **more: Any) -> LocalSettings:
    return LocalSettings(folder=folder, kubeconfig=folder / "kubeconfig", **more)


def ports(chosen: LocalSettings) -> tuple[int, int]:
    rest, grpc = local._sockets(chosen)
    with rest, grpc:
        return rest.getsockname()[1], grpc.getsockname()[1]


def test_ports_of_the_last_time_are_taken_again(tmp_path: Path) -> None:
    chosen = settings(tmp_path, port=0)
    first = ports(chosen)
    chosen.addresses.write_text(json.dumps({"ports": list(first)}))
    assert ports(chosen) == first
    assert ports(settings(tmp_path)) == first


def test_where_they_are_taken_others_are_found(tmp_path: Path) -> None:
    with bind(Listen()) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "gateway.json").write_text(json.dumps({"ports": [port, port]}))
        assert port not in ports(settings(tmp_path))
        with pytest.raises(OSError, match="in use"):
            ports(settings(tmp_path, port=port))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": [1]}', '{"ports": ["a", "b"]}'])
def test_a_damaged_note_of_ports_is_forgotten(tmp_path: Path, text: str) -> None:
    (tmp_path / "gateway.json").write_text(text)
    assert all(ports(settings(tmp_path, port=0)))


async def test_loading_begins_with_the_first_connection() -> None:
    with bind(Listen()) as sock:
        waiting = asyncio.create_task(first_connection(sock, stop=asyncio.Event(), within=60))
        await asyncio.sleep(0)
        with socket.create_connection(sock.getsockname()):
            await asyncio.wait_for(waiting, 30)


async def test_or_after_a_while_or_not_at_all() -> None:
    stop = asyncio.Event()
    with bind(Listen()) as sock:
        await first_connection(sock, stop=stop, within=0.01)
        stop.set()
        await asyncio.wait_for(first_connection(sock, stop=stop, within=60), 30)

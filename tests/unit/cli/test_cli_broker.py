"""The broker's options, and the addresses that others are told."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from corral.cli.commands.broker import addresses, checked_address
from corral.cli.main import app
from corral.cluster.broker.process import LocalBroker, choose_ports
from corral.runtime.serving.listening import keep_facts

LOCAL = LocalBroker(folder=Path("/d"), port=5, pod_port=6)


def test_who_is_told_what() -> None:
    assert addresses(None, "") == ("", "")
    assert addresses(LOCAL, "k:9092,l:9092") == ("k:9092,l:9092", "")
    own, pods = addresses(LOCAL, "")
    assert own == "127.0.0.1:5"
    assert pods == "corral-broker.corral-system.svc:9092,127.0.0.1:5"


@pytest.mark.parametrize("text", ["k", "k:", ":1", "k:0", "k:70000", "k:1,l", "k:x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        checked_address(text, "--kafka")


def test_ports_stay_while_they_are_free(tmp_path: Path) -> None:
    first = choose_ports(tmp_path, None, any_port=True)
    keep_facts(tmp_path / "broker.json", {}, *first)
    assert choose_ports(tmp_path, None, any_port=True) == first
    with socket.socket() as other:
        other.bind(("127.0.0.1", first[0]))
        other.listen()
        changed = choose_ports(tmp_path, None, any_port=True)
        assert changed[0] != first[0]
        with pytest.raises(OSError, match="in use"):
            choose_ports(tmp_path, first[0], any_port=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "cleanup.policy=compact"], "can only be delete here"),
        (["--config", "no.such=1"], "not known here"),
        (["--config", "retention.ms"], "NAME=VALUE"),
        (["--users", "/nowhere/users"], "cannot read /nowhere/users"),
        (["--advertised", "here"], "HOST:PORT"),
    ],
)
def test_wrong_options_are_said_in_words(tmp_path: Path, words: list[str], said: str) -> None:
    options = ["broker", "--data-dir", str(tmp_path / "d"), "--port", "0", *words]
    done = CliRunner().invoke(app, options)
    assert done.exit_code != 0
    assert said in done.output
    assert "Traceback" not in done.output

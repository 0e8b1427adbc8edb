"""What `corral registry` and the registry's options refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from corral.cli.commands.registry import split_map, where
from corral.cli.main import app
from corral.cluster.registry.local import POD_URL, LocalRegistry


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["registry", "--open", "--host", "0.0.0.0"], "loopback"),
        (["registry", "--cert", "x.pem"], "belong together"),
        (["up", "--registry-map", "a=b"], "NAME="),
        (["node", "--registry-map", "a"], "a=http"),
        (["operator", "--registry-map", "a"], "NAME="),
        (["operator", "--registry", "models"], "is no host"),
    ],
)
def test_options_that_make_no_sense(words: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300", "HOME": str(tmp_path)})
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_names_are_ours_or_elsewhere(tmp_path: Path) -> None:
    names, others = split_map(["registry.example.com", "other=http://h:1/"])
    assert (names, others) == (["registry.example.com"], {"other": "http://h:1"})
    local = LocalRegistry(folder=tmp_path, port=7, names=tuple(names))
    base, machine, pods = where(local, others)
    assert base == "oci://registry.corral.local"
    assert machine == {
        "registry.corral.local": "http://127.0.0.1:7",
        "registry.example.com": "http://127.0.0.1:7",
        "other": "http://h:1",
    }
    assert pods["registry.example.com"] == POD_URL and pods["other"] == "http://h:1"
    assert where(None, others) == ("", others, others)

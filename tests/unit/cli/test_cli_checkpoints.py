"""``corral checkpoint`` and ``corral crds`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from corral.checkpoints.commands import open_repository
from corral.cli.main import app

RUNNER = CliRunner()


def corral(*argv: str, code: int = 0) -> Result:
    result = RUNNER.invoke(app, list(argv))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two complete checkpoints in a folder."""
    from corral.checkpoints import About

    folder = tmp_path / "store"
    folder.mkdir()
    repository = open_repository(str(folder))
    for step in (10, 20):
        writer = repository.begin(step, About())
        writer.add("weights.bin", [b"w" * step])
        writer.commit()
    return folder


def test_list(place: Path) -> None:
    rows = json.loads(corral("checkpoint", "list", str(place), "-o", "json").stdout)
    assert [row["step"] for row in rows] == [20, 10]
    assert {row["status"] for row in rows} == {"Ready"}
    table = corral("checkpoint", "list", str(place)).stdout.splitlines()
    assert table[0].split()[:3] == ["NAME", "STATUS", "STEP"]
    assert len(table) == 3
    names = corral("checkpoint", "list", str(place), "-o", "name").stdout.split()
    assert names == [row["name"] for row in rows]


def test_verify_finds_damage(place: Path) -> None:
    assert "Verified" in corral("checkpoint", "verify", str(place)).stdout
    newest = max(place.rglob("weights.bin"), key=lambda path: path.stat().st_size)
    newest.chmod(0o644)
    newest.write_bytes(b"x" * 20)
    said = corral("checkpoint", "verify", str(place), "-o", "json", code=1)
    statuses = [row["status"] for row in json.loads(said.stdout)]
    assert statuses[1] == "Verified"
    assert statuses[0] != "Verified"


def test_restore(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    done = json.loads(corral("checkpoint", "restore", str(place), str(target), "-o", "json").stdout)
    assert done[0]["step"] == 20
    assert (target / "weights.bin").read_bytes() == b"w" * 20
    refused = corral("checkpoint", "restore", str(place), str(target), code=1)
    assert "not an empty folder" in refused.output
    assert "Traceback" not in refused.output


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = corral("checkpoint", "restore", str(tmp_path / "empty"), str(tmp_path / "o"), code=1)
    assert refused.output.startswith("corral: ")


def test_definitions() -> None:
    documents = list(yaml.safe_load_all(corral("crds").stdout))
    assert {d["kind"] for d in documents} == {"CustomResourceDefinition"}
    names = corral("crds", "-o", "name").stdout.split()
    assert [d["metadata"]["name"] for d in documents] == names
    assert any(name.startswith("trainingjobs.") for name in names)

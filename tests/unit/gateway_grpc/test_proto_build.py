"""The generator of corral/v1, in a checkout that has only what it says that it reads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OUTPUT = "corral/v1"
COMMAND = "tools/protos/__main__.py"
"""Not among what is read where an installation generates, without the command."""


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=checkout, capture_output=True, text=True, timeout=120
    )


def generate(checkout: Path, *options: str) -> str:
    done = run(checkout, "-m", "tools.protos", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(checkout: Path) -> str:
    done = run(checkout, "-m", "tools.protos")
    assert done.returncode == 1
    return done.stderr


def outputs(checkout: Path) -> dict[str, bytes]:
    folder = checkout / OUTPUT
    files = [*folder.glob("*.proto"), *folder.glob("*_pb2*.py*")]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def made(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    record = json.loads((repository / OUTPUT / ".generated.json").read_text())
    inputs = [name for name in record["files"] if not name.startswith(OUTPUT)]
    for name in [*inputs, COMMAND, f"{OUTPUT}/__init__.py", "proto/numbers.json"]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, checkout / name)
    return checkout


@pytest.fixture
def checkout(made: Path) -> Iterator[Path]:
    """One that is up to date; what a case does to the sources is undone."""
    kept = {path: path.read_bytes() for path in (made / "proto").rglob("*") if path.is_file()}
    generate(made)
    yield made
    for path, content in kept.items():
        path.write_bytes(content)


def test_without_stubs_the_package_says_what_to_do(made: Path) -> None:
    shutil.rmtree(made / OUTPUT / "__pycache__", ignore_errors=True)
    for name in outputs(made):
        (made / OUTPUT / name).unlink()
    for statement in ("import corral.v1", "from corral.v1.mpi_job_pb2 import MPIJob"):
        done = run(made, "-c", statement)
        assert done.returncode == 1
        assert "Run `make install` in this checkout" in done.stderr


def test_the_same_sources_give_the_same_files_anywhere(checkout: Path, repository: Path) -> None:
    assert outputs(checkout) == outputs(repository)


def test_nothing_is_done_while_nothing_changed(checkout: Path) -> None:
    numbers = checkout / "proto/numbers.json"
    numbers.write_bytes(numbers.read_bytes())
    assert generate(checkout) == ""


def test_a_change_of_the_sources_is_seen(checkout: Path) -> None:
    source = checkout / "proto/corral/v1/objects.proto"
    source.write_text(source.read_text() + "\n// One that was added.\nmessage Added {}\n")
    assert "files generated" in generate(checkout)
    assert "class Added(" in (checkout / OUTPUT / "objects_pb2.pyi").read_text()


def test_what_was_edited_or_deleted_or_is_too_much_is_put_right(checkout: Path) -> None:
    before, folder = outputs(checkout), checkout / OUTPUT
    (folder / "jobs_pb2.py").write_text("")
    (folder / "core.proto").unlink()
    (folder / "gone_pb2.py").write_text("")
    generate(checkout)
    assert outputs(checkout) == before


def test_a_field_without_a_number_is_refused_until_it_is_pinned(checkout: Path) -> None:
    path, before = checkout / "proto/numbers.json", outputs(checkout)
    text = path.read_text()
    numbers = json.loads(text)
    name, _ = numbers["MPIJobSpec"].popitem()
    path.write_text(json.dumps(numbers))
    refused = refusal(checkout)
    assert f"no number for MPIJobSpec.{name}: " in refused
    assert "python -m tools.protos --pin" in refused
    assert outputs(checkout) == before
    generate(checkout, "--pin")
    assert path.read_text() == text


def test_a_source_that_protoc_refuses_changes_nothing(checkout: Path) -> None:
    before = outputs(checkout)
    (checkout / "proto/corral/v1/value.proto").write_text("message")
    refused = refusal(checkout)
    assert "value.proto:1" in refused
    assert "Traceback" not in refused
    assert outputs(checkout) == before

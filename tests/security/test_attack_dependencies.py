"""What is installed from elsewhere: exactly what the locks name, or nothing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]["requires"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = ("runtime", "test", "lint")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(lock: str) -> list[str]:
    """What a lock names: a requirement with its hashes each."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text().replace("\\\n", " ")
    return [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]


def locked(lock: str) -> dict[str, list[Requirement]]:
    """By name; one that differs between platforms is there more than once."""
    found: dict[str, list[Requirement]] = {}
    for entry in entries(lock):
        one = Requirement(entry.partition("--hash")[0].strip())
        found.setdefault(canonicalize_name(one.name), []).append(one)
    return found


@pytest.mark.attack(
    "dependencies",
    "publishes another file, or a newer version, under the name of a dependency",
    "each is pinned to one version and to the hashes of its files",
)
@pytest.mark.parametrize("lock", LOCKS)
def test_all_is_pinned_with_hashes(lock: str) -> None:
    assert len(entries(lock)) > 20
    for entry in entries(lock):
        words = entry.split()
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[^\s*;]+", words[0]), entry[:80]
        assert HASH.search(entry), words[0]
    for name, pins in locked(lock).items():
        assert all(pin.url is None and not pin.extras for pin in pins), name


@pytest.mark.attack(
    "dependencies",
    "has a dependency taken that no lock names, as it was added without one",
    "all that the package asks for is in the locks, in a version that it takes",
)
@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_have_all_that_is_asked_for(lock: str) -> None:
    wanted = [*PROJECT["dependencies"], *BUILD]
    wanted += EXTRAS.get(lock, [])
    pinned = locked(lock)
    for text in wanted:
        asked = Requirement(text)
        if asked.url is not None or canonicalize_name(asked.name) == "corral":
            continue
        pins = pinned.get(canonicalize_name(asked.name))
        assert pins, f"{asked.name} is not in requirements/{lock}.lock: make lock"
        for pin in pins:
            (version,) = [each.version for each in pin.specifier]
            assert asked.specifier.contains(version, prereleases=True), f"{pin}: make lock"


@pytest.mark.attack(
    "dependencies",
    "has the tests of a change, or what is released, use other files than the locks name",
    "both are installed by the locks, and pip refuses whatever has no hash in them",
)
def test_what_is_tested_is_what_is_locked() -> None:
    assert "export LOCKED=1" in (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    # nothing is looked up beside the lock: a newer release of a dependency changes nothing
    for lock in ("runtime", "$*"):  # the second: of the extra that a target needs
        assert f"$(if $(LOCKED),--no-deps --require-hashes -r requirements/{lock}.lock" in makefile
    assert makefile.count("$(BIN)/python -m pip check") == 2  # nothing that is asked for is missing
    assert "--no-deps --no-build-isolation -e ." in makefile  # the package itself adds nothing
    assert "-r requirements/runtime.lock" in makefile[makefile.index("audit:") :]
    assert "requirements/runtime.lock" in makefile[makefile.index("sbom:") :]


@pytest.mark.attack(
    "dependencies",
    "has another compiler run where the tests make WebAssembly modules",
    "it is pinned with the hashes of its files, like all else that the tests install",
)
def test_the_compiler_is_locked() -> None:
    (entry,) = entries("wasm")
    assert re.match(r"ziglang==\S+ ", entry)
    assert len(HASH.findall(entry)) > 5
    script = (ROOT / "examples" / "federated" / "build.sh").read_text()
    installs = [
        line for line in script.replace("\\\n", " ").splitlines() if "-m pip install" in line
    ]
    assert [('--require-hashes -r "$lock"' in line) for line in installs] == [True]
    assert "requirements/wasm.lock" in script


@pytest.mark.parametrize("lock", LOCKS)
def test_all_locks_agree(lock: str) -> None:
    """What is released is what was tested, and one target changes nothing of another's."""
    tested = locked("test")
    for name, pins in locked(lock).items():
        if name in tested:
            found = {str(pin.specifier) for pin in tested[name]}
            assert {str(pin.specifier) for pin in pins} <= found
    assert locked("runtime").keys() <= tested.keys()


def test_the_stubs_suit_what_the_package_asks_for() -> None:
    """They refuse a grpcio that is older than the tool that made them."""
    (tool,) = [line for line in BUILD if line.startswith("grpcio-tools==")]
    assert tool in EXTRAS["test"]
    assert tool in (ROOT / "requirements/build.in").read_text().splitlines()
    assert f"grpcio>={tool.partition('==')[2]}" in PROJECT["dependencies"]

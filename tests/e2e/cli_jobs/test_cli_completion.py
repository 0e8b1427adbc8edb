"""Completion in real shells: commands, kinds, and the names of jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.completion import script
from tests.cluster.objects import Objects
from tests.e2e.cli_jobs.commands import SLEEPS, Cli, training_job
from tests.e2e.clusters import Up


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """Where a shell finds `corral` and `odh`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program, module in (("corral", "main"), ("odh", "odh")):
        file = folder / program
        file.write_text(f'#!/bin/sh\nexec {sys.executable} -m corral.cli.{module} "$@"\n')
        file.chmod(0o755)
        (folder / f"{program}.bash").write_text(script(program, "bash"))
    return folder


@pytest.fixture
def jobs(objects: Objects) -> None:
    for name in ("digits", "digits-large", "words"):
        objects.create("trainingjobs", training_job(name, SLEEPS, runPolicy={"suspend": True}))


def environment(up: Up, bin_folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "KUBECONFIG": str(up.kubeconfig),
        "CORRAL_COMPLETION_SECONDS": "60",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }


def shell(up: Up, bin_folder: Path, *argv: str) -> list[str]:
    done = subprocess.run(
        argv, env=environment(up, bin_folder), capture_output=True, text=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def in_bash(up: Up, bin_folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of some words."""
    program = words[0]
    quoted = " ".join(f"'{word}'" for word in words)
    text = f"""
source {bin_folder}/{program}.bash
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_{program}_completion {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return shell(up, bin_folder, "bash", "-c", text)


def test_bash(up: Up, namespace: str, bin_folder: Path, jobs: None) -> None:
    assert in_bash(up, bin_folder, "corral", "su") == ["suspend"]
    assert "trainingjobs" in in_bash(up, bin_folder, "corral", "get", "tr")
    here = ("-n", namespace)
    assert in_bash(up, bin_folder, "corral", "describe", *here, "di") == ["digits", "digits-large"]
    assert in_bash(up, bin_folder, "corral", "logs", *here, "tj", "w") == ["words"]
    assert in_bash(up, bin_folder, "corral", "delete", *here, "tj/w") == ["tj/words"]
    assert in_bash(up, bin_folder, "odh", "training", "de") == ["delete", "describe"]


def test_nothing_is_said_where_there_is_no_cluster(up: Up, bin_folder: Path) -> None:
    path = "--kubeconfig", str(bin_folder / "none")
    assert in_bash(up, bin_folder, "corral", "describe", *path, "di") == []


def test_zsh(up: Up, bin_folder: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh on this machine")
    text = "autoload -Uz compinit; compinit -u; source <(corral completion zsh); print ok"
    assert shell(up, bin_folder, "zsh", "-f", "-c", text) == ["ok"]


def test_fish(up: Up, bin_folder: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish on this machine")
    text = "corral completion fish | source; complete -C 'corral su'"
    assert "suspend" in shell(up, bin_folder, "fish", "-c", text)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_script_names_its_program(cli: Cli, name: str) -> None:
    for program in ("corral", "odh"):
        said = cli("completion", name, "--program", program)
        assert said.out == f"{script(program, name)}\n"
        assert f"_{program.upper()}_COMPLETE" in said.out


def test_a_shell_that_nobody_knows(cli: Cli) -> None:
    assert "bash, zsh, fish" in cli("completion", "csh", code=2).err

"""Programs of pods start by the names that earlier versions gave to them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from corral.podtools import commands, confine

EARLIER = {
    "courier": commands.UPLOADER,
    "snapshots": commands.SNAPSHOTS,
    "kafkaml.check": commands.MODEL_CHECK,
    "kafkaml.client": commands.KAFKA_CLIENT,
    "kafkaml.infer": commands.KAFKA_INFERENCE,
    "kafkaml.server": commands.KAFKA_SERVER,
}


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_name_starts_the_same_program(name: str) -> None:
    earlier, current = (
        subprocess.run(
            [sys.executable, "-m", module], capture_output=True, text=True, timeout=60, env={}
        )
        for module in (f"corral.inpod.{name}", EARLIER[name])
    )
    assert earlier.returncode == current.returncode != 0
    assert (earlier.stdout, last_line(earlier.stderr)) == (
        current.stdout,
        last_line(current.stderr),
    )


def last_line(text: str) -> list[str]:
    """The error of a traceback, or the last line that was logged."""
    return text.splitlines()[-1:]


@pytest.mark.parametrize("module", EARLIER.values())
def test_what_pods_start_is_there(module: str) -> None:
    assert find_spec(module) is not None


def test_confine_by_its_earlier_name() -> None:
    from corral.inpod.confine import Limits, run

    assert (run, Limits) == (confine.run, confine.Limits)

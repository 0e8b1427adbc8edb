"""Functions become programs that really run; what cannot be sent is refused in plain words."""

from __future__ import annotations

import functools
import json
import math
import os.path as paths
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from corral.sdk.errors import CannotShip
from corral.sdk.programs.functions import ARGUMENTS, program_of
from tests.unit.sdk import sdk_elsewhere
from tests.unit.sdk.sdk_elsewhere import far_away

RATE = 0.5
NAMES = {"a": [1, 2.5, None, True], "b": "é"}
LOCK = threading.Lock()


@dataclass
class Point:
    x: float

    def half(self) -> float:
        return self.x * RATE


def halved(value: float) -> float:
    return Point(value).half()


def uses_everything(value: float, *, power: int = math.floor(2.9)) -> None:
    """Helpers, a class, values, modules, a default that is computed."""

    def inner(x: float) -> float:
        return halved(x) ** power

    print(json.dumps([inner(value), NAMES, paths.basename("/a/b"), functools.reduce(max, [1, 3])]))


async def is_async(word: str) -> None:
    print(word)


def uses_a_lock() -> None:
    LOCK.acquire()


def uses_a_file_of_ours() -> None:
    far_away()


def uses_a_module_of_ours() -> None:
    sdk_elsewhere.far_away()


def shadows() -> None:
    LOCK = "a local of the same name as something that cannot be sent"
    print(len(LOCK))


def takes(first: int, second: int = 2) -> None:
    print(first, second)


def ran(function: Callable[..., Any], arguments: dict[str, Any], folder: Path) -> str:
    """What the program prints in a process that has nothing of this one."""
    program = program_of(function, arguments)
    for name, data in program.files.items():
        (folder / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-I", str(folder / program.script)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_a_function_may_use_comes_along(tmp_path: Path) -> None:
    said = json.loads(ran(uses_everything, {"value": 8}, tmp_path))
    assert said == [16.0, NAMES, "b", 3]


def test_coroutines_run(tmp_path: Path) -> None:
    assert ran(is_async, {"word": "hé\n\"'"}, tmp_path) == "hé\n\"'\n"


def test_local_names_are_not_taken_for_global_ones(tmp_path: Path) -> None:
    assert int(ran(shadows, {}, tmp_path)) > 10


def test_arguments_are_json() -> None:
    program = program_of(takes, {"first": 1})
    assert json.loads(program.files[ARGUMENTS]) == {"first": 1}
    assert program.script == "takes.py"


def made_inside() -> Callable[[], None]:
    def nested() -> None:
        """Has no closure, but no place of its own either."""

    return nested


def closing_over(value: int) -> Callable[[], int]:
    def nested() -> int:
        return value

    return nested


class Holder:
    def method(self) -> None:
        """Not a function of the top level."""

    @staticmethod
    def static() -> None:
        """Nor is this."""


def made_by_text() -> Callable[[], None]:
    scope: dict[str, Any] = {"__name__": "nowhere"}
    exec("def texted():\n    print(1)\n", scope)
    found: Callable[[], None] = scope["texted"]
    return found


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(lambda: None, "lambda", id="lambda"),
        pytest.param(made_inside(), "inside another function", id="nested"),
        pytest.param(closing_over(1), "uses value of the function around it", id="closure"),
        pytest.param(Holder().method, "is a method", id="method"),
        pytest.param(Holder.static, "inside another function or a class", id="static method"),
        pytest.param(functools.partial(takes, 1), "not a Python function", id="partial"),
        pytest.param(print, "not a Python function", id="builtin"),
        pytest.param(made_by_text(), "cannot be found", id="no source"),
        pytest.param(uses_a_lock, "uses LOCK", id="a lock"),
        pytest.param(uses_a_file_of_ours, "file of yours", id="own function"),
        pytest.param(uses_a_module_of_ours, "file of yours", id="own module"),
    ],
)
def test_what_cannot_be_sent_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(CannotShip, match=words):
        program_of(function)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({}, "missing a required argument", id="missing"),
        pytest.param({"first": 1, "third": 3}, "unexpected keyword argument 'third'", id="unknown"),
        pytest.param({"first": {1, 2}}, "argument first .* holds a set", id="set"),
        pytest.param({"first": float("nan")}, "nan", id="nan"),
        pytest.param({"first": {1: 2}}, "keys are not all texts", id="keys"),
        pytest.param({"first": [{"a": b"x"}]}, "holds a bytes", id="bytes inside"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotShip, match=words):
        program_of(takes, arguments)

"""The sandbox of model code as the attacks meet it: one confined process for many attempts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.matrix import matrix

__all__ = ["Jail", "jail", "listening"]

DRIVER = Path(__file__).with_name("model_code_driver.py")
SMALL = {"seconds": 30, "memory": 1 << 30, "file": 1 << 30}


@dataclass
class Jail:
    """One driver with its folders."""

    mode: str
    folder: Path
    process: subprocess.Popen[str]
    missing: tuple[str, ...] = ()

    @property
    def given(self) -> Path:
        """A file that the model may read."""
        return self.folder / "given" / "data"

    @property
    def out(self) -> Path:
        """The folder that the model may write to."""
        return self.folder / "out"

    @property
    def host(self) -> Path:
        """A file of the machine that is none of the model's business."""
        return self.folder / "secret"

    def _asked(self, words: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.missing = tuple(found["missing"])
        return found

    def tries(self, *words: object) -> str:
        """How an attempt went."""
        return str(self._asked({"ask": [str(word) for word in words]})["answer"])

    def refuses(self, *words: object) -> None:
        """An attempt that must fail."""
        found = self.tries(*words)
        assert found.startswith("refused: "), found

    def once(self, *words: object, **limits: int) -> dict[str, Any]:
        """How an attempt in a process of its own ended."""
        return self._asked({"once": [str(word) for word in words], "limits": SMALL | limits})


@pytest.fixture(scope="module", params=matrix("root", "plain", full=["user"]))
def jail(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jail]:
    """The sandbox, started with all rights, without capabilities, and without namespaces."""
    folder = tmp_path_factory.mktemp(f"jail-{request.param}")
    for name in ("given", "out"):
        (folder / name).mkdir()
    for path in (folder / "given" / "data", folder / "secret"):
        path.write_text("s3cret")
        path.chmod(0o644)
        os.utime(path, (10**9, 10**9))
    words = [sys.executable, str(DRIVER), request.param, str(folder / "given"), str(folder / "out")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        made = Jail(request.param, folder, process)
        made.tries("identity")
        yield made
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def listening(name: str, kind: int = socket.SOCK_DGRAM) -> socket.socket:
    """A socket of the machine with a name, which has received nothing."""
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind("\0" + name[1:] if name.startswith("@") else name)
    if kind == socket.SOCK_STREAM:
        made.listen()
    made.setblocking(False)
    return made

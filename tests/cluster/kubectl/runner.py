"""Runs a real kubectl as a process and keeps what it said."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any


@dataclass
class Said:
    """The outcome of one invocation."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.lines]

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Kubectl:
    """One binary, one kubeconfig, one home folder; one namespace unless told otherwise."""

    binary: str
    kubeconfig: str
    home: Path
    namespace: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, *argv: str, stdin: Any = None, code: int = 0, env: dict[str, str] | None = None
    ) -> Said:
        """Run it and insist on the exit code. Objects on standard input are written as JSON."""
        said = self.run(*argv, stdin=stdin, env=env)
        assert said.code == code, f"{' '.join(argv)}: exit {said.code}\n{said.out}\n{said.err}"
        return said

    def run(self, *argv: str, stdin: Any = None, env: dict[str, str] | None = None) -> Said:
        """Run it, whatever comes of it."""
        text = stdin if isinstance(stdin, str) or stdin is None else as_list(stdin)
        done = subprocess.run(
            self._command(argv),
            input=text or "",
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment(env),
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def json(self, *argv: str, stdin: Any = None) -> Any:
        return self(*argv, "-o", "json", stdin=stdin).json()

    def fails(self, *argv: str, stdin: Any = None) -> str:
        """Run what must be refused; the text of the refusal."""
        return self(*argv, stdin=stdin, code=1).err

    @contextmanager
    def running(self, *argv: str) -> Iterator[Output]:
        """Run it in the background for as long as the block lasts."""
        with subprocess.Popen(
            self._command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment(None),
        ) as process:
            output = Output(process)
            try:
                yield output
            finally:
                process.kill()
                process.wait()
                output.close()

    def _command(self, argv: tuple[str, ...]) -> list[str]:
        return [self.binary, *(["-n", self.namespace] if self.namespace else []), *argv]

    def _environment(self, more: dict[str, str] | None) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
        own = {"HOME": str(self.home), "KUBECONFIG": self.kubeconfig}
        return kept | own | self.env | (more or {})


class Output:
    """The lines of a running process, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def exit_code(self, seconds: float = 30) -> int:
        """The exit code of a process that ends by itself."""
        return self._process.wait(timeout=seconds)

    def until(self, text: str, seconds: float = 30) -> str:
        """The next line that holds a text; lines before it are passed over."""
        end = time.monotonic() + seconds
        seen: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {text!r} in {seen}") from None
            assert line is not None, f"ended without {text!r}: {seen}"
            seen.append(line)
            if text in line:
                return line

    def close(self) -> None:
        self._reader.join(timeout=10)


def as_list(objs: Any) -> str:
    """Objects as one document that kubectl reads."""
    if isinstance(objs, list):
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objs})
    return json.dumps(objs)

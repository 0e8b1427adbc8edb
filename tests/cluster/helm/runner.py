"""Runs a real helm as a process."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Helm:
    """One binary, one kubeconfig, one namespace."""

    binary: str
    kubeconfig: str
    home: Path
    namespace: str

    def __call__(self, *argv: str, code: int = 0) -> str:
        """Run it and insist on the exit code; what it printed, or what it complained of."""
        kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
        done = subprocess.run(
            [self.binary, *argv, "-n", self.namespace],
            capture_output=True,
            text=True,
            timeout=120,
            env=kept | {"HOME": str(self.home), "KUBECONFIG": self.kubeconfig},
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == code, said
        return done.stdout if code == 0 else done.stderr

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "-o", "json"))

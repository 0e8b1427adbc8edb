"""`LocalCluster`: a whole cluster on this machine, found or started, for notebooks and tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from corral.sdk.connect import LOCAL_FOLDER
from corral.sdk.errors import NoCluster

__all__ = ["LocalCluster"]

_CORRAL: Final = (sys.executable, "-m", "corral.cli.main")
_SECONDS: Final = 120.0


class LocalCluster:
    """The cluster of a data folder: `start` finds it or starts it, `stop` ends one it started.

    >>> with LocalCluster() as cluster:
    ...     client = TrainingClient(kubeconfig=cluster.kubeconfig)
    """

    def __init__(
        self, folder: str | os.PathLike[str] = LOCAL_FOLDER, *, nodes: int = 1, port: int = 0
    ) -> None:
        """``port`` 0 takes a free one, or that of the last time."""
        self.folder = Path(folder).expanduser().absolute()
        self._nodes, self._port = nodes, port
        self._ours = False

    @property
    def kubeconfig(self) -> Path:
        """For every client of the cluster."""
        return self.folder / "kubeconfig"

    @property
    def running(self) -> bool:
        from corral.cluster.up.folder import DataFolder

        try:
            return bool(DataFolder(self.folder).owner())
        except OSError:
            return False  # what is wrong with the folder is told when it is to be used

    def start(self) -> Self:
        """Return when it serves. Raises NoCluster."""
        if not self.running:
            options = ("--nodes", str(self._nodes), "--port", str(self._port), "--detach")
            self._corral("up", *options)
            self._ours = True
        return self

    def stop(self) -> None:
        """Stop it, if it was started here; the folder stays, and the next start goes on."""
        if self._ours:
            self._ours = False
            self._corral("down")

    def _corral(self, verb: str, *options: str) -> None:
        command = [*_CORRAL, verb, "--data-dir", str(self.folder), *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as err:
            raise NoCluster(
                f"`corral {verb}` took longer than {_SECONDS:g} s", hint=f"see {self.folder}/logs"
            ) from err
        if done.returncode:
            detail = done.stderr.strip() or done.stdout.strip()
            raise NoCluster(f"`corral {verb}` failed: {detail}", hint=f"see {self.folder}/logs")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"<LocalCluster {self.folder}: {state}>"

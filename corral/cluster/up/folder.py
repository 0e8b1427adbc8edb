"""The data folder of a cluster: one cluster at a time, and everything it needs to come back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.cluster import locking
from corral.files.private import NotPrivate, data_folder, private_folder

__all__ = ["DataFolder", "FolderError", "FolderInUse"]


_FOLDERS: Final = ("logs", "credentials", "nodes", "claims", "checkpoints")


class FolderError(Exception):
    """The folder cannot be used; the words say why and what to do."""


class FolderInUse(FolderError):
    """A cluster runs on the folder."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where things lie."""

    path: Path

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def claims(self) -> Path:
        """Volume claims, a folder each."""
        return self.path / "claims"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints that are kept on this machine without a claim."""
        return self.path / "checkpoints"

    def log(self, part: str) -> Path:
        return self.path / "logs" / f"{part}.log"

    def credentials(self, part: str) -> Path:
        """The kubeconfig of a part."""
        return self.path / "credentials" / f"{part}.kubeconfig"

    @property
    def tokens(self) -> Path:
        """The tokens of all parts."""
        return self.path / "credentials" / "tokens.json"

    @property
    def socket(self) -> Path:
        """Where the API server listens for the parts."""
        return self.path / "credentials" / "apiserver"

    def node(self, name: str) -> Path:
        return self.path / "nodes" / name

    @property
    def _lock(self) -> Path:
        return self.path / "cluster.pid"

    @property
    def _port(self) -> Path:
        return self.path / "port"

    # -- who uses it ---------------------------------------------------------------------------

    def take(self) -> int:
        """Make the folder ours, for as long as the returned descriptor is open.

        Raises FolderInUse, FolderError.
        """
        try:
            data_folder(self.path)
            for name in _FOLDERS:
                private_folder(self.path / name)
            return locking.take(self._lock)
        except locking.Held as held:
            raise FolderInUse(
                f"a cluster is already running on {self.path} (process {held.holder}): "
                f"use it with KUBECONFIG={self.kubeconfig}, "
                f"or stop it with `corral down --data-dir {self.path}`"
            ) from None
        except NotPrivate as err:
            raise FolderError(f"cannot use the data folder: {err} (--data-dir)") from err
        except OSError as err:
            raise FolderError(
                f"cannot use {err.filename or self.path}: {err.strerror}; "
                "choose another folder with --data-dir"
            ) from err

    def owner(self) -> int:
        """The process that runs the cluster; 0 when none does."""
        return locking.holder_of(self._lock)

    # -- the port ------------------------------------------------------------------------------

    def last_port(self) -> int:
        """The port of the last time, which clients and running pods may know; 0 without one."""
        try:
            return int(self._port.read_text())
        except (OSError, ValueError):
            return 0

    def keep_port(self, port: int) -> None:
        """For the next time; it is there whole or not at all. Raises OSError."""
        if self.last_port() != port:
            new = self._port.with_suffix(".new")
            new.write_text(f"{port}\n")
            new.replace(self._port)

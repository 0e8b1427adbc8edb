"""Who the parts of a cluster are to its API server, and how they reach it.

Each part has a token of its own, made once: a part that goes on while the API server is started
anew is known to it. On this machine they talk to it by a socket in a folder that nobody else can
enter: TLS there would protect nothing, and costs more than the requests themselves. Where the path
is too long for a socket they use the address, as everybody else does.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson

from corral.cluster.apiserver.auth import pki
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.up.folder import DataFolder
from corral.cluster.up.objects import NODES_GROUP

__all__ = ["Credentials"]

LONGEST: Final = 107
"""Bytes that the path of a socket may have."""


class Credentials:
    """The users of one cluster's parts."""

    def __init__(self, folder: DataFolder, nodes: Sequence[str], users: Mapping[str, str]) -> None:
        """``users`` are further parts and who they are."""
        self._folder = folder
        self._users = {
            "workloads": UserInfo("system:kube-controller-manager"),
            "scheduler": UserInfo("system:kube-scheduler"),
            **{part: UserInfo(user) for part, user in users.items()},
            **{
                name: UserInfo(f"system:node:{name}", groups=("system:nodes", NODES_GROUP))
                for name in nodes
            },
        }
        self._tokens = self._kept()

    @property
    def socket(self) -> Path | None:
        """Where the API server listens for them; None where the path would be too long."""
        path = self._folder.socket
        return path if len(bytes(path)) <= LONGEST else None

    def tokens(self) -> dict[str, UserInfo]:
        """Whose token it is."""
        return {self._tokens[part]: user for part, user in self._users.items()}

    def write(self, server: str, ca: bytes) -> None:
        """A kubeconfig for every part."""
        for part in self._users:
            pki.write_kubeconfig(
                self._folder.credentials(part),
                server,
                ca=ca,
                token=self._tokens[part],
                socket=self.socket,
            )

    def _kept(self) -> dict[str, str]:
        """The tokens of the last time, and new ones for parts that had none."""
        path = self._folder.tokens
        try:
            known = orjson.loads(path.read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            known = {}
        tokens = {part: known.get(part) or secrets.token_urlsafe(32) for part in self._users}
        if tokens != known:
            pki.write_private(path, orjson.dumps(tokens))
        return tokens

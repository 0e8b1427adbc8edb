"""How a VM becomes a node: kubeadm over SSH, with a token of its own.

`join` does it; `tokens` makes bootstrap tokens and hashes of CAs, `kubeadm` what is sent, `ssh` the
session. Writing the token's Secret is left to whoever knows the cluster (`TokenStore`).
"""

from corral.clouds.joiner.join import (
    HostKeyRefused,
    JoinError,
    JoinRefused,
    JoinSettings,
    KeyNotAccepted,
    NotReachable,
    TokenStore,
    join,
)
from corral.clouds.joiner.kubeadm import Cluster
from corral.clouds.joiner.ssh import Login
from corral.clouds.joiner.tokens import BootstrapToken, ca_cert_hash

__all__ = [
    "BootstrapToken",
    "Cluster",
    "HostKeyRefused",
    "JoinError",
    "JoinRefused",
    "JoinSettings",
    "KeyNotAccepted",
    "Login",
    "NotReachable",
    "TokenStore",
    "ca_cert_hash",
    "join",
]

"""What is run on a VM to join it, and what comes back. Pure.

kubeadm reads all it needs from a file that only root can read and that is removed whatever happens;
it arrives through ssh's standard input. So the token is on no command line, in no environment and
in no startup script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corral.clouds.errors import BadRequest
from corral.clouds.joiner.tokens import BootstrapToken, is_ca_cert_hash

__all__ = [
    "ALREADY",
    "JOINED",
    "TIMED_OUT",
    "Cluster",
    "configuration",
    "redacted",
    "script",
]

JOINED: Final = "corral: joined"
ALREADY: Final = "corral: had joined before"
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9.\-]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")

TIMED_OUT: Final = 124
"""The exit code of ``timeout`` when the time was over."""

_SCRIPT: Final = f"""\
set -eu
root=""
if [ "$(id -u)" != 0 ]; then root="sudo -n"; fi
exec $root sh -c '
set -eu
umask 077
if [ -e /etc/kubernetes/kubelet.conf ]; then cat > /dev/null; echo "{ALREADY}"; exit 0; fi
limit=""
if command -v timeout > /dev/null; then limit="timeout -k 5 LIMIT"; fi
file=$(mktemp /run/corral-join.XXXXXX)
trap "rm -f \\"$file\\"" EXIT HUP INT TERM
cat > "$file"
$limit kubeadm join --config "$file" >&2
echo "{JOINED}"
'
"""


def script(limit_s: float) -> str:
    """What is run on the VM; it holds nothing that is secret. kubeadm gets so many seconds."""
    return _SCRIPT.replace("LIMIT", f"{limit_s:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The control plane to join."""

    endpoint: str
    """host:port of the API server."""
    ca_hashes: Sequence[str]
    """``sha256:`` of the CA's public key; without one nothing is joined."""
    api_version: str = "kubeadm.k8s.io/v1beta4"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


def configuration(cluster: Cluster, token: BootstrapToken, node: str) -> str:
    """A JoinConfiguration. Raises BadRequest.

    JSON, which is YAML: nothing in it can be taken for anything else.
    """
    if not _ENDPOINT.fullmatch(cluster.endpoint):
        raise BadRequest(f"control plane endpoint {cluster.endpoint!r} is not host:port")
    if not cluster.ca_hashes or not all(map(is_ca_cert_hash, cluster.ca_hashes)):
        raise BadRequest(
            "the hash of the cluster's CA is missing or not sha256:… : without it a VM would "
            "trust whoever answers; give caCertHash"
        )
    registration: dict[str, Any] = {"name": node, "taints": [dict(t) for t in cluster.taints]}
    if cluster.labels:
        text = ",".join(f"{key}={value}" for key, value in sorted(cluster.labels.items()))
        registration["kubeletExtraArgs"] = (
            {"node-labels": text}
            if cluster.api_version.endswith("v1beta3")
            else [{"name": "node-labels", "value": text}]
        )
    return json.dumps(
        {
            "apiVersion": cluster.api_version,
            "kind": "JoinConfiguration",
            "discovery": {
                "bootstrapToken": {
                    "token": token.value,
                    "apiServerEndpoint": cluster.endpoint,
                    "caCertHashes": list(cluster.ca_hashes),
                    "unsafeSkipCAVerification": False,
                }
            },
            "nodeRegistration": registration,
        }
    )


def redacted(text: str, token: BootstrapToken) -> str:
    """Words from the VM without the secret, and not endless."""
    return text.replace(token.secret, "***").strip()[-2000:]

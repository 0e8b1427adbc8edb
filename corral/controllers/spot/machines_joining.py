"""How machines of clouds become nodes: kubeadm over SSH, where ``spec.ssh`` says so.

What the machine is told (endpoint, hash of the authority, token) is what the object says, else what
the Secret of ``kubeadmJoinConfig`` holds, else what the cluster says of itself, with a token that
is made for this machine alone.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from corral.api.spot import JOIN_SECRET
from corral.api.spot_vm import SpotInstanceVMSpec
from corral.clouds.errors import AccountRefused, BadRequest, Transient
from corral.clouds.joiner import (
    BootstrapToken,
    Cluster,
    JoinError,
    JoinSettings,
    Login,
    ca_cert_hash,
    join,
)
from corral.controllers.spot import machines_entries as entries
from corral.controllers.spot.join import SecretTokens
from corral.controllers.spot.machines_entries import Change
from corral.controllers.spot.machines_nodes import marks_of
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS, SECRETS
from corral.kube.types import Obj

__all__ = ["Joiner", "public_key"]

_KEY = "ssh-privatekey"


def public_key(private: str) -> str:
    """The line that lets the key's owner in. Raises AccountRefused."""
    from cryptography.hazmat.primitives import serialization

    data = private.encode()
    try:
        try:
            key = serialization.load_ssh_private_key(data, password=None)
        except ValueError:
            key = serialization.load_pem_private_key(data, password=None)  # type: ignore[assignment]
    except (ValueError, TypeError) as error:
        raise AccountRefused(
            f"{_KEY} of spec.ssh is no private key without a passphrase"
        ) from error
    encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(encoding, form).decode()


class Joiner:
    """Joins machines to the operator's own cluster."""

    def __init__(self, client: KubeClient, settings: JoinSettings | None = None) -> None:
        self._client = client
        self._settings = settings or JoinSettings()

    async def private_key(self, spec: SpotInstanceVMSpec, namespace: str) -> str:
        """What lets us in; empty: nobody logs in. Raises AccountRefused, ApiError."""
        if spec.ssh is None:
            return ""
        name = spec.ssh.private_key_secret_ref.name
        found = (await self._secret(name, namespace) or {}).get(_KEY, "")
        if not found:
            raise AccountRefused(
                f"there is no Secret {name} with {_KEY} in {namespace}: machines could not be "
                "joined to the cluster"
            )
        return found

    async def join(
        self, spec: SpotInstanceVMSpec, namespace: str, entry: Obj, host_keys: Sequence[str]
    ) -> Change | None:
        """Join one machine; what is to be written down, if anything.

        Raises:
            Transient: the cloud does not know its host keys yet.
            CloudError, ApiError: what is needed cannot be had.
        """
        assert spec.ssh is not None
        if not host_keys:
            raise Transient(f"the host keys of {entry['name']} are not known yet")
        login = Login(
            host=entry.get("externalIP") or entry.get("internalIP") or "",
            port=spec.ssh.port,
            user=spec.ssh.user,
            private_key=await self.private_key(spec, namespace),
            host_keys=host_keys,
        )
        cluster, token = await self._cluster(spec, namespace, entry)
        tokens = SecretTokens(self._client)
        try:
            await join(entry["name"], login, cluster, tokens, self._settings, given_token=token)
        except (JoinError, BadRequest) as error:
            return partial(entries.not_joined, why=str(error))
        return None

    async def _cluster(
        self, spec: SpotInstanceVMSpec, namespace: str, entry: Obj
    ) -> tuple[Cluster, BootstrapToken | None]:
        config = spec.kubeadm_join_config
        named = config.token_secret_ref if config is not None else None
        secret = await self._secret(named or JOIN_SECRET, namespace)
        if named and secret is None:
            raise AccountRefused(f"there is no Secret {named} in {namespace} with a join token")
        given = secret or {}
        endpoint = (config.control_plane_endpoint if config else "") or given.get(
            "control-plane-endpoint", ""
        )
        pin = (config.ca_cert_hash if config else "") or given.get("ca-cert-hash", "")
        marks = marks_of(entry["name"], entry["cloud"])
        cluster = Cluster(
            endpoint=endpoint or await self._endpoint(),
            ca_hashes=(pin or self._own_pin(),),
            labels=marks["labels"],
            taints=marks["taints"],
        )
        token = given.get("token")
        return cluster, BootstrapToken.parse(token) if token else None

    async def _endpoint(self) -> str:
        """Where the cluster says it is reached from outside. Raises AccountRefused."""
        try:
            info = await self._client.get(CONFIGMAPS, "cluster-info", namespace="kube-public")
        except NotFound:
            raise AccountRefused(
                "where machines reach the control plane is not known: give "
                "spec.kubeadmJoinConfig.controlPlaneEndpoint"
            ) from None
        import yaml

        found = yaml.safe_load((info.get("data") or {}).get("kubeconfig") or "{}")
        clusters = found.get("clusters") or [{}]
        return urlsplit((clusters[0].get("cluster") or {}).get("server") or "").netloc

    def _own_pin(self) -> str:
        """The hash of the authority that we trust ourselves. Raises AccountRefused."""
        config = self._client.config
        try:
            return ca_cert_hash(config.ca_data or Path(config.ca_file).read_bytes())
        except (OSError, ValueError) as error:
            raise AccountRefused(
                "the cluster's authority is not known here: give spec.kubeadmJoinConfig.caCertHash"
            ) from error

    async def _secret(self, name: str, namespace: str) -> dict[str, str] | None:
        try:
            found = await self._client.get(SECRETS, name, namespace=namespace)
        except NotFound:
            return None
        return {
            key: base64.b64decode(value).decode(errors="replace").strip()
            for key, value in (found.get("data") or {}).items()
        }

"""How machines of clouds become nodes: kubeadm over SSH, where ``spec.ssh`` says so.

What the machine is told (endpoint, hash of the authority, token) is what the object says, else what
the Secret of ``kubeadmJoinConfig`` holds, else what the cluster says of itself, with a token that
is made for this machine alone. Whoever writes a SpotInstanceVM is root on its machines and reads
what is sent there; and a token makes a node of any name. So the operator makes tokens for
namespaces that its settings trust with nodes, and never for a server that an object names.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from corral.api.spot.kinds import JOIN_SECRET
from corral.api.spot.vm import SpotInstanceVMSpec
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
from corral.egress.policy import EgressPolicy, EndpointRefused
from corral.egress.reading import key_bytes
from corral.families.spot.machines import entries
from corral.families.spot.machines.entries import Change
from corral.families.spot.machines.join import SecretTokens
from corral.families.spot.machines.nodes import marks_of
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS, SECRETS
from corral.kube.types import Obj

__all__ = ["Joiner", "public_key"]

_KEY = "ssh-privatekey"


def public_key(private: str) -> str:
    """The line that lets the key's owner in. Raises AccountRefused."""
    from cryptography.hazmat.primitives import serialization

    try:
        data = key_bytes(private)
        try:
            key = serialization.load_ssh_private_key(data, password=None)
        except ValueError:
            key = serialization.load_pem_private_key(data, password=None)  # type: ignore[assignment]
    except (ValueError, TypeError) as error:
        raise AccountRefused(
            f"{_KEY} of spec.ssh is no private key without a passphrase, of 4096 bits at most"
        ) from error
    encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(encoding, form).decode()


class Joiner:
    """Joins machines to the operator's own cluster."""

    def __init__(
        self,
        client: KubeClient,
        settings: JoinSettings | None = None,
        *,
        namespaces: Collection[str] = (),
        egress: EgressPolicy | None = None,
    ) -> None:
        """``namespaces``: whose machines tokens are made for; ``*``: everybody's.

        ``egress``: where the machines of others are logged in to beside public addresses.
        """
        self._client = client
        self._egress = egress or EgressPolicy()
        self._namespaces = frozenset(namespaces)
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

    async def check(self, spec: SpotInstanceVMSpec, namespace: str) -> None:
        """Whether machines could join at all, before one is made. Raises AccountRefused, ApiError.

        What else they are told is asked for when they join.
        """
        if spec.ssh is not None:
            await self._given(spec, namespace)

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
        host = entry.get("externalIP") or entry.get("internalIP") or ""
        self._check_host(host, spec.ssh.port, namespace)
        login = Login(
            host=host,
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
        endpoint, pin, token = await self._given(spec, namespace)
        marks = marks_of(entry["name"], entry["cloud"])
        cluster = Cluster(
            endpoint=endpoint or await self._endpoint(),
            ca_hashes=(pin or self._own_pin(),),
            labels=marks["labels"],
            taints=marks["taints"],
        )
        return cluster, BootstrapToken.parse(token) if token else None

    async def _given(self, spec: SpotInstanceVMSpec, namespace: str) -> tuple[str, str, str]:
        """Endpoint, hash of the authority and token, as far as others say them.

        Raises:
            AccountRefused: no token is given, and none is made for them.
        """
        config = spec.kubeadm_join_config
        named = config.token_secret_ref if config is not None else None
        secret = await self._secret(named or JOIN_SECRET, namespace)
        if named and secret is None:
            raise AccountRefused(f"there is no Secret {named} in {namespace} with a join token")
        given = secret or {}
        endpoint = config.control_plane_endpoint if config else ""
        pin = config.ca_cert_hash if config else ""
        endpoint = endpoint or given.get("control-plane-endpoint", "")
        pin = pin or given.get("ca-cert-hash", "")
        token = given.get("token", "")
        if not token:
            self._check_trust(namespace, named_by=bool(endpoint or pin))
        return endpoint, pin, token

    def _check_host(self, host: str, port: int, namespace: str) -> None:
        """Refuses to connect to where only the operator reaches.

        Who owns a cloud's account chooses the private addresses in it, and the port.
        """
        if {"*", namespace} & self._namespaces:
            return
        try:
            self._egress.check_address(host, port, host)
        except ValueError as error:
            raise AccountRefused(f"the machine has no address to log in to: {host!r}") from error
        except EndpointRefused as error:
            raise AccountRefused(str(error)) from error

    def _check_trust(self, namespace: str, *, named_by: bool) -> None:
        """Refuses to make a token for those who are not trusted with nodes, or for elsewhere."""
        if not {"*", namespace} & self._namespaces:
            raise AccountRefused(
                f"the operator makes no join tokens for namespace {namespace} (its "
                f"--join-namespace): put one made for it into the Secret {JOIN_SECRET}"
            )
        if named_by:
            raise AccountRefused(
                "the operator's join tokens are for its own cluster: leave out "
                "controlPlaneEndpoint and caCertHash, or give a token too (tokenSecretRef)"
            )

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

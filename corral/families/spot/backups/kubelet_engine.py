"""The Kubelet engine: the kubelet checkpoints a container with all of its memory (CRIU).

The kubelet is asked directly, and it is only spoken to if it proves who it is. That it does is not
to trust it: whoever owns a machine has its kubelet's key. So it is shown the operator's client
certificate or, where there is none, a short-lived token that is good for checkpoints alone
(`kubelet_tokens`), never the operator's own token; and none of its words are repeated.

It leaves a tar file on its node, which holds everything that was in the memory. A pod of ours on
that node, which sees the folder of these files and nothing else of it, stores the file as an image
and removes it. A runtime that can restore from such images does so when a container is started with
one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

import aiohttp

from corral.api.spot.kinds import CHECKPOINTBACKUPS
from corral.egress.reading import load_json
from corral.families.spot.backups.engines import (
    BackupError,
    Outcome,
    Run,
    Target,
    Tell,
    targets,
    while_alive,
)
from corral.families.spot.backups.images import Images
from corral.families.spot.backups.kubelet_tokens import KubeletTokens
from corral.families.spot.backups.packers import packer_pod
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings, Transport
from corral.kube.errors import AlreadyExists, ApiError, NotFound
from corral.kube.resources import NODES, PODS
from corral.kube.types import Obj
from corral.runtime.keys import format_time

__all__ = ["KubeletEngine", "KubeletSettings", "Kubelets", "kubelet_url"]

_GLANCE: Final = 0.25
"""Seconds between two looks at whether the packing pod has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How kubelets are reached, and what packs their files."""

    ca_file: str | None = None
    """Authorities of kubelets' certificates; None: those of the API server."""
    account: str = ""
    """``NAMESPACE/NAME`` of the ServiceAccount whose tokens kubelets are shown where the operator
    has no client certificate."""
    courier_image: str = "corral/courier"
    registries: Mapping[str, str] = field(default_factory=dict)
    """Name → URL, as pods reach them."""


def kubelet_url(node: Obj) -> str:
    """Where a node's kubelet serves.

    Raises:
        BackupError: the node does not say.
    """
    status = node.get("status") or {}
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
    host = addresses.get("InternalIP") or addresses.get("ExternalIP") or addresses.get("Hostname")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not host:
        raise BackupError(f"node {node['metadata']['name']} has no address")
    return f"https://{f'[{host}]' if ':' in host else host}:{port or 10250}"


_MAX_ANSWER: Final = 1 << 20
"""Bytes that are read of a kubelet's answer; its machine may be anybody's."""
_LONGEST_PATH: Final = 4096


class Kubelets:
    """A client of kubelets."""

    def __init__(
        self,
        client: KubeClient,
        *,
        ca_file: str | None = None,
        account: str = "",
        url_of: Callable[[Obj], str] = kubelet_url,
    ) -> None:
        self._client = client
        self._ca_file = ca_file
        self._tokens = KubeletTokens(client, account)
        self._url_of = url_of

    async def checkpoint(
        self, node: Obj, namespace: str, pod: str, container: str, *, seconds: float
    ) -> list[str]:
        """Checkpoint a container; the files that the kubelet has written on its node.

        Raises:
            BackupError: it cannot, or does not; with what to do about it.
        """
        name = node["metadata"]["name"]
        path = "/".join(quote(part, safe="") for part in (namespace, pod, container))
        patience = ClientSettings(
            read_timeout=seconds + 10.0, max_retries=0, max_answer=_MAX_ANSWER
        )
        config = await self._config(node)
        # a Warning is one more thing that a kubelet says
        transport = Transport(config, settings=patience, on_warning=lambda _: None, environ={})
        try:
            body = await transport.request(
                "POST",
                f"/checkpoint/{path}",
                query=[("timeout", str(max(1, int(seconds))))],
                accept="*/*",
            )
        except KubeConnectionError as error:
            raise BackupError(
                f"the kubelet of node {name} does not answer, or does not prove who it is "
                f"(--kubelet-ca names the authority of kubelets' certificates): "
                f"{_reason(error.__cause__)}"
            ) from None
        except ApiError as error:
            # without the cause, whose words are the kubelet's
            raise BackupError(_refusal(name, error.status_code)) from None
        finally:
            await transport.close()
        return _files(name, body.decode(errors="replace"))

    async def _config(self, node: Obj) -> ClusterConfig:
        """How a kubelet is reached, and with what: never with the operator's own token.

        Raises:
            BackupError: it cannot be told who the kubelet is, or there is nothing to show it.
        """
        config = self._client.config
        if config.insecure and not self._ca_file:
            raise BackupError(
                "kubelets are not spoken to without knowing who they are: name the authority of "
                "their certificates (--kubelet-ca)"
            )
        certified = bool(config.cert_file or config.cert_data)
        return ClusterConfig(
            server=self._url_of(node),
            ca_file=self._ca_file or config.ca_file,
            ca_data=b"" if self._ca_file else config.ca_data,
            cert_file=config.cert_file,
            cert_data=config.cert_data,
            key_file=config.key_file,
            key_data=config.key_data,
            token="" if certified else await self._tokens.current(),
        )


def _reason(cause: BaseException | None) -> str:
    """Why there was no answer, without any of it."""
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(cause, aiohttp.ClientConnectorError):
        return "there is no connection to it"
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    return "its answer broke off, is too long or is none"


def _refusal(node: str, status: int) -> str:
    """What a kubelet's status means; what else it says may be anything."""
    if status == 404:
        return (
            f"the kubelet of node {node} has no such container, or no checkpoints (feature gate "
            "ContainerCheckpoint)"
        )
    if status in (401, 403):
        return (
            f"the kubelet of node {node} does not let the operator checkpoint ({status}: it needs "
            "create on nodes/checkpoint)"
        )
    if status == 500:
        return (
            f"the container runtime of node {node} cannot checkpoint it (CRI-O or containerd with "
            "CRIU is needed; processes of process nodes cannot be checkpointed)"
        )
    return f"the kubelet of node {node} answers {status}"


def _files(node: str, body: str) -> list[str]:
    try:
        items = load_json(body)["items"]
    except (ValueError, KeyError, TypeError):
        items = None
    absolute = isinstance(items, list) and all(
        isinstance(item, str)
        and item.startswith("/")
        and ".." not in item
        and len(item) <= _LONGEST_PATH
        and item.isprintable()
        for item in items
    )
    if not absolute or not items:
        raise BackupError(f"the kubelet of node {node} does not say which file it has written")
    return list(items)


class KubeletEngine:
    """Checkpoints containers by their kubelet."""

    def __init__(
        self,
        client: KubeClient,
        kubelets: Kubelets,
        images: Images,
        *,
        settings: KubeletSettings | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._kubelets = kubelets
        self._images = images
        self._settings = settings or KubeletSettings()
        self._sleep = sleep

    async def save(self, run: Run, tell: Tell) -> Outcome:
        """Have the containers checkpointed, then their files stored."""
        wanted = targets(run)
        for target in wanted:
            if target.image:
                await self._images.check(target.image, spec=run.spec, namespace=run.namespace)
        files = await self._checkpointed(run, wanted, tell)
        built = []
        for target, file in zip(wanted, files, strict=True):
            if target.image:
                await tell({"phase": "ImagePushing"})
                built.append(await self._packed(run, target, file["filePath"]))
        message = "" if built else "there is no registry: the checkpoint stays on the node"
        return Outcome(images=built, files=files, message=message)

    async def _checkpointed(self, run: Run, wanted: list[Target], tell: Tell) -> list[Obj]:
        """The files, by the kubelet's word; a run that goes on does not ask for them again."""
        status = run.backup.get("status") or {}
        begun = status.get("checkpointFiles") or []
        names = [target.container for target in wanted]
        if status.get("phase") in ("Checkpointed", "ImagePushing") and names == [
            file.get("containerName") for file in begun
        ]:
            return list(begun)
        node = await self._node(run)
        files: list[Obj] = []
        for target in wanted:
            asked = self._kubelets.checkpoint(
                node,
                run.namespace,
                run.pod["metadata"]["name"],
                target.container,
                seconds=float(run.spec.timeout_seconds),
            )
            found = await while_alive(self._client, run.pod, asked)
            files.append(
                {
                    "containerName": target.container,
                    "filePath": found[0],
                    "checkpointTime": format_time(run.started),
                }
            )
        await tell({"phase": "Checkpointed", "checkpointFiles": files})
        return files

    async def _node(self, run: Run) -> Obj:
        name = run.pod["spec"].get("nodeName") or ""
        try:
            return await self._client.get(NODES, name)
        except NotFound as error:
            raise BackupError(f"node {name} of the pod is gone") from error

    async def _packed(self, run: Run, target: Target, file: str) -> Obj:
        """Have a file stored by a pod on its node."""
        secret = self._images.secret(run.spec, run.namespace)
        if secret is not None and secret[0] != run.namespace:
            raise BackupError(
                f"the Secret {secret[0]}/{secret[1]} cannot be mounted on the node: name one of "
                f"{run.namespace}"
            )
        pod = packer_pod(
            CHECKPOINTBACKUPS.stamp(run.backup),
            node=run.pod["spec"]["nodeName"],
            container=target.container,
            file=file,
            image=target.image,
            started=run.started,
            courier_image=self._settings.courier_image,
            registries=self._settings.registries,
            secret=secret[1] if secret else None,
            rootfs=target.rootfs,
        )
        with contextlib.suppress(AlreadyExists):  # made by a process that has died since
            await self._client.create(PODS, pod)
        name = pod["metadata"]["name"]
        try:
            stored = await self._ended(run.namespace, name)
        finally:
            await asyncio.shield(self._removed(run.namespace, name))
        return {
            "containerName": target.container,
            "imageName": stored,
            "buildTime": format_time(run.started),
            "pushed": True,
            "digest": stored.partition("@")[2],
        }

    async def _ended(self, namespace: str, name: str) -> str:
        while True:
            try:
                pod = await self._client.get(PODS, name, namespace=namespace)
            except NotFound as error:
                raise BackupError(f"pod {name}, which stores the file, was deleted") from error
            status = pod.get("status") or {}
            if status.get("phase") in ("Succeeded", "Failed"):
                return _stored(name, status)
            await self._sleep(_GLANCE)

    async def _removed(self, namespace: str, name: str) -> None:
        try:
            await self._client.delete(PODS, name, namespace=namespace)
        except NotFound:
            return


def _stored(name: str, status: Obj) -> str:
    """The image that the packing pod says it has stored."""
    ended = [
        state
        for container in status.get("containerStatuses") or ()
        if (state := (container.get("state") or {}).get("terminated"))
    ]
    said = str(ended[0].get("message") or "") if ended else str(status.get("message") or "")
    try:
        image = load_json(said)["image"]
    except (ValueError, KeyError, TypeError):
        image = ""
    if status.get("phase") != "Succeeded" or not image:
        raise BackupError(f"pod {name} could not store the file: {said[-1000:] or 'no reason'}")
    return str(image)

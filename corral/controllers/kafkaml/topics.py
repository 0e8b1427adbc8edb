"""Topics that go with their deployment, where it says so (``topics.retain: false``).

Such a deployment has a finalizer, which is taken off when its topics are gone. A broker that cannot
be reached is tried for a while; then the deployment goes without, and an event says what is left.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any, Final

from corral.api.kafkaml import FEDERATEDDEPLOYMENTS, GROUP, FederatedDeployment
from corral.controllers.kafkaml import objects
from corral.controllers.kafkaml.settings import KafkaMLSettings
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.resources import SECRETS
from corral.kube.types import Obj
from corral.runtime import add_finalizer, has_finalizer, remove_finalizer

__all__ = ["FINALIZER", "TopicKeeper", "TopicsLeft"]

FINALIZER: Final = f"{GROUP}/topics"
_KEYS: Final = ("username", "password", "mechanism")


class TopicsLeft(Exception):
    """Topics could not be removed; one line that says why."""


class TopicKeeper:
    """For all deployments of one operator."""

    def __init__(self, client: KubeClient, settings: KafkaMLSettings) -> None:
        self._client = client
        self._settings = settings

    async def mark(self, obj: Obj) -> bool:
        """Have the finalizer there, where the spec asks for it; whether that was a change.

        Raises:
            Conflict: the object has changed since it was read.
        """
        retain = (obj["spec"].get("topics") or {}).get("retain", True)
        if retain or has_finalizer(obj, FINALIZER):
            return False
        await add_finalizer(
            self._client,
            FEDERATEDDEPLOYMENTS,
            obj,
            finalizer=FINALIZER,
            field_manager=self._settings.field_manager,
        )
        return True

    async def release(self, obj: Obj) -> None:
        """Raises Conflict as `mark` does."""
        await remove_finalizer(
            self._client,
            FEDERATEDDEPLOYMENTS,
            obj,
            finalizer=FINALIZER,
            field_manager=self._settings.field_manager,
        )

    async def remove(self, obj: Obj) -> list[str]:
        """Take away what was made for a deployment; which. Raises TopicsLeft."""
        deployment = FederatedDeployment.read(obj)
        ids = [r["federatedStringId"] for r in (obj.get("status") or {}).get("results") or ()]
        own = self._settings.own_kafka or self._settings.kafka
        servers = deployment.spec.kafka.bootstrap_servers or own
        if not ids or not servers:
            return []  # nobody has begun
        login = await self._login(deployment)
        text = objects.topics_text(deployment)
        return await asyncio.to_thread(_remove, servers, login, ids, text)

    async def _login(self, deployment: FederatedDeployment) -> dict[str, str]:
        reference = deployment.spec.kafka.secret_ref
        if reference is None or not reference.name:
            return {}
        space = deployment.metadata["namespace"]
        try:
            found = await self._client.get(SECRETS, reference.name, namespace=space)
            data: dict[str, Any] = found.get("data") or {}
            return {key: base64.b64decode(data[key]).decode() for key in _KEYS if key in data}
        except ApiError as error:
            raise TopicsLeft(f"Secret {reference.name} cannot be had: {error}") from error
        except (binascii.Error, UnicodeDecodeError) as error:
            raise TopicsLeft(f"Secret {reference.name} cannot be read: {error}") from error


def _remove(servers: str, login: dict[str, str], ids: list[str], text: str) -> list[str]:
    # only who removes topics needs a client of Kafka
    from corral.inpod.kafkaml.kafka import Access, KafkaError
    from corral.inpod.kafkaml.names import Names
    from corral.inpod.kafkaml.topics import remove_made

    try:
        access = Access(servers, **login)
        return remove_made(access, [Names.of(one, text) for one in ids], patience=5.0)
    except (KafkaError, ValueError) as error:
        raise TopicsLeft(str(error)) from error

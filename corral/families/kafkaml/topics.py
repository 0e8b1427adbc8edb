"""Topics that go with their deployment, where it says so (``topics.retain: false``).

Such a deployment has a finalizer, which is taken off when its topics are gone. A broker that cannot
be reached is tried for a while; then the deployment goes without, and an event says what is left.
"""

from __future__ import annotations

import asyncio
from typing import Final

from corral.api.kafkaml.kinds import FEDERATEDDEPLOYMENTS, GROUP, FederatedDeployment
from corral.egress.policy import EndpointRefused
from corral.families.kafkaml import objects
from corral.families.kafkaml.logins import NoLogin, login_of, secret_for
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.families.kafkaml.state import derived_id
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.runtime import add_finalizer, has_finalizer, remove_finalizer

__all__ = ["FINALIZER", "TopicKeeper", "TopicsLeft"]

FINALIZER: Final = f"{GROUP}/topics"


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
        space = deployment.metadata["namespace"]
        secret = secret_for(deployment.spec.kafka, self._settings)
        if not secret:
            _check_own(deployment, obj)
        try:
            self._settings.check_servers(servers)
        except EndpointRefused as error:
            raise TopicsLeft(str(error)) from error
        try:
            login = await login_of(self._client, space, secret)
        except NoLogin as error:
            raise TopicsLeft(str(error)) from error
        text = objects.topics_text(deployment)
        return await asyncio.to_thread(_remove, servers, login, ids, text)


def _check_own(deployment: FederatedDeployment, obj: Obj) -> None:
    """Refuses ids that the operator did not choose: topics may be another's then.

    With a login of the namespace it is the broker that says what may be removed.

    Raises:
        TopicsLeft: an id is what the object says.
    """
    for result in (obj.get("status") or {}).get("results") or ():
        found = str(result["federatedStringId"])
        if found != derived_id(deployment, str(result["model"])):
            raise TopicsLeft(
                f"the id {found} was not chosen by the operator, so its topics may be another's: "
                "name a login (spec.kafka.secretRef), or remove them yourself"
            )


def _remove(servers: str, login: dict[str, str], ids: list[str], text: str) -> list[str]:
    # only who removes topics needs a client of Kafka
    from corral.podtools.kafka.client import Access, KafkaError
    from corral.podtools.kafka.names import Names
    from corral.podtools.kafka.topics import remove_made

    try:
        access = Access(servers, **login)
        return remove_made(access, [Names.of(one, text) for one in ids], patience=5.0)
    except (KafkaError, ValueError) as error:
        raise TopicsLeft(str(error)) from error

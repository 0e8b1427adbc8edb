"""Topics that go with their deployment, where it says so (``topics.retain: false``).

Such a deployment has a finalizer, which is taken off when its topics are gone. A broker that cannot
be reached is tried for a while; then the deployment goes without, and an event says what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from corral.api.kafkaml.kinds import GROUP, FederatedDeployment
from corral.api.kafkaml.status import ResultStatus
from corral.egress.policy import EndpointRefused
from corral.families.kafkaml import objects
from corral.families.kafkaml.deployments.state import derived_id
from corral.families.kafkaml.logins import NoLogin, login_of, secret_for
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.client import KubeClient

__all__ = ["FINALIZER", "TopicsLeft", "remove_topics"]

FINALIZER: Final = f"{GROUP}/topics"


class TopicsLeft(Exception):
    """Topics could not be removed; one line that says why."""


async def remove_topics(
    client: KubeClient, settings: KafkaMLSettings, deployment: FederatedDeployment
) -> list[str]:
    """Take away what was made for a deployment; which topics. Raises TopicsLeft."""
    results = (deployment.status.results if deployment.status else None) or ()
    ids = [result.federated_string_id for result in results]
    own = settings.own_kafka or settings.kafka
    servers = deployment.spec.kafka.bootstrap_servers or own
    if not ids or not servers:
        return []  # nobody has begun
    space = deployment.metadata["namespace"]
    secret = secret_for(deployment.spec.kafka, settings)
    if not secret:
        _check_own(deployment, results)
    try:
        settings.check_servers(servers)
        login = await login_of(client, space, secret)
    except (EndpointRefused, NoLogin) as error:
        raise TopicsLeft(str(error)) from error
    text = objects.topics_text(deployment)
    return await asyncio.to_thread(_remove, servers, login, ids, text)


def _check_own(deployment: FederatedDeployment, results: Sequence[ResultStatus]) -> None:
    """Refuses ids that the operator did not choose: topics may be another's then.

    With a login of the namespace it is the broker that says what may be removed.

    Raises:
        TopicsLeft: an id is what the object says.
    """
    for result in results:
        found = result.federated_string_id
        if found != derived_id(deployment, result.model):
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

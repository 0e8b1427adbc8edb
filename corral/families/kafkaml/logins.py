"""How the operator logs in to a broker: with what a Secret of the namespace says."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from corral.api.kafkaml.spec import Kafka
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import SECRETS

__all__ = ["NoLogin", "login_of", "secret_for"]

_KEYS: Final = ("username", "password", "mechanism")


class NoLogin(Exception):
    """There is no such login; one line that says why."""


def secret_for(kafka: Kafka, settings: KafkaMLSettings) -> str:
    """The Secret with the login to a Kafka; empty without one.

    That of our own Kafka is for our own Kafka: another one is never sent it.
    """
    if kafka.secret_ref is not None and kafka.secret_ref.name:
        return kafka.secret_ref.name
    return "" if kafka.bootstrap_servers else settings.secret


async def login_of(client: KubeClient, namespace: str, secret: str) -> dict[str, str]:
    """``username``, ``password`` and ``mechanism`` of a Secret; nothing where none is named.

    Raises:
        NoLogin: there is none, or it cannot be read.
    """
    if not secret:
        return {}
    try:
        found = await client.get(SECRETS, secret, namespace=namespace)
        data = found.get("data") or {}
        return {key: base64.b64decode(data[key]).decode() for key in _KEYS if data.get(key)}
    except NotFound as error:
        raise NoLogin(f"there is no Secret {secret} to log in with") from error
    except (ApiError, binascii.Error, UnicodeDecodeError) as error:
        raise NoLogin(f"Secret {secret} cannot be read: {error}") from error

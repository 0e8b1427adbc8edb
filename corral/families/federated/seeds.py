"""The secret seed of a job's noise: made once, kept in a Secret, the same after every restart."""

from __future__ import annotations

import base64
import secrets
from typing import Final

from corral.api.propeller.kinds import FEDERATEDJOBS, GROUP, TRAININGROUNDS
from corral.families.federated.view import Privacy
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import SECRETS
from corral.kube.types import Obj
from corral.runtime.owners import controller_of, refers_to, set_controller

__all__ = ["NoSeed", "noise_seed"]

KEY: Final = "seed"
_LEAST: Final = 16


class NoSeed(Exception):
    """The Secret that the job names cannot be used."""


async def noise_seed(
    client: KubeClient, owner: Obj, job: str, privacy: Privacy, *, field_manager: str
) -> bytes:
    """The seed that a job names, or its own; ``owner`` is whose the Secret becomes.

    Raises:
        NoSeed: the named Secret is missing, or its seed is too short.
    """
    namespace = owner["metadata"]["namespace"]
    name = privacy.secret or f"{job}-privacy"
    try:
        found = await client.get(SECRETS, name, namespace=namespace)
    except errors.NotFound:
        if privacy.secret:
            raise NoSeed(f"there is no Secret {name} with the seed of the noise") from None
        found = await _made(client, owner, name, field_manager)
    if not privacy.secret and not _is_ours(found):
        raise NoSeed(
            f"the Secret {name} is not of this job: delete it, or name one as seedSecretRef"
        )
    seed = base64.b64decode((found.get("data") or {}).get(KEY) or "")
    if len(seed) < _LEAST:
        raise NoSeed(f"the Secret {name} has no key {KEY} of at least {_LEAST} bytes")
    return seed


def _is_ours(secret: Obj) -> bool:
    """A seed that somebody else put there is one that somebody else knows."""
    holder = controller_of(secret)
    return holder is not None and any(
        refers_to(holder, GROUP, kind.kind) for kind in (FEDERATEDJOBS, TRAININGROUNDS)
    )


async def _made(client: KubeClient, owner: Obj, name: str, field_manager: str) -> Obj:
    seed = base64.b64encode(secrets.token_bytes(32)).decode()
    secret: Obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": owner["metadata"]["namespace"]},
        "data": {KEY: seed},
    }
    set_controller(secret, owner)
    try:
        return await client.create(SECRETS, secret, field_manager=field_manager)
    except errors.AlreadyExists:
        return await client.get(SECRETS, name, namespace=owner["metadata"]["namespace"])

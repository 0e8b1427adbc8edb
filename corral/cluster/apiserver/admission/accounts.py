"""ServiceAccount: every pod runs as an account of its namespace and gets a token for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.refusals import refuse, refuse_early
from corral.cluster.apiserver.crud.core import NAME_LETTERS, AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

__all__ = ["MIRROR", "TOKEN_PATH", "ServiceAccounts", "secret_names"]

PODS, ACCOUNTS = "/pods", "/serviceaccounts"
MIRROR = "kubernetes.io/config.mirror"
ENFORCE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access"
DEFAULT = "default"
EXPIRATION = 3607
"""Seconds; this odd number tells the token issuer to extend the token's life."""
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SUBRESOURCES = frozenset({"", "ephemeralcontainers"})


class _Account(NamedTuple):
    name: str
    automount: bool | None
    pull_secrets: tuple[str, ...]
    secrets: frozenset[str]
    limits_secrets: bool


def _account(obj: Obj) -> _Account:
    meta = obj["metadata"]
    return _Account(
        meta["name"],
        obj.get("automountServiceAccountToken"),
        tuple(ref.get("name", "") for ref in obj.get("imagePullSecrets") or ()),
        frozenset(ref.get("name", "") for ref in obj.get("secrets") or ()),
        (meta.get("annotations") or {}).get(ENFORCE_SECRETS) in _TRUE,
    )


class ServiceAccounts(Plugin):
    """Sets and checks the account of pods.

    The ``default`` account of a new namespace is made shortly after it, so it is waited for:
    ``attempts`` looks, ``interval`` seconds apart.
    """

    tables = frozenset({PODS})

    def __init__(
        self,
        store: Store,
        *,
        rng: random.Random | None = None,
        attempts: int = 10,
        interval: float = 0.15,
    ) -> None:
        self._accounts = Parsed(store, ACCOUNTS, _account)
        self._choices = (rng or random.Random()).choices
        self._attempts = attempts
        self._interval = interval

    async def mutate(self, request: AdmissionRequest) -> bool:
        pod = request.object
        if request.operation != "CREATE" or request.subresource or pod is None:
            return False
        if _is_mirror(pod):
            self._check_mirror(request, pod)
            return False
        spec = pod["spec"]
        name = spec.get("serviceAccountName")
        if not name:
            name = spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
        account = self._accounts.get(f"{request.namespace}/{name}")
        if account is None:
            account = await self._wait_for(request.namespace, name)
            if account is None:
                raise refuse_early(request, _missing(request.namespace, name))
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.automount
        if automount is not False:
            self._mount_token(spec)
        if account.pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": n} for n in account.pull_secrets]
        return True

    async def _wait_for(self, namespace: str, name: str) -> _Account | None:
        if name != DEFAULT:
            return None
        for _ in range(self._attempts - 1):
            await asyncio.sleep(self._interval)
            found = self._accounts.get(f"{namespace}/{name}")
            if found is not None:
                return found
        return None

    async def validate(self, request: AdmissionRequest) -> None:
        pod = request.object
        if pod is None or request.subresource not in _SUBRESOURCES:
            return
        ephemeral = request.subresource == "ephemeralcontainers"
        if request.operation != ("UPDATE" if ephemeral else "CREATE"):
            return
        if not ephemeral and _is_mirror(pod):
            self._check_mirror(request, pod)
            return
        spec = pod["spec"]
        name = spec.get("serviceAccountName")
        if not name:
            where = f"{request.namespace}/{request.name}"
            raise refuse(request, f"no service account specified for pod {where}")
        account = self._accounts.get(f"{request.namespace}/{name}")
        if account is None:
            raise refuse(request, _missing(request.namespace, name))
        if account.limits_secrets:
            why = _foreign_secret(spec, account, ephemeral=ephemeral)
            if why:
                raise refuse(request, why)

    def _check_mirror(self, request: AdmissionRequest, pod: Obj) -> None:
        spec = pod["spec"]
        if spec.get("serviceAccountName"):
            raise refuse(request, "a mirror pod may not reference service accounts")
        if any(secret_names(spec)):
            raise refuse(request, "a mirror pod may not reference secrets")
        for volume in spec.get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                if source.get("serviceAccountToken") is not None:
                    raise refuse(
                        request, "a mirror pod may not use ServiceAccountToken volume projections"
                    )

    def _mount_token(self, spec: Obj) -> None:
        volumes: list[Obj] = spec.get("volumes") or []
        name = next((v["name"] for v in volumes if v["name"].startswith(f"{VOLUME}-")), "")
        known = bool(name)
        if not known:
            name = f"{VOLUME}-{''.join(self._choices(NAME_LETTERS, k=5))}"
        needed = False
        for field in ("initContainers", "containers"):
            for container in spec.get(field) or ():
                mounts = container.get("volumeMounts") or []
                if any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
                    continue
                mounts.append(
                    {
                        "name": name,
                        "readOnly": True,
                        "mountPath": TOKEN_PATH,
                    }
                )
                container["volumeMounts"] = mounts
                needed = True
        if needed and not known:
            volumes.append({"name": name, "projected": _token_source()})
            spec["volumes"] = volumes


def _token_source() -> Obj:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": EXPIRATION, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }


def _missing(namespace: str, name: str) -> str:
    return f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'


def _is_mirror(pod: Obj) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or ())


# -- secrets -------------------------------------------------------------------------------

_ALL_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUME_SECRETS = (
    ("azureFile", "secretName"),
    ("secret", "secretName"),
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
)


def secret_names(spec: Obj) -> Iterator[str]:
    """Every secret a pod names."""
    yield from (ref.get("name", "") for ref in spec.get("imagePullSecrets") or ())
    for field in _ALL_CONTAINERS:
        for container in spec.get(field) or ():
            yield from (name for _, name in _env_secrets(container))
    for volume in spec.get("volumes") or ():
        for source, field in _VOLUME_SECRETS:
            value: Any = (volume.get(source) or {}).get(field)
            if value:
                yield value if isinstance(value, str) else value.get("name", "")
        for part in (volume.get("projected") or {}).get("sources") or ():
            if part.get("secret"):
                yield part["secret"].get("name", "")


def _env_secrets(container: Obj) -> Iterator[tuple[str, str]]:
    """How each environment secret is referred to, and its name."""
    for env in container.get("env") or ():
        ref = (env.get("valueFrom") or {}).get("secretKeyRef")
        if ref is not None:
            yield f"envVar {env.get('name', '')}", ref.get("name", "")
    for source in container.get("envFrom") or ():
        ref = source.get("secretRef")
        if ref is not None:
            yield "envFrom", ref.get("name", "")


_WORDS = {"initContainers": "init container", "containers": "container"}


def _foreign_secret(spec: Obj, account: _Account, *, ephemeral: bool) -> str:
    """Which secret the account does not list, in words; empty when all are listed."""
    tail = f"is not allowed because service account {account.name} does not reference that"
    words = {"ephemeralContainers": "ephemeral container"} if ephemeral else _WORDS
    if not ephemeral:
        for volume in spec.get("volumes") or ():
            name = (volume.get("secret") or {}).get("secretName", "")
            if "secret" in volume and name not in account.secrets:
                return f'volume with secret.secretName="{name}" {tail} secret'
    for field, word in words.items():
        for container in spec.get(field) or ():
            for how, name in _env_secrets(container):
                if name not in account.secrets:
                    who = f"{word} {container.get('name', '')} with {how}"
                    return f'{who} referencing secret.secretName="{name}" {tail} secret'
    if not ephemeral:
        for index, ref in enumerate(spec.get("imagePullSecrets") or ()):
            if ref.get("name", "") not in account.pull_secrets:
                named = f'imagePullSecrets[{index}].name="{ref.get("name", "")}"'
                return f"{named} {tail} imagePullSecret"
    return ""

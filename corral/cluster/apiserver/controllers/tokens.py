"""Secrets of type ``kubernetes.io/service-account-token``: filled, and gone with their account."""

from __future__ import annotations

import base64
from collections.abc import Callable

from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.store import DELETED, Entry, Event
from corral.kube import errors
from corral.kube.types import Obj

SECRETS = "/secrets"
ACCOUNTS = "/serviceaccounts"
TYPE = "kubernetes.io/service-account-token"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"

Issue = Callable[[str, str, str, str], str]
"""(namespace, account, account uid, secret) to a token."""


class SecretTokens:
    """Follows secrets and accounts."""

    def __init__(self, access: Access, issue: Issue, ca_pem: str) -> None:
        self._access = access
        self._store = access.store
        self._issue = issue
        self._ca_pem = ca_pem
        self._queue: KeyedQueue[str] = KeyedQueue("secret-tokens", self._sync)

    def start(self) -> None:
        for entry in self._store.scan(SECRETS):
            self._look_at(entry)
        self._store.listen(self._on_event)
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == SECRETS and event.type != DELETED:
            self._look_at(entry)
        elif entry.resource == ACCOUNTS and event.type == DELETED:
            for secret in self._store.scan(SECRETS, f"{entry.namespace}/"):
                self._look_at(secret)

    def _look_at(self, entry: Entry) -> None:
        if TYPE.encode() in entry.value:
            self._queue.add(entry.key)

    async def _sync(self, key: str) -> None:
        entry = self._store.get(SECRETS, key)
        if entry is None or entry.deleting:
            return
        secret = entry.decode()
        notes = secret["metadata"].get("annotations") or {}
        if secret.get("type") != TYPE or not notes.get(NAME):
            return
        account = self._store.get(ACCOUNTS, f"{entry.namespace}/{notes[NAME]}")
        if account is None or notes.get(UID, account.uid) != account.uid:
            options = {"preconditions": {"uid": entry.uid}}
            try:
                await self._access.delete(SECRETS, entry.namespace, entry.name, options)
            except (errors.NotFound, errors.Conflict):
                return
        elif self._missing(secret, account):
            await self._fill(entry, account)

    def _missing(self, secret: Obj, account: Entry) -> dict[str, str]:
        """What the secret's data lacks or has wrong, in plain text."""
        meta, data = secret["metadata"], secret.get("data") or {}
        missing = {}
        if data.get("ca.crt") != _encoded(self._ca_pem):
            missing["ca.crt"] = self._ca_pem
        if not data.get("namespace"):
            missing["namespace"] = meta["namespace"]
        if not data.get("token"):
            missing["token"] = self._issue(
                account.namespace, account.name, account.uid, meta["name"]
            )
        return missing

    async def _fill(self, entry: Entry, account: Entry) -> None:
        def change(live: Obj) -> Obj:
            data = live.setdefault("data", {})
            data.update({k: _encoded(v) for k, v in self._missing(live, account).items()})
            live["metadata"].setdefault("annotations", {})[UID] = account.uid
            return live

        try:
            await self._access.update(SECRETS, entry.namespace, entry.name, change=change)
        except errors.NotFound:
            return


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

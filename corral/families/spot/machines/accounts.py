"""Which accounts of clouds SpotInstanceVMs name; those that none names any more are closed."""

from __future__ import annotations

from collections.abc import Iterable

from corral.api.spot.vm import SpotInstanceVMSpec
from corral.families.spot.machines.providers import Providers
from corral.kube.types import Obj

__all__ = ["NamedAccounts"]


class NamedAccounts:
    """Kept up to date by looks at SpotInstanceVMs."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._words: dict[str, frozenset[str]] = {}
        """By SpotInstanceVM."""
        self._secrets: dict[str, frozenset[tuple[str, str]]] = {}

    async def named(
        self,
        key: str,
        references: Iterable[Obj | None],
        namespace: str = "",
        spec: SpotInstanceVMSpec | None = None,
    ) -> None:
        """What the SpotInstanceVM of this key means now; nothing without a spec: it is gone."""
        named = list(references)
        words: frozenset[str] = frozenset()
        if spec is not None:
            clouds = [cloud for cloud in spec.clouds if cloud != "local"]
            words = frozenset(
                self._providers.words(cloud, spec, each, namespace)
                for cloud in clouds
                for each in named
            )
        secrets = frozenset((namespace, str(each["name"])) for each in named if each)
        fewer = self._words.get(key, frozenset()) - words
        fewer_secrets = self._secrets.get(key, frozenset()) - secrets
        self._words[key], self._secrets[key] = words, secrets
        if spec is None:
            del self._words[key], self._secrets[key]
        if fewer or fewer_secrets:
            await self._providers.keep(
                frozenset().union(*self._words.values()),
                frozenset().union(*self._secrets.values()),
            )

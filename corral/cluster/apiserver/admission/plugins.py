"""The admission plugins that run by default, in kube-apiserver's order.

Built-in mutating plugins leave objects normal and defaulted. ``NamespaceLifecycle`` goes first and
is not in the list.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.cluster.apiserver.admission.accounts import ServiceAccounts
from corral.cluster.apiserver.admission.certificates import CertificateRequests
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.limits import LimitRanger
from corral.cluster.apiserver.admission.nodes import NodeRestriction, TopologyLabels
from corral.cluster.apiserver.admission.pods import (
    DefaultTolerations,
    NodeTaints,
    PodResize,
    RuntimeClasses,
)
from corral.cluster.apiserver.admission.podsecurity.plugin import PodSecurity
from corral.cluster.apiserver.admission.policies import MutatingPolicies, ValidatingPolicies
from corral.cluster.apiserver.admission.priority import Priority
from corral.cluster.apiserver.admission.quotas.plugin import ResourceQuota
from corral.cluster.apiserver.admission.rbac import Escalation
from corral.cluster.apiserver.admission.storage import (
    ClaimResize,
    DefaultIngressClass,
    DefaultStorageClass,
    InUseProtection,
)
from corral.cluster.apiserver.admission.tenancy import Tenancy
from corral.cluster.apiserver.admission.views import KindFinder
from corral.cluster.apiserver.admission.webhooks.client import (
    Resolve,
    ServiceResolver,
    WebhookClient,
)
from corral.cluster.apiserver.admission.webhooks.plugin import MutatingWebhooks, ValidatingWebhooks
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store

__all__ = ["close_plugins", "default_plugins"]


def default_plugins(
    *,
    store: Store,
    authorizer: Authorizer,
    kinds: KindFinder,
    catalog: Catalog,
    resolver: Resolve | None = None,
    node_restriction: bool = True,
    one_tenant: bool = False,
) -> list[Plugin]:
    """Make the plugins. ``resolver`` finds services of webhooks; without one the store does.

    ``one_tenant``: refuse a second one while pods are not kept apart.
    """
    client = WebhookClient(resolver or ServiceResolver(store))
    built_in: list[Plugin] = [
        LimitRanger(store),
        ServiceAccounts(store),
        *([NodeRestriction(store, authorizer)] if node_restriction else []),
        NodeTaints(),
        PodSecurity(store),
        Priority(store),
        DefaultTolerations(),
        DefaultStorageClass(store),
        InUseProtection(),
        ClaimResize(store),
        RuntimeClasses(store),
        CertificateRequests(authorizer),
        DefaultIngressClass(store),
        TopologyLabels(store),
        PodResize(store),
    ]
    mutating = [p for p in built_in if type(p).mutate is not Plugin.mutate]
    policies = MutatingPolicies(store, catalog, kinds=kinds, authorizer=authorizer)
    return [
        *built_in,
        MutatingWebhooks(
            store,
            catalog,
            kinds=kinds,
            authorizer=authorizer,
            client=client,
            built_in=mutating,
            before=(policies,),
        ),
        Escalation(authorizer),
        *([Tenancy(store)] if one_tenant else []),
        ValidatingPolicies(store, catalog, kinds=kinds, authorizer=authorizer),
        ValidatingWebhooks(store, catalog, kinds=kinds, authorizer=authorizer, client=client),
        # Last: between its charge and the write nothing may wait.
        ResourceQuota(store),
    ]


async def close_plugins(plugins: Iterable[Plugin]) -> None:
    """Close the connections to webhooks."""
    for plugin in plugins:
        if isinstance(plugin, MutatingWebhooks | ValidatingWebhooks):
            await plugin.close()

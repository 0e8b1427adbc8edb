"""The webhook configurations that make an API server ask our `Hooks`.

They carry the label that has the certificate authority injected. Where the server is reached by a
URL (one process beside an embedded API server), a webhook that does not answer is ignored: schema
and controllers check as well. Behind a Service it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from corral.kube.types import Obj
from corral.runtime.webhooks.hooks import FailurePolicy, Hook, Hooks

__all__ = ["INJECT_LABEL", "ClientConfig", "by_service", "by_url", "webhook_configurations"]

INJECT_LABEL = "corral.dev/inject-ca"
"""On configurations and definitions; the value is the name of the Secret."""
ClientConfig: TypeAlias = Callable[[str], Obj]
"""The ``clientConfig`` for a path."""
_GROUP = "admissionregistration.k8s.io/v1"


def by_url(base: str) -> ClientConfig:
    """Reach the server at ``https://host:port``."""
    return lambda path: {"url": f"{base.rstrip('/')}{path}"}


def by_service(name: str, namespace: str, port: int = 443) -> ClientConfig:
    """Reach the server behind a Service."""
    where: Obj = {"name": name, "namespace": namespace, "port": port}
    return lambda path: {"service": {**where, "path": path}}


def webhook_configurations(
    hooks: Hooks,
    client_config: ClientConfig,
    *,
    name: str,
    inject: str,
    failure_policy: FailurePolicy = "Fail",
    timeout: int = 10,
) -> list[Obj]:
    """The configurations, without a CA bundle; only those that have a webhook."""
    out = []
    for kind, mutating in _KINDS.items():
        chosen = [hook for hook in hooks.admission.values() if hook.mutating == mutating]
        if not chosen:
            continue
        out.append(
            {
                "apiVersion": _GROUP,
                "kind": kind,
                "metadata": {"name": name, "labels": {INJECT_LABEL: inject}},
                "webhooks": [
                    _webhook(hook, client_config(hook.path), failure_policy, timeout)
                    for hook in _by_name(chosen)
                ],
            }
        )
    return out


_KINDS = {"MutatingWebhookConfiguration": True, "ValidatingWebhookConfiguration": False}


def _by_name(hooks: Iterable[Hook]) -> list[Hook]:
    return sorted(hooks, key=lambda hook: hook.name)


def _webhook(hook: Hook, client_config: Obj, failure_policy: str, timeout: int) -> Obj:
    resource = hook.resource
    names = [resource.plural, *(f"{resource.plural}/{sub}" for sub in hook.subresources)]
    out: Obj = {
        "name": hook.name,
        "clientConfig": client_config,
        "rules": [
            {
                "operations": list(hook.operations),
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": names,
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "failurePolicy": failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": timeout,
        "admissionReviewVersions": ["v1"],
    }
    return {**out, "reinvocationPolicy": "IfNeeded"} if hook.mutating else out

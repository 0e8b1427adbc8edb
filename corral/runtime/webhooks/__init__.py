"""Admission webhooks: an HTTPS server with certificates of its own.

Register handlers with `Hooks` (`hooks`; `Hooks.kind` does it for a whole kind), then run a
`WebhookService` (`service`) on every replica. The pieces: `certificates` decides what is made anew
and when (pure), `keeper` shares it through a Secret, `injector` has it trusted, `server` answers,
`configurations` says whom the API server asks, `jsonpatch` says what a mutator changed.
Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.runtime.webhooks.certificates import CertificateSet, CertificateSettings
    from corral.runtime.webhooks.configurations import (
        INJECT_LABEL,
        by_service,
        by_url,
        webhook_configurations,
    )
    from corral.runtime.webhooks.hooks import Hooks
    from corral.runtime.webhooks.injector import CaInjector
    from corral.runtime.webhooks.jsonpatch import json_patch
    from corral.runtime.webhooks.keeper import CertificateKeeper, Certificates
    from corral.runtime.webhooks.metrics import WebhookMetrics
    from corral.runtime.webhooks.review import AdmissionRequest, Verdict
    from corral.runtime.webhooks.server import ServerSettings, WebhookServer
    from corral.runtime.webhooks.service import (
        WebhookService,
        WebhookSettings,
        service_hosts,
    )

_HOMES = {
    "certificates": "CertificateSet CertificateSettings",
    "configurations": "INJECT_LABEL by_service by_url webhook_configurations",
    "hooks": "Hooks",
    "injector": "CaInjector",
    "jsonpatch": "json_patch",
    "keeper": "CertificateKeeper Certificates",
    "metrics": "WebhookMetrics",
    "review": "AdmissionRequest Verdict",
    "server": "ServerSettings WebhookServer",
    "service": "WebhookService WebhookSettings service_hosts",
}

__all__ = [
    "INJECT_LABEL",
    "AdmissionRequest",
    "CaInjector",
    "CertificateKeeper",
    "CertificateSet",
    "CertificateSettings",
    "Certificates",
    "Hooks",
    "ServerSettings",
    "Verdict",
    "WebhookMetrics",
    "WebhookServer",
    "WebhookService",
    "WebhookSettings",
    "by_service",
    "by_url",
    "json_patch",
    "service_hosts",
    "webhook_configurations",
]

__getattr__ = lazily(__name__, _HOMES)

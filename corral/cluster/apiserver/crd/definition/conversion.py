"""Checks of a CRD's conversion between versions."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from corral.cluster.apiserver.cel.formats import dns_1035_label
from corral.cluster.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from corral.kube.types import Obj

__all__ = ["conversion_problems"]

_REVIEW_VERSIONS = ("v1", "v1beta1")
Found = Iterator[FieldError]


def conversion_problems(conversion: Obj | None) -> Found:
    if not conversion:
        return
    strategy = conversion.get("strategy") or ""
    webhook: Obj = conversion.get("webhook") or {}
    config: Obj | None = webhook.get("clientConfig")
    reviews: list[str] = webhook.get("conversionReviewVersions") or []
    path = "spec.conversion"
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _client_problems(config, f"{path}.webhookClientConfig")
        yield from _review_problems(reviews, f"{path}.conversionReviewVersions")
        return
    why = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden_field(f"{path}.webhookClientConfig", why)
    if reviews:
        yield forbidden_field(f"{path}.conversionReviewVersions", why)


def _client_problems(config: Obj | None, path: str) -> Found:
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_problems(url, f"{path}.url")
    elif service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield required(f"{path}.service.{field}", f"service {field} is required")
        port = service.get("port", 443)
        if not 1 <= port <= 65535:
            why = "port is not valid: must be between 1 and 65535, inclusive"
            yield invalid_value(f"{path}.service.port", port, why)


def _url_problems(url: str, path: str) -> Found:
    parts = urlsplit(url)
    form = "desired format: https://host[/path]"
    if parts.scheme != "https":
        why = f"'https' is the only allowed URL scheme; {form}"
        yield invalid_value(path, parts.scheme, why)
    if not parts.netloc:
        yield invalid_value(path, parts.netloc, f"host must be specified; {form}")
    if parts.username is not None:
        yield invalid_value(path, url, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def _review_problems(versions: list[str], path: str) -> Found:
    if not versions:
        yield required(path)
        return
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield invalid_value(f"{path}[{i}]", version, "duplicate version")
            continue
        for why in dns_1035_label(version):
            yield invalid_value(f"{path}[{i}]", version, why)
    if not set(versions) & set(_REVIEW_VERSIONS):
        why = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid_value(path, versions, why)

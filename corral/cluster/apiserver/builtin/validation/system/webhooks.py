"""Admission webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, repeated
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns1035_label,
    dns_subdomain,
    port_number,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_fully_qualified
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, same_again
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.cel.admission_types import Checker
from corral.kube.types import Obj

__all__ = [
    "KINDS",
    "check_choice",
    "check_conditions",
    "check_rule",
    "check_webhook_service",
    "check_webhook_url",
]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_FORM = "; desired format: https://host[/path]"


def _check_resources(errs: Errors, resources: list[str], path: str) -> None:
    if not resources:
        errs.required(path)
    whole: set[str] = set()
    anywhere: set[str] = set()
    plain = False
    for i, text in enumerate(resources):
        where = f"{path}[{i}]"
        if not text:
            errs.required(where)
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in whole:
            errs.invalid(where, text, f"if '{resource}/*' is present, must not specify {text}")
        if sub in anywhere:
            errs.invalid(where, text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errs.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errs.invalid(path, resources, why)


def _check_list(errs: Errors, values: list[str], path: str, what: str) -> None:
    if not values:
        errs.required(path)
    if len(values) > 1 and "*" in values:
        errs.invalid(path, values, f"if '*' is present, must not specify other {what}")


def check_rule(errs: Errors, rule: Obj, path: str) -> None:
    """A rule of a webhook or a policy."""
    operations = rule.get("operations") or []
    _check_list(errs, operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errs.not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS)
    _check_list(errs, rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    _check_list(errs, versions, f"{path}.apiVersions", "API versions")
    for i, version in enumerate(versions):
        if not version:
            errs.required(f"{path}.apiVersions[{i}]")
    _check_resources(errs, rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in ("*", "Cluster", "Namespaced"):
        errs.not_supported(f"{path}.scope", scope, ("*", "Cluster", "Namespaced"))


def check_webhook_url(errs: Errors, url: str, path: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as bad:
        errs.required(path, f"url must be a valid URL: {bad}{_FORM}")
        return
    if parts.scheme != "https":
        errs.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errs.invalid(path, "", f"host must be specified{_FORM}")
    if at:
        errs.invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        errs.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        errs.invalid(path, parts.query, "query parameters are not permitted in the URL")


def check_webhook_service(errs: Errors, service: Obj, path: str) -> None:
    # The API hands name and namespace over the wrong way round; so do its messages.
    if not service.get("namespace"):
        errs.required(f"{path}.name")
    if not service.get("name"):
        errs.required(f"{path}.namespace")
    port = service.get("port") or 0
    if found := port_number(port):
        errs.invalid(f"{path}.port", port, f"port is not valid: {', '.join(found)}")
    target = service.get("path")
    if not target or target == "/":
        return
    where = f"{path}.path"
    if target == "//":
        errs.invalid(where, target, "segment[0] may not be empty")
        return
    if not target.startswith("/"):
        errs.invalid(where, target, "must start with a '/'")
    steps = target[1:].removesuffix("/").split("/")
    shown = repeated(target, len(steps))
    for i, step in enumerate(steps):
        if not step:
            errs.invalid(where, shown, f"segment[{i}] may not be empty")
            continue
        for message in dns_subdomain(step):
            errs.invalid(where, shown, f"segment[{i}]: {message}")


def _check_client(errs: Errors, config: Obj, path: str) -> None:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        errs.required(path, "exactly one of url or service is required")
    elif url is not None:
        check_webhook_url(errs, url, f"{path}.url")
    else:
        check_webhook_service(errs, service or {}, f"{path}.service")


def check_choice(errs: Errors, hook: Obj, name: str, allowed: Sequence[str], path: str) -> None:
    """A field that may be absent but has only these values."""
    value = hook.get(name)
    if value is not None and value not in allowed:
        errs.not_supported(f"{path}.{name}", value, allowed)


def _check_versions(errs: Errors, versions: list[str], path: str) -> None:
    if not versions:
        errs.required(path, "must specify one of v1, v1beta1")
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errs.invalid(f"{path}[{i}]", version, "duplicate version")
        else:
            errs.format(f"{path}[{i}]", version, dns1035_label)
        seen.add(version)
    if not {"v1", "v1beta1"} & set(versions):
        errs.invalid(path, versions, "must include at least one of v1, v1beta1")


def check_conditions(
    errs: Errors, conditions: list[Obj], path: str, *, params: bool = False
) -> None:
    """The match conditions of a webhook, or of a policy that has ``params``."""
    if not conditions:
        return
    checker = Checker(params=params)
    if len(conditions) > 64:
        errs.too_many(path, len(conditions), 64)
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            errs.required(f"{path}[{i}].expression")
        elif problem := checker.problem(expression, "bool"):
            errs.invalid(f"{path}[{i}].expression", expression, problem)
        if not name:
            errs.required(f"{path}[{i}].name")
        else:
            errs.format(f"{path}[{i}].name", name, qualified_name)
            if name in seen:
                errs.duplicate(f"{path}[{i}].name", name)
            seen.add(name)


def _check_hook(errs: Errors, hook: Obj, path: str) -> None:
    check_fully_qualified(errs, hook.get("name") or "", f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        check_rule(errs, rule, f"{path}.rules[{i}]")
    check_choice(errs, hook, "failurePolicy", ("Fail", "Ignore"), path)
    check_choice(errs, hook, "matchPolicy", ("Equivalent", "Exact"), path)
    if hook.get("sideEffects") is None:
        errs.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    check_choice(errs, hook, "sideEffects", _SIDE_EFFECTS, path)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        errs.invalid(f"{path}.timeoutSeconds", timeout, why)
    check_selector(errs, hook.get("namespaceSelector"), f"{path}.namespaceSelector")
    check_selector(errs, hook.get("objectSelector"), f"{path}.objectSelector")
    check_choice(errs, hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    _check_client(errs, hook.get("clientConfig") or {}, f"{path}.clientConfig")
    check_conditions(errs, hook.get("matchConditions") or [], f"{path}.matchConditions")


def validate_webhooks(errs: Errors, obj: Obj) -> None:
    """A validating or a mutating webhook configuration."""
    seen: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        _check_hook(errs, hook, path)
        versions = hook.get("admissionReviewVersions") or []
        _check_versions(errs, versions, f"{path}.admissionReviewVersions")
        if name and name in seen:
            errs.duplicate(f"{path}.name", name)
        seen.add(name)


_GROUP = "admissionregistration.k8s.io"
_RULES = same_again(validate_webhooks, namespaced=False, kube_finalizers=False)

KINDS: Kinds = {
    (_GROUP, "ValidatingWebhookConfiguration"): _RULES,
    (_GROUP, "MutatingWebhookConfiguration"): _RULES,
}  # fmt: skip

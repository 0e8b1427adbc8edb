"""Admission webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from corral.cluster.apiserver.builtin.validation.fields import (
    Errors,
    duplicate,
    invalid_value,
    invalid_with,
    not_supported,
    repeated,
    required,
    too_many,
)
from corral.cluster.apiserver.builtin.validation.names import (
    dns1035_label,
    dns_subdomain,
    port_number,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.prefixes import check_fully_qualified
from corral.cluster.apiserver.builtin.validation.selectors import check_selector
from corral.cluster.apiserver.cel.admission_types import Checker
from corral.kube.types import Obj

__all__ = [
    "check_choice",
    "check_conditions",
    "check_rule",
    "check_webhook_service",
    "check_webhook_url",
    "validate_webhooks",
]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_FORM = "; desired format: https://host[/path]"


def _check_resources(errs: Errors, resources: list[str], path: str) -> None:
    if not resources:
        errs.append(required(path))
    whole: set[str] = set()
    anywhere: set[str] = set()
    plain = False
    for i, text in enumerate(resources):
        where = f"{path}[{i}]"
        if not text:
            errs.append(required(where))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in whole:
            why = f"if '{resource}/*' is present, must not specify {text}"
            errs.append(invalid_value(where, text, why))
        if sub in anywhere:
            why = f"if '*/{sub}' is present, must not specify {text}"
            errs.append(invalid_value(where, text, why))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        why = "if '*/*' is present, must not specify other resources"
        errs.append(invalid_value(path, resources, why))
    if "*" in resources and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errs.append(invalid_value(path, resources, why))


def _check_list(errs: Errors, values: list[str], path: str, what: str) -> None:
    if not values:
        errs.append(required(path))
    if len(values) > 1 and "*" in values:
        why = f"if '*' is present, must not specify other {what}"
        errs.append(invalid_value(path, values, why))


def check_rule(errs: Errors, rule: Obj, path: str) -> None:
    """A rule of a webhook or a policy."""
    operations = rule.get("operations") or []
    _check_list(errs, operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errs.append(not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS))
    _check_list(errs, rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    _check_list(errs, versions, f"{path}.apiVersions", "API versions")
    for i, version in enumerate(versions):
        if not version:
            errs.append(required(f"{path}.apiVersions[{i}]"))
    _check_resources(errs, rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in ("*", "Cluster", "Namespaced"):
        errs.append(not_supported(f"{path}.scope", scope, ("*", "Cluster", "Namespaced")))


def check_webhook_url(errs: Errors, url: str, path: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as bad:
        errs.append(required(path, f"url must be a valid URL: {bad}{_FORM}"))
        return
    if parts.scheme != "https":
        why = f"'https' is the only allowed URL scheme{_FORM}"
        errs.append(invalid_value(path, parts.scheme, why))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errs.append(invalid_value(path, "", f"host must be specified{_FORM}"))
    if at:
        why = "user information is not permitted in the URL"
        errs.append(invalid_value(path, user, why))
    if parts.fragment:
        why = "fragments are not permitted in the URL"
        errs.append(invalid_value(path, parts.fragment, why))
    if parts.query:
        why = "query parameters are not permitted in the URL"
        errs.append(invalid_value(path, parts.query, why))


def check_webhook_service(errs: Errors, service: Obj, path: str) -> None:
    # The API hands name and namespace over the wrong way round; so do its messages.
    if not service.get("namespace"):
        errs.append(required(f"{path}.name"))
    if not service.get("name"):
        errs.append(required(f"{path}.namespace"))
    port = service.get("port") or 0
    if found := port_number(port):
        errs.append(invalid_value(f"{path}.port", port, f"port is not valid: {', '.join(found)}"))
    target = service.get("path")
    if not target or target == "/":
        return
    where = f"{path}.path"
    if target == "//":
        errs.append(invalid_value(where, target, "segment[0] may not be empty"))
        return
    if not target.startswith("/"):
        errs.append(invalid_value(where, target, "must start with a '/'"))
    steps = target[1:].removesuffix("/").split("/")
    shown = repeated(target, len(steps))
    for i, step in enumerate(steps):
        if not step:
            errs.append(invalid_value(where, shown, f"segment[{i}] may not be empty"))
            continue
        for message in dns_subdomain(step):
            errs.append(invalid_value(where, shown, f"segment[{i}]: {message}"))


def _check_client(errs: Errors, config: Obj, path: str) -> None:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        errs.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        check_webhook_url(errs, url, f"{path}.url")
    else:
        check_webhook_service(errs, service or {}, f"{path}.service")


def check_choice(errs: Errors, hook: Obj, name: str, allowed: Sequence[str], path: str) -> None:
    """A field that may be absent but has only these values."""
    value = hook.get(name)
    if value is not None and value not in allowed:
        errs.append(not_supported(f"{path}.{name}", value, allowed))


def _check_versions(errs: Errors, versions: list[str], path: str) -> None:
    if not versions:
        errs.append(required(path, "must specify one of v1, v1beta1"))
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errs.append(invalid_value(f"{path}[{i}]", version, "duplicate version"))
        else:
            invalid_with(errs, f"{path}[{i}]", version, dns1035_label(version))
        seen.add(version)
    if not {"v1", "v1beta1"} & set(versions):
        errs.append(invalid_value(path, versions, "must include at least one of v1, v1beta1"))


def check_conditions(
    errs: Errors, conditions: list[Obj], path: str, *, params: bool = False
) -> None:
    """The match conditions of a webhook, or of a policy that has ``params``."""
    if not conditions:
        return
    checker = Checker(params=params)
    if len(conditions) > 64:
        errs.append(too_many(path, len(conditions), 64))
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            errs.append(required(f"{path}[{i}].expression"))
        elif problem := checker.problem(expression, "bool"):
            errs.append(invalid_value(f"{path}[{i}].expression", expression, problem))
        if not name:
            errs.append(required(f"{path}[{i}].name"))
        else:
            invalid_with(errs, f"{path}[{i}].name", name, qualified_name(name))
            if name in seen:
                errs.append(duplicate(f"{path}[{i}].name", name))
            seen.add(name)


def _check_hook(errs: Errors, hook: Obj, path: str) -> None:
    check_fully_qualified(errs, hook.get("name") or "", f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        check_rule(errs, rule, f"{path}.rules[{i}]")
    check_choice(errs, hook, "failurePolicy", ("Fail", "Ignore"), path)
    check_choice(errs, hook, "matchPolicy", ("Equivalent", "Exact"), path)
    if hook.get("sideEffects") is None:
        errs.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    check_choice(errs, hook, "sideEffects", _SIDE_EFFECTS, path)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        errs.append(invalid_value(f"{path}.timeoutSeconds", timeout, why))
    check_selector(errs, hook.get("namespaceSelector"), f"{path}.namespaceSelector")
    check_selector(errs, hook.get("objectSelector"), f"{path}.objectSelector")
    check_choice(errs, hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    _check_client(errs, hook.get("clientConfig") or {}, f"{path}.clientConfig")
    check_conditions(errs, hook.get("matchConditions") or [], f"{path}.matchConditions")


def validate_webhooks(errs: Errors, obj: Obj, version: str) -> None:
    """A validating or a mutating webhook configuration."""
    seen: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        _check_hook(errs, hook, path)
        versions = hook.get("admissionReviewVersions") or []
        _check_versions(errs, versions, f"{path}.admissionReviewVersions")
        if name and name in seen:
            errs.append(duplicate(f"{path}.name", name))
        seen.add(name)

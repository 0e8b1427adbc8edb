"""Admission webhooks, and the rules and conditions that policies share with them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.check import Check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, repeated
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_fully_qualified
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, same_again, whole
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.system.api_services import check_port
from corral.cluster.apiserver.cel.admission_types import Checker
from corral.kube.types import Obj

__all__ = ["CHECK_RULE", "KINDS", "check_conditions"]

_FORM = "; desired format: https://host[/path]"

# -- rules -----------------------------------------------------------------------------------------


def _check_resources(errs: Errors, resources: list[str], path: str) -> None:
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


def _list(what: str, element: Check | None = None) -> Check:
    def check_alone(errs: Errors, values: Sequence[str], path: str) -> None:
        if len(values) > 1 and "*" in values:
            errs.invalid(path, values, f"if '*' is present, must not specify other {what}")
        if element is not None:
            check.each(element)(errs, values, path)

    return check_alone


def _check_version(errs: Errors, version: str, path: str) -> None:
    if not version:
        errs.required(path)


_OPERATION = check.choice("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
CHECK_RULE = check.struct(
    check.needed("operations", _list("operations", _OPERATION)),
    check.needed("apiGroups", _list("API groups")),
    check.needed("apiVersions", _list("API versions", _check_version)),
    check.needed("resources", _check_resources),
    check.pointer("scope", check.choice("*", "Cluster", "Namespaced")),
)
"""A rule of a webhook or a policy."""

# -- clients ---------------------------------------------------------------------------------------


def _check_url(errs: Errors, url: str, path: str) -> None:
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


def _check_url_path(errs: Errors, target: str, path: str) -> None:
    if target == "/":
        return
    if target == "//":
        errs.invalid(path, target, "segment[0] may not be empty")
        return
    if not target.startswith("/"):
        errs.invalid(path, target, "must start with a '/'")
    steps = target[1:].removesuffix("/").split("/")
    shown = repeated(target, len(steps))
    for i, step in enumerate(steps):
        if not step:
            errs.invalid(path, shown, f"segment[{i}] may not be empty")
            continue
        for message in names.dns_subdomain(step):
            errs.invalid(path, shown, f"segment[{i}]: {message}")


def _check_service(errs: Errors, service: Obj, path: str) -> None:
    # The API hands name and namespace over the wrong way round; so do its messages.
    for name, shown in (("namespace", "name"), ("name", "namespace")):
        if not service.get(name):
            errs.required(f"{path}.{shown}")
    check.always("port", check_port, 0)(errs, service, path)
    check.optional("path", _check_url_path)(errs, service, path)


def _check_client(errs: Errors, config: Obj, path: str) -> None:
    if (config.get("url") is None) == (config.get("service") is None):
        errs.required(path, "exactly one of url or service is required")
        return
    check.pointer("url", _check_url)(errs, config, path)
    check.pointer("service", _check_service)(errs, config, path)


# -- conditions and the whole ----------------------------------------------------------------------


def _check_versions(errs: Errors, versions: list[str], path: str) -> None:
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errs.invalid(f"{path}[{i}]", version, "duplicate version")
        else:
            errs.format(f"{path}[{i}]", version, names.dns1035_label)
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
            errs.format(f"{path}[{i}].name", name, names.qualified_name)
            if name in seen:
                errs.duplicate(f"{path}[{i}].name", name)
            seen.add(name)


_HOOK = check.struct(
    check.always("name", check_fully_qualified),
    check.items("rules", CHECK_RULE),
    check.pointer("failurePolicy", check.choice("Fail", "Ignore")),
    check.pointer("matchPolicy", check.choice("Equivalent", "Exact")),
    check.given("sideEffects", check.choice("None", "NoneOnDryRun"),
                "must specify one of None, NoneOnDryRun"),
    check.pointer("timeoutSeconds",
                  check.within(1, 30, "the timeout value must be between 1 and 30 seconds")),
    check.pointer("namespaceSelector objectSelector", check_selector),
    check.pointer("reinvocationPolicy", check.choice("IfNeeded", "Never")),
    check.inside("clientConfig", _check_client),
    check.optional("matchConditions", check_conditions),
    check.needed("admissionReviewVersions", _check_versions, "must specify one of v1, v1beta1"),
)  # fmt: skip


def _check_names(errs: Errors, hooks: list[Obj], path: str) -> None:
    seen: set[str] = set()
    for i, hook in enumerate(hooks):
        name, where = hook.get("name") or "", f"{path}[{i}]"
        _HOOK(errs, hook, where)
        if name and name in seen:
            errs.duplicate(f"{where}.name", name)
        seen.add(name)


_GROUP = "admissionregistration.k8s.io"
_RULES = same_again(
    whole(check.optional("webhooks", _check_names)), namespaced=False, kube_finalizers=False
)

KINDS: Kinds = {
    (_GROUP, "ValidatingWebhookConfiguration"): _RULES,
    (_GROUP, "MutatingWebhookConfiguration"): _RULES,
}

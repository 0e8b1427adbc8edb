"""Defaulting and validating CustomResourceDefinitions.

Errors have the paths and texts of kube-apiserver. That server moves what all versions share to
the top of the spec before it validates, so a schema common to all versions is reported at
``spec.validation.openAPIV3Schema``; so it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from corral.cluster.apiserver.cel.formats import dns_1035_label, dns_subdomain
from corral.cluster.apiserver.crd.definition.conditions import is_established
from corral.cluster.apiserver.crd.definition.conversion import conversion_problems
from corral.cluster.apiserver.crd.definition.defaultchecks import default_problems
from corral.cluster.apiserver.crd.definition.rulechecks import expression_problems, rule_problems
from corral.cluster.apiserver.crd.definition.schemachecks import (
    SchemaContext,
    openapi_problems,
    structural_problems,
    unsupported,
)
from corral.cluster.apiserver.crd.definition.versionchecks import (
    column_problems,
    deprecation_problems,
    scale_problems,
    selectable_problems,
)
from corral.cluster.apiserver.crd.types import Errors
from corral.cluster.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    show,
)
from corral.kube.types import Obj

__all__ = ["default_crd", "validate_crd", "validate_crd_update"]

_APPROVAL = "api-approved.kubernetes.io"
_APPROVAL_PULL = "https://github.com/kubernetes/enhancements/pull/1111"
_ROOT_ALLOWED = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
    "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties "
    "ExternalDocs Example XPreserveUnknownFields XValidations"
).split()
_ROOT_NAMES = frozenset(
    "description type format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems multipleOf required items properties "
    "externalDocs example x-kubernetes-preserve-unknown-fields x-kubernetes-validations "
    "nullable".split()
)


def default_crd(obj: Obj) -> None:
    """Fill in defaults, in place."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]
    webhook = spec["conversion"].get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        storage = [v["name"] for v in spec.get("versions") or () if v.get("storage")]
        if storage:
            status["storedVersions"] = storage[:1]


def validate_crd(obj: Obj) -> list[FieldError]:
    """Everything wrong with a new CRD (defaulted; metadata beyond the name is not looked at)."""
    name, spec = obj.get("metadata", {}).get("name", ""), obj.get("spec") or {}
    out = [invalid_value("metadata.name", name, why) for why in dns_subdomain(name)]
    wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        out.append(invalid_value("metadata.name", name, why))
    return out + _common(obj, None)


def validate_crd_update(new: Obj, old: Obj) -> list[FieldError]:
    """Everything wrong with an update; what identifies stored objects may not change."""
    out = _common(new, old)
    after, before = new["spec"], old["spec"]
    fixed = [("group", after.get("group"), before.get("group"))]
    names, old_names = after.get("names", {}), before.get("names", {})
    if is_established(old):
        out += _immutable("spec.scope", after.get("scope"), before.get("scope"))
        out += _immutable("spec.names.kind", names.get("kind"), old_names.get("kind"))
    fixed.append(("names.plural", names.get("plural"), old_names.get("plural")))
    for path, value, was in fixed:
        out += _immutable(f"spec.{path}", value, was)
    return out


def _immutable(path: str, value: Any, was: Any) -> Errors:
    return [] if value == was else [invalid_value(path, value, "field is immutable")]


def _common(obj: Obj, old: Obj | None) -> Errors:
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    unchanged = old is not None and spec == old["spec"]  # as with every write of a status
    out = [] if unchanged else list(_spec_problems(spec, old))
    out += _name_problems(status.get("acceptedNames") or {}, "status.acceptedNames")
    out += _stored_version_problems(status.get("storedVersions"), spec.get("versions") or [])
    out += _approval_problems(obj, old)
    was_open = old is not None and old["spec"].get("preserveUnknownFields") is True
    if spec.get("preserveUnknownFields") is True and not was_open:
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        out.append(invalid_value("spec.preserveUnknownFields", True, why))
    return out


def _spec_problems(spec: Obj, old: Obj | None) -> Iterator[FieldError]:
    yield from _group_problems(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions: list[Obj] = spec.get("versions") or []
    for i, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                yield required(f"spec.versions[{i}].schema.openAPIV3Schema")
    yield from _versions_problems(versions, old)
    names = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield required(f"spec.names.{name}")
    yield from _name_problems(names, "spec.names")
    yield from _shared_problems(versions, old)
    yield from conversion_problems(spec.get("conversion"))


def _group_problems(group: str) -> Errors:
    if not group:
        return [required("spec.group")]
    why = dns_subdomain(group)
    if why:
        return [invalid_value("spec.group", group, ",".join(why))]
    if "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return []


_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _is_shared(versions: Sequence[Obj], field: str) -> bool:
    return all(v.get(field) == versions[0].get(field) for v in versions)


def _versions_problems(versions: list[Obj], old: Obj | None) -> Iterator[FieldError]:
    shared = {field for field in _SHARED if versions and _is_shared(versions, field)}
    for i, version in enumerate(versions):
        path = f"spec.versions[{i}]"
        name = version.get("name") or ""
        why = dns_1035_label(name)
        if why:
            yield invalid_value(f"{path}.name", name, ",".join(why))
        yield from deprecation_problems(version, path)
        own = {
            field: version[field] for field in _SHARED if field in version and field not in shared
        }
        yield from _part_problems(own, version, path, f"{path}.schema.openAPIV3Schema", old)
    names = [v.get("name") for v in versions]
    if len(set(names)) != len(names):
        yield _bad_versions(versions, shared, "must contain unique version names")
    if sum(bool(v.get("storage")) for v in versions) != 1:
        why_not = "must have exactly one version marked as storage version"
        yield _bad_versions(versions, shared, why_not)
    if versions and dns_1035_label(versions[0].get("name") or ""):
        name = versions[0].get("name") or ""
        yield invalid_value("spec.version", name, ",".join(dns_1035_label(name)))


def _shared_problems(versions: list[Obj], old: Obj | None) -> Iterator[FieldError]:
    if not versions:
        return
    first = versions[0]
    parts = {f: first[f] for f in _SHARED if f in first and _is_shared(versions, f)}
    whole = {**first, "subresources": _any_status(versions)}
    yield from _part_problems(parts, whole, "spec", "spec.validation.openAPIV3Schema", old)


def _any_status(versions: list[Obj]) -> Obj | None:
    for version in versions:
        if (version.get("subresources") or {}).get("status") is not None:
            return {"status": {}}
    return None


def _part_problems(
    parts: Obj, version: Obj, path: str, schema_path: str, old: Obj | None
) -> Iterator[FieldError]:
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        status = (version.get("subresources") or {}).get("status") is not None
        kept = _kept("schema", version, old)
        yield from _schema_problems(schema, schema_path, status, kept=kept)
    yield from scale_problems(parts.get("subresources") or {}, f"{path}.subresources")
    for i, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from column_problems(column, f"{path}.additionalPrinterColumns[{i}]")
    fields = parts.get("selectableFields") or []
    if fields:
        owner = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        kept = _kept("selectableFields", version, old)
        yield from selectable_problems(fields, owner, f"{path}.selectableFields", kept)


def _kept(field: str, version: Obj, old: Obj | None) -> bool:
    """Whether the version had the same in a field before: later limits are not for that."""
    for before in (old or {}).get("spec", {}).get("versions", ()):
        if before.get("name") == version.get("name"):
            return bool(before.get(field) == version.get(field))
    return False


def _schema_problems(schema: Obj, path: str, status: bool, *, kept: bool) -> Errors:
    out: Errors = []
    if status:
        out += _root_problems(schema, path)
    if schema.get("nullable"):
        out.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    derivable = not unsupported(schema)
    sound = False
    if derivable:
        found = structural_problems(schema, path) or list(default_problems(schema, path))
        out += found
        sound = not found
    other = list(openapi_problems(schema, path, SchemaContext(root=True)))
    other += rule_problems(schema, path)
    out += other
    if sound and not other:
        out += expression_problems(schema, path, kept=kept)
    return out


def _root_problems(schema: Obj, path: str) -> Errors:
    if schema.get("type") not in (None, "", "object"):
        why = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        return [invalid_value(f"{path}.type", schema["type"], why)]
    if any(name not in _ROOT_NAMES for name, value in schema.items() if value):
        allowed = " ".join(_ROOT_ALLOWED)
        why = (
            f"only [{allowed}] fields are allowed at the root of the schema if the status "
            "subresource is enabled"
        )
        return [invalid_value(path, schema, why)]
    return []


def _bad_versions(versions: list[Obj], shared: set[str], why: str) -> FieldError:
    """Versions are shown as the server's own structure prints."""
    shown = [
        {
            "Name": v.get("name", ""),
            "Served": bool(v.get("served")),
            "Storage": bool(v.get("storage")),
            "Deprecated": bool(v.get("deprecated")),
            "DeprecationWarning": v.get("deprecationWarning"),
            **{
                field[0].upper() + field[1:]: None if field in shared else v.get(field)
                for field in _SHARED
            },
        }
        for v in versions
    ]
    return FieldError("FieldValueInvalid", "spec.versions", f"Invalid value: {show(shown)}: {why}")


def _name_problems(names: Obj, path: str) -> Errors:
    out: Errors = []
    mixed = "may have mixed case, but should otherwise match: "
    for field in ("plural", "singular", "kind", "listKind"):
        name = names.get(field) or ""
        is_kind = field.lower().endswith("kind")
        why = dns_1035_label(name.lower() if is_kind else name) if name else []
        if why:
            text = (mixed if is_kind else "") + ",".join(why)
            out.append(invalid_value(f"{path}.{field}", name, text))
    for field in ("shortNames", "categories"):
        if field == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            same = "kind and listKind may not be the same"
            out.append(invalid_value(f"{path}.listKind", names["listKind"], same))
        for i, name in enumerate(names.get(field) or ()):
            why = dns_1035_label(name)
            if why:
                out.append(invalid_value(f"{path}.{field}[{i}]", name, ",".join(why)))
    return out


def _stored_version_problems(stored: list[str] | None, versions: list[Obj]) -> Errors:
    path = "status.storedVersions"
    if not stored:
        return [invalid_value(path, stored or None, "must have at least one stored version")]
    out = [
        invalid_value(path, stored, f"must have the storage version {v['name']}")
        for v in versions
        if v.get("storage") and v["name"] not in stored
    ]
    known = {v.get("name") for v in versions}
    for i, name in enumerate(stored):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            out.append(invalid_value(f"{path}[{i}]", name, why))
    return out


def _approval_problems(obj: Obj, old: Obj | None) -> Errors:
    group = (obj.get("spec") or {}).get("group") or ""
    if not group.endswith((".k8s.io", ".kubernetes.io")) and group not in (
        "k8s.io",
        "kubernetes.io",
    ):
        return []
    value, state = _approval(obj)
    if old is not None and _approval(old)[1] == state:
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    said = f'protected groups must have approval annotation "{_APPROVAL}"'
    if state == "missing":
        return [required(path, f"{said}, see {_APPROVAL_PULL}")]
    if state == "invalid":
        how = 'with either a URL or a reason starting with "unapproved"'
        return [invalid_value(path, value, f"{said} {how}, see {_APPROVAL_PULL}")]
    return []


def _approval(obj: Obj) -> tuple[str, str]:
    value = (obj.get("metadata", {}).get("annotations") or {}).get(_APPROVAL) or ""
    if not value:
        return value, "missing"
    if value.startswith("unapproved"):
        return value, "bypassed"
    scheme, found, rest = value.partition("://")
    return value, "approved" if scheme and found and rest else "invalid"

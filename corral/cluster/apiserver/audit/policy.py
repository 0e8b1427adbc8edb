"""The audit policy: the first rule that matches a request says how much of it is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import yaml

from corral.cluster.apiserver.auth.attributes import Attributes

__all__ = ["STAGES", "Decided", "Level", "Policy", "PolicyError", "load_policy"]

STAGES: Final = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_VERSION: Final = "audit.k8s.io/v1"
_RULE_FIELDS: Final = frozenset(
    {
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    }
)


class Level(IntEnum):
    """How much of a request is recorded."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        return _LEVEL_NAMES[self]


_LEVEL_NAMES: Final = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_LEVELS: Final = {name: level for level, name in _LEVEL_NAMES.items()}


class PolicyError(ValueError):
    """The policy file cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one API group, some objects only where names are given."""

    group: str
    resources: frozenset[str]
    names: frozenset[str]

    def match(self, attrs: Attributes) -> bool:
        if self.group != attrs.api_group:
            return False
        if not self.resources:
            return True
        if self.names and attrs.name not in self.names:
            return False
        resource, sub = attrs.resource, attrs.subresource
        written = {"*", f"{resource}/*", f"{resource}/{sub}" if sub else resource}
        return not self.resources.isdisjoint(written | ({f"*/{sub}"} if sub else set()))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; an empty condition holds for every request."""

    level: Level
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    namespaces: frozenset[str]
    resources: tuple[Resources, ...]
    paths: tuple[str, ...]
    omit_stages: frozenset[str]
    omit_managed_fields: bool

    def match(self, attrs: Attributes) -> bool:
        user = attrs.user
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and attrs.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return self._match_resource(attrs)
        return not self.paths or self._match_path(attrs)

    def _match_resource(self, attrs: Attributes) -> bool:
        if not attrs.resource_request:
            return False
        if self.namespaces and attrs.namespace not in self.namespaces:
            return False
        return not self.resources or any(found.match(attrs) for found in self.resources)

    def _match_path(self, attrs: Attributes) -> bool:
        if attrs.resource_request:
            return False
        path = attrs.path
        return any(
            spec == "*" or spec == path or (spec[-1:] == "*" and path.startswith(spec[:-1]))
            for spec in self.paths
        )


@dataclass(frozen=True, slots=True)
class Decided:
    """What the policy says of one request."""

    level: Level
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


_NOTHING: Final = Decided(Level.NONE)


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order; a request that none of them matches is not recorded."""

    rules: tuple[Rule, ...]

    def decide(self, attrs: Attributes) -> Decided:
        for rule in self.rules:
            if rule.match(attrs):
                return Decided(rule.level, rule.omit_stages, rule.omit_managed_fields)
        return _NOTHING


# -- reading ---------------------------------------------------------------------------------------


def load_policy(path: Path) -> Policy:
    """The policy in a file (YAML or JSON).

    Raises:
        PolicyError: the file cannot be read or is no valid policy.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise PolicyError(f"audit policy {path}: {err}") from err
    try:
        return parse_policy(document)
    except PolicyError as err:
        raise PolicyError(f"audit policy {path}: {err}") from err


def parse_policy(document: Any) -> Policy:
    """The policy in a document. Raises PolicyError."""
    if not isinstance(document, dict):
        raise PolicyError("a Policy is an object with rules")
    if (document.get("apiVersion"), document.get("kind")) != (_VERSION, "Policy"):
        raise PolicyError(f"apiVersion must be {_VERSION} and kind Policy")
    rules = document.get("rules")
    if not isinstance(rules, list) or not rules:
        raise PolicyError("rules: at least one rule is required")
    omitted = _stages(document, "omitStages")
    managed = _flag(document, "omitManagedFields", default=False)
    return Policy(
        tuple(_rule(rule, f"rules[{n}]", omitted, managed=managed) for n, rule in enumerate(rules))
    )


def _rule(written: Any, where: str, omitted: frozenset[str], *, managed: bool) -> Rule:
    if not isinstance(written, dict):
        raise PolicyError(f"{where}: must be an object")
    if unknown := sorted(set(written) - _RULE_FIELDS):
        raise PolicyError(f"{where}: unknown field {unknown[0]!r}")
    level = written.get("level")
    if level not in _LEVELS:
        raise PolicyError(f"{where}.level: must be one of {', '.join(_LEVELS)}")
    rule = Rule(
        level=_LEVELS[level],
        users=_texts(written, "users", where),
        groups=_texts(written, "userGroups", where),
        verbs=_texts(written, "verbs", where),
        namespaces=_texts(written, "namespaces", where),
        resources=_resources(written.get("resources") or [], f"{where}.resources"),
        paths=_paths(written, where),
        omit_stages=omitted | _stages(written, "omitStages", where),
        omit_managed_fields=_flag(written, "omitManagedFields", where, default=managed),
    )
    if rule.paths and (rule.resources or rule.namespaces):
        raise PolicyError(
            f"{where}: a rule cannot apply to both resources and nonResourceURLs; write two rules"
        )
    return rule


def _resources(written: Any, where: str) -> tuple[Resources, ...]:
    if not isinstance(written, list):
        raise PolicyError(f"{where}: must be a list")
    return tuple(_group(group, f"{where}[{n}]") for n, group in enumerate(written))


def _group(written: Any, where: str) -> Resources:
    if not isinstance(written, dict):
        raise PolicyError(f"{where}: must be an object")
    group = written.get("group") or ""
    if not isinstance(group, str) or "/" in group:
        raise PolicyError(f"{where}.group: must be the name of an API group, without a version")
    found = Resources(
        group,
        _texts(written, "resources", where),
        _texts(written, "resourceNames", where),
    )
    if found.names and not found.resources:
        raise PolicyError(f"{where}: resourceNames need resources")
    return found


def _paths(written: dict[str, Any], where: str) -> tuple[str, ...]:
    paths = _texts(written, "nonResourceURLs", where)
    for path in paths:
        if path != "*" and not path.startswith("/"):
            raise PolicyError(f"{where}.nonResourceURLs: {path!r} must begin with /")
        if "*" in path[:-1]:
            raise PolicyError(f"{where}.nonResourceURLs: {path!r} may have * at its end only")
    return tuple(sorted(paths))


def _stages(written: dict[str, Any], field: str, where: str = "") -> frozenset[str]:
    stages = _texts(written, field, where)
    if unknown := sorted(stages - set(STAGES)):
        raise PolicyError(f"{_at(where, field)}: {unknown[0]!r} is none of {', '.join(STAGES)}")
    return stages


def _texts(written: dict[str, Any], field: str, where: str = "") -> frozenset[str]:
    found: Sequence[Any] | Iterable[Any] = written.get(field) or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise PolicyError(f"{_at(where, field)}: must be a list of strings")
    return frozenset(found)


def _flag(written: dict[str, Any], field: str, where: str = "", *, default: bool) -> bool:
    value = written.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"{_at(where, field)}: must be true or false")
    return value


def _at(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field

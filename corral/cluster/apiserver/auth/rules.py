"""Policy rules: matching a request, covering one another, and their compact print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.cluster.apiserver.auth.attributes import Attributes, quoted
from corral.kube.types import Obj

__all__ = ["Rule", "TooManyParts", "compact", "compile_rules", "covers", "quote"]


class Rule:
    """One PolicyRule with its lists as sets; ``source`` keeps the object as written."""

    __slots__ = ("groups", "names", "resources", "source", "url_prefixes", "urls", "verbs")

    def __init__(self, source: Obj) -> None:
        self.source = source
        self.verbs = frozenset(source.get("verbs") or ())
        self.groups = frozenset(source.get("apiGroups") or ())
        self.resources = frozenset(source.get("resources") or ())
        self.names = frozenset(source.get("resourceNames") or ())
        urls = source.get("nonResourceURLs") or ()
        self.urls = frozenset(urls)
        self.url_prefixes = tuple(url.rstrip("*") for url in urls if url.endswith("*"))

    def allows_all_but_name(self, attrs: Attributes) -> bool:
        """Whether the request matches when its object name is left aside."""
        if "*" not in self.verbs and attrs.verb not in self.verbs:
            return False
        if not attrs.resource_request:
            return attrs.path in self.urls or attrs.path.startswith(self.url_prefixes)
        if "*" not in self.groups and attrs.api_group not in self.groups:
            return False
        resources = self.resources
        if "*" in resources:
            return True
        if not attrs.subresource:
            return attrs.resource in resources
        return (
            f"{attrs.resource}/{attrs.subresource}" in resources
            or f"*/{attrs.subresource}" in resources
        )

    def allows(self, attrs: Attributes) -> bool:
        if not self.allows_all_but_name(attrs):
            return False
        return not (attrs.resource_request and self.names) or attrs.name in self.names

    def covers(self, part: Rule) -> bool:
        """Whether everything a broken-down rule grants is granted by this one."""
        return (
            _has_all(self.verbs, part.verbs)
            and _has_all(self.groups, part.groups)
            and all(self._covers_resource(resource) for resource in part.resources)
            and all(self._covers_url(url) for url in part.urls)
            and (not self.names or (bool(part.names) and part.names <= self.names))
        )

    def _covers_resource(self, resource: str) -> bool:
        if "*" in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def _covers_url(self, url: str) -> bool:
        return url in self.urls or url.startswith(self.url_prefixes)


def _has_all(owner: frozenset[str], wanted: frozenset[str]) -> bool:
    return "*" in owner or wanted <= owner


def compile_rules(rules: Iterable[Obj] | None) -> tuple[Rule, ...]:
    return tuple(Rule(rule) for rule in rules or ())


MAX_PARTS = 4_000
"""Combinations of verb, group, resource and name that are looked at one by one."""
MAX_COMPARED = 200_000
"""Pairs of a wanted and a held rule."""


class TooManyParts(Exception):
    """Rules that multiply to more than can be looked at."""


def covers(owner: Sequence[Rule], wanted: Iterable[Obj]) -> list[Obj]:
    """The parts of ``wanted`` (one verb, group, resource and name each) that nobody grants.

    Raises:
        TooManyParts: a few lists of a rule multiply to any number of parts.
    """
    missing: list[Obj] = []
    parts = compared = 0

    def held(rule: Rule) -> bool:
        nonlocal compared
        for one in owner:
            compared += 1
            if one.covers(rule):
                return True
        if compared > MAX_COMPARED:
            raise TooManyParts
        return False

    for rule in wanted:
        parts += 1
        if parts > MAX_PARTS:
            raise TooManyParts
        if held(Rule(rule)):
            continue
        for part in _break_down(rule):
            parts += 1
            if parts > MAX_PARTS:
                raise TooManyParts
            if not held(Rule(part)):
                missing.append(part)
    return missing


def _break_down(rule: Obj) -> Iterable[Obj]:
    verbs = rule.get("verbs") or ()
    names = rule.get("resourceNames") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                base = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if names:
                    yield from ({**base, "resourceNames": [name]} for name in names)
                else:
                    yield base
    for url in rule.get("nonResourceURLs") or ():
        for verb in verbs:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def compact(parts: Iterable[Obj]) -> list[str]:
    """Print broken-down rules, those that differ only by verb as one, sorted."""
    merged: dict[tuple[str, ...], Obj] = {}
    whole: list[Obj] = []
    for part in parts:
        if part.get("nonResourceURLs"):
            whole.append(part)
            continue
        key = (part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
        known = merged.get(key)
        if known is None:
            merged[key] = {**part, "verbs": list(part["verbs"])}
        else:
            known["verbs"].extend(part["verbs"])
    return sorted({_compact_string(rule) for rule in (*whole, *merged.values())})


_PRINTED = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def _compact_string(rule: Obj) -> str:
    shown = (f"{label}:{quote(rule[key])}" for label, key in _PRINTED if rule.get(key))
    return "{" + ", ".join(shown) + "}"


def quote(values: Iterable[str]) -> str:
    """A list of strings the way Go's ``%q`` prints it: ``["a" "b"]``."""
    return "[" + " ".join(map(quoted, values)) + "]"

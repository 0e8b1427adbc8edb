"""Selectors of nodes and of pods, read once per object and matched many times.

A selector that cannot be parsed matches nothing: the API server refuses such objects, and one that
slipped through must not stop the scheduling of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.kube.selectors import Requirement, Selector, SelectorError

__all__ = ["NodeAffinity", "NodeTerm", "PodTerm", "WeightedNodeTerm", "WeightedPodTerm"]

_NOTHING: Final = Selector(nothing=True)
_NODE_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!exists",
    "Gt": "gt",
    "Lt": "lt",
}

Labels = Mapping[str, str]


def selector_of(selector: Mapping[str, Any] | None) -> Selector:
    """The API's LabelSelector; one that is wrong matches nothing."""
    try:
        return Selector.from_object(selector)
    except SelectorError:
        return _NOTHING


def with_label_keys(
    selector: Selector, labels: Labels, same: Iterable[str] = (), differ: Iterable[str] = ()
) -> Selector:
    """Narrow a selector to pods whose labels equal (or differ from) these under the given keys.

    A key that the selector already speaks of is left alone: the API server merges such keys into
    the selector when the pod is created, and what it wrote then stays right.
    """
    if selector.nothing:
        return selector
    known = {r.key for r in selector.requirements}
    more = [
        Requirement(key, op, (labels[key],))
        for op, keys in (("in", same), ("notin", differ))
        for key in keys
        if key in labels and key not in known
    ]
    return Selector((*selector.requirements, *more)) if more else selector


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One node selector term: all its expressions and fields must hold."""

    labels: Selector
    names: tuple[tuple[bool, str], ...] = ()
    """From ``matchFields``: (must equal, name)."""
    broken: bool = False

    @staticmethod
    def parse(term: Mapping[str, Any]) -> NodeTerm | None:
        """Read a term; None when it is empty, for an empty term matches no node."""
        expressions, fields = term.get("matchExpressions"), term.get("matchFields")
        if not expressions and not fields:
            return None
        wanted: list[Requirement] = []
        for expression in expressions or ():
            op = _NODE_OPERATORS.get(expression.get("operator", ""))
            values = tuple(expression.get("values") or ())
            if op is None or (op in ("gt", "lt") and len(values) != 1):
                return NodeTerm(_NOTHING, broken=True)
            wanted.append(Requirement(expression.get("key", ""), op, values))
        names = _names(fields or ())
        if names is None:
            return NodeTerm(_NOTHING, broken=True)
        return NodeTerm(Selector(tuple(wanted)), names)

    def matches(self, name: str, labels: Labels) -> bool:
        if self.broken or not self.labels.matches(labels):
            return False
        return all((name == wanted) == equal for equal, wanted in self.names)


def _names(fields: Sequence[Mapping[str, Any]]) -> tuple[tuple[bool, str], ...] | None:
    found = []
    for field in fields:
        values, operator = list(field.get("values") or ()), field.get("operator")
        # The name is the only field that a node can be selected by.
        if len(values) != 1 or field.get("key") != "metadata.name":
            return None
        if operator not in ("In", "NotIn"):
            return None
        found.append((operator == "In", values[0]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WeightedNodeTerm:
    """A preference for nodes."""

    term: NodeTerm
    weight: int


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """The nodes that a pod accepts: its node selector and required node affinity together."""

    selector: Selector
    terms: tuple[NodeTerm, ...] | None
    """At least one must match; None: no such demand."""
    named: frozenset[str] | None = None
    """The only nodes that can match, where every term names some; empty: the terms conflict."""

    @staticmethod
    def parse(spec: Mapping[str, Any]) -> NodeAffinity | None:
        """Read it from a pod's spec; None when every node will do."""
        wanted = spec.get("nodeSelector") or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        if not wanted and required is None:
            return None
        selector = Selector(tuple(Requirement(k, "=", (v,)) for k, v in sorted(wanted.items())))
        if required is None:
            return NodeAffinity(selector, None)
        raw = required.get("nodeSelectorTerms") or ()
        parsed = tuple(term for term in map(NodeTerm.parse, raw) if term is not None)
        return NodeAffinity(selector, parsed, _named(raw))

    def matches(self, name: str, labels: Labels) -> bool:
        if not self.selector.matches(labels):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)


def _named(terms: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    everything: set[str] = set()
    for term in terms:
        names: set[str] | None = None
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In":
                values = set(field.get("values") or ())
                names = values if names is None else names & values
        if names is None:
            return None
        everything |= names
    return frozenset(everything) if terms else None


def preferred_nodes(spec: Mapping[str, Any]) -> tuple[WeightedNodeTerm, ...]:
    """The pod's preferences for nodes, without those that weigh or say nothing."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found = []
    for item in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        term, weight = NodeTerm.parse(item.get("preference") or {}), item.get("weight") or 0
        if term is not None and weight:
            found.append(WeightedNodeTerm(term, weight))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One pod affinity term: which pods it is about, and the label that makes nodes one place."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    key: str

    @staticmethod
    def parse(term: Mapping[str, Any], namespace: str, labels: Labels) -> PodTerm:
        """Read a term of a pod with these labels in this namespace."""
        named, chosen = term.get("namespaces") or (), term.get("namespaceSelector")
        names = (namespace,) if not named and chosen is None else named
        selector = with_label_keys(
            selector_of(term.get("labelSelector")),
            labels,
            same=term.get("matchLabelKeys") or (),
            differ=term.get("mismatchLabelKeys") or (),
        )
        key = term.get("topologyKey") or ""
        return PodTerm(frozenset(names), selector_of(chosen), selector, key)

    def matches(self, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> bool:
        """Whether the term is about a pod; ``namespaces`` gives each namespace's labels."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespaces.get(namespace, {})
        ):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preference for the places of some pods; a negative weight is an aversion."""

    term: PodTerm
    weight: int


def required_pods(
    spec: Mapping[str, Any], kind: str, namespace: str, labels: Labels
) -> tuple[PodTerm, ...]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity``."""
    affinity = (spec.get("affinity") or {}).get(kind) or {}
    raw = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(PodTerm.parse(term, namespace, labels) for term in raw)


def preferred_pods(
    spec: Mapping[str, Any], namespace: str, labels: Labels
) -> tuple[WeightedPodTerm, ...]:
    """The preferred terms of both kinds, those of anti-affinity with negative weights."""
    affinity = spec.get("affinity") or {}
    found = []
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        raw = (affinity.get(kind) or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
        for item in raw or ():
            term = PodTerm.parse(item.get("podAffinityTerm") or {}, namespace, labels)
            found.append(WeightedPodTerm(term, sign * (item.get("weight") or 0)))
    return tuple(found)

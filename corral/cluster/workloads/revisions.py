"""The templates a stateful set or daemon set has had, kept as ControllerRevisions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import orjson

from corral.cluster.workloads.pods import controller_reference
from corral.cluster.workloads.times import datetime_or_zero
from corral.kube.types import Obj

__all__ = [
    "apply",
    "as_sent",
    "data_of",
    "history_to_drop",
    "new_revision",
    "same_data",
    "sort_revisions",
]

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX: Final = 223


def data_of(owner: Obj) -> Obj:
    """The patch that gives an owner the template it has now."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def same_data(one: Obj, other: Obj) -> bool:
    """Whether two revisions hold the same template; absent and empty are the same."""
    return bool(_plain(one.get("data")) == _plain(other.get("data")))


def _hash(data: Obj, collisions: int) -> str:
    text = orjson.dumps(_plain(data), option=orjson.OPT_SORT_KEYS) + str(collisions).encode()
    number = int.from_bytes(hashlib.sha256(text).digest()[:4], "little")
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def new_revision(
    owner: Obj, api_version: str, kind: str, *, number: int, collisions: int, hash_label: str
) -> Obj:
    """The body of the revision for the owner's present template.

    ``hash_label`` is where its hash goes: stateful sets and daemon sets use different labels.
    """
    data, meta = data_of(owner), owner["metadata"]
    short = _hash(data, collisions)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    body: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{meta['name'][:_LONGEST_PREFIX]}-{short}",
            "namespace": meta.get("namespace", ""),
            "labels": {**labels, hash_label: short},
            "ownerReferences": [controller_reference(owner, api_version, kind)],
        },
        "data": data,
        "revision": number,
    }
    if meta.get("annotations"):
        body["metadata"]["annotations"] = dict(meta["annotations"])
    return body


_ESCAPED: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def as_sent(revision: Obj) -> Obj:
    """A revision as it has to be on the wire.

    kube-apiserver keeps the data as the bytes that came, and refuses every later change of the
    object (an adoption, say) unless they are the bytes it would have written itself: with sorted
    keys, and escaped for HTML.
    """
    text = orjson.dumps(revision["data"], option=orjson.OPT_SORT_KEYS)
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return {**revision, "data": orjson.Fragment(text)}


def sort_revisions(revisions: Iterable[Obj]) -> list[Obj]:
    """Oldest first."""

    def key(revision: Obj) -> tuple[Any, ...]:
        meta = revision["metadata"]
        created = datetime_or_zero(meta.get("creationTimestamp"))
        return (revision.get("revision", 0), created, meta["name"])

    return sorted(revisions, key=key)


def apply(owner: Obj, revision: Obj) -> Obj:
    """The owner with the template of a revision."""
    template = {k: v for k, v in revision["data"]["spec"]["template"].items() if k != "$patch"}
    return {**owner, "spec": {**owner["spec"], "template": template}}


def history_to_drop(revisions: list[Obj], live: set[str], limit: int) -> list[Obj]:
    """The oldest revisions nobody uses, beyond ``limit`` of them."""
    idle = [one for one in revisions if one["metadata"]["name"] not in live]
    return idle[: max(0, len(idle) - limit)] if limit >= 0 else []

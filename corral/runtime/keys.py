"""What an object is called, and how old it is: keys, versions and times. No I/O.

A key is ``namespace/name``, or ``name`` alone for a cluster-scoped object; it is what stores are
keyed by, queues hold and reconcilers are given.
"""

from __future__ import annotations

from corral.kube.times import format_micro_time, format_time
from corral.kube.types import Obj

__all__ = [
    "InvalidVersion",
    "compare_versions",
    "format_micro_time",
    "format_time",
    "join_key",
    "key_of",
    "split_key",
    "uid_of",
    "version_of",
]


def key_of(obj: Obj) -> str:
    """The key of an object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def join_key(namespace: str | None, name: str) -> str:
    """The key of the object with this name."""
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """A key as (namespace, name); the namespace is empty for a cluster-scoped object."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def uid_of(obj: Obj) -> str:
    """``metadata.uid``; empty without one."""
    return str(obj.get("metadata", {}).get("uid") or "")


def version_of(obj: Obj) -> str:
    """``metadata.resourceVersion``; empty without one. Works for lists and bookmarks too."""
    return str(obj.get("metadata", {}).get("resourceVersion") or "")


class InvalidVersion(ValueError):
    """The resource version is no positive decimal number without leading zeros."""


def compare_versions(a: str, b: str) -> int:
    """-1, 0 or 1; says something only about two versions of the same resource.

    Raises:
        InvalidVersion: one of them is not comparable.
    """
    for version in (a, b):
        if not (version.isascii() and version.isdigit()) or version[0] == "0":
            raise InvalidVersion(f"resource version is not well formed: {version}")
    left, right = (len(a), a), (len(b), b)
    return (left > right) - (left < right)

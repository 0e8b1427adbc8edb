"""Idempotent creates: the same request again gives the same object, not another one.

What is needed to recognise a repetition stands on the object itself, as annotations: a digest of
the key and its owner, and one of the request. So it holds across gateways and their restarts, and
for as long as the object is there. A key belongs to a user: nobody learns anything by guessing
somebody else's.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import orjson

from corral.client.errors import BadRequest, Invalid
from corral.client.kinds import JobKind
from corral.client.phases import section, text
from corral.kube.types import Obj

__all__ = ["KEY_ANNOTATION", "REQUEST_ANNOTATION", "Idempotency"]

KEY_ANNOTATION: Final = "corral.dev/idempotency-key"
"""A digest of the user, the kind, the namespace and the key."""
REQUEST_ANNOTATION: Final = "corral.dev/idempotency-request"
"""A digest of the body that the object was created from."""
_LONGEST: Final = 255
_GENERATED: Final = 10
"""Characters that a generated name gets from the key."""


@dataclass(frozen=True, slots=True)
class Idempotency:
    """One key and the request that came with it."""

    key: str
    """A digest; the key itself is not kept."""
    request: str

    @classmethod
    def of(cls, key: str, *, user: str, kind: JobKind, namespace: str, obj: Obj) -> Idempotency:
        """Raises BadRequest for keys that are empty, too long or not printable."""
        if not key.strip() or len(key) > _LONGEST or not key.isprintable():
            raise BadRequest(f"an Idempotency-Key has 1 to {_LONGEST} printable characters")
        owner = orjson.dumps([user, kind.qualified, namespace, key])
        body = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
        return cls(sha256(owner).hexdigest(), sha256(body).hexdigest())

    def marked(self, obj: Obj) -> Obj:
        """The object to create; a name to be generated follows from the key.

        One that is no object at all stays as it is, for the API server to refuse.
        """
        metadata = dict(section(obj, "metadata"))
        parts = obj.get("metadata"), metadata.get("annotations")
        if any(part is not None and not isinstance(part, dict) for part in parts):
            return obj
        annotations = {
            **section(metadata, "annotations"),
            KEY_ANNOTATION: self.key,
            REQUEST_ANNOTATION: self.request,
        }
        prefix = text(metadata.get("generateName"))
        if prefix and not metadata.get("name"):
            metadata["name"] = f"{prefix[: 63 - _GENERATED]}{self.key[:_GENERATED]}"
        metadata["annotations"] = annotations
        return {**obj, "metadata": metadata}

    def repeats(self, existing: Obj) -> bool:
        """Whether the object that is there was made by this very request.

        Raises:
            Invalid: it was made with this key, but of another body.
        """
        annotations = section(section(existing, "metadata"), "annotations")
        if annotations.get(KEY_ANNOTATION) != self.key:
            return False
        if annotations.get(REQUEST_ANNOTATION) != self.request:
            raise Invalid(
                "this Idempotency-Key came with another body before",
                hint="use a new key for a new request, and the same body with the same key",
            )
        return True

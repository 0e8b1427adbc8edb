"""Validation of the built-in kinds: the rules of the API, with the texts it gives for breaches.

``validate_create``, ``validate_update`` and ``validate_status_update`` return every breach of an
object that is already normalised and defaulted, in the order the reference server lists them;
an empty list means the object may be stored. Nothing here does I/O or changes its input. The
rules of a kind are declared in the package of its family as ``KINDS``, most of them as tables in
the vocabulary of ``fields.check``; ``registry`` collects them.
"""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.meta import (
    validate_object_meta,
    validate_object_meta_update,
)
from corral.cluster.apiserver.builtin.validation.pods.updates import validate_ephemeral_containers
from corral.cluster.apiserver.builtin.validation.registry import (
    validate_create,
    validate_status_update,
    validate_update,
)

__all__ = [
    "validate_create",
    "validate_ephemeral_containers",
    "validate_object_meta",
    "validate_object_meta_update",
    "validate_status_update",
    "validate_update",
]

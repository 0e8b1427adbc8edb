"""Validation of the built-in kinds: the rules of the API, with the texts it gives for breaches.

``validate_create``, ``validate_update`` and ``validate_status_update`` return every breach of an
object that is already normalised and defaulted, in the order the reference server lists them;
an empty list means the object may be stored. Nothing here does I/O or changes its input. The
rules of a kind live in the module named after its family; ``registry`` ties them to kinds.
"""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.autoscaling import validate_scale
from corral.cluster.apiserver.builtin.validation.meta import (
    validate_object_meta,
    validate_object_meta_update,
)
from corral.cluster.apiserver.builtin.validation.names import (
    NameRule,
    name_any,
    name_is_1035_label,
    name_is_label,
    name_is_path_segment,
    name_is_subdomain,
)
from corral.cluster.apiserver.builtin.validation.pod_updates import validate_ephemeral_containers
from corral.cluster.apiserver.builtin.validation.registry import (
    rules_for,
    validate_create,
    validate_status_update,
    validate_update,
)
from corral.cluster.apiserver.builtin.validation.reviews import (
    validate_access_review,
    validate_binding,
    validate_eviction,
    validate_token_request,
    validate_token_review,
)

__all__ = [
    "NameRule",
    "name_any",
    "name_is_1035_label",
    "name_is_label",
    "name_is_path_segment",
    "name_is_subdomain",
    "rules_for",
    "validate_access_review",
    "validate_binding",
    "validate_create",
    "validate_ephemeral_containers",
    "validate_eviction",
    "validate_object_meta",
    "validate_object_meta_update",
    "validate_scale",
    "validate_status_update",
    "validate_token_request",
    "validate_token_review",
    "validate_update",
]

"""What the server does around a write of one kind, and the generic way of doing it.

A strategy never validates and never does I/O. ``prepare_*`` methods change the new object in
place (values are shared with the old one, which they leave alone); they expect it defaulted and
with its name and uid set. Most kinds are plain instances of ``Strategy`` with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from corral.kube.types import Obj

from .podwarnings import name_warnings, template_warnings

__all__ = ["Getter", "Path", "Strategy", "at", "count_at", "restore", "rfc3339_now", "truth_at"]

Path: TypeAlias = tuple[str, ...]
Getter: TypeAlias = Callable[[Obj], str]

_STATUS: tuple[Path, ...] = (("status",),)
_SPEC: tuple[Path, ...] = (("spec",),)
_NOT_CONTENT = frozenset({"apiVersion", "kind", "metadata"})
_STATUS_META = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")
_REPLACED_BY_WRITE = ("managedFields", "resourceVersion")


def rfc3339_now() -> str:
    """The time in the form of metav1.Time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(*path: str) -> Getter:
    """A getter of a string field; empty where the field is absent."""
    *parents, last = path

    def get(obj: Obj) -> str:
        for key in parents:
            obj = obj.get(key) or {}
        return str(obj.get(last) or "")

    return get


def count_at(*path: str) -> Getter:
    """A getter of a number, zero where absent."""
    get = at(*path)
    return lambda obj: get(obj) or "0"


def truth_at(*path: str) -> Getter:
    """A getter of a switch."""
    get = at(*path)
    return lambda obj: "true" if get(obj) else "false"


def restore(new: Obj, old: Obj, key: str) -> None:
    """Give ``new`` the value of a key that ``old`` has, or none."""
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


@dataclass(kw_only=True, eq=False)
class Strategy:
    """The behaviour of one kind around writes; the defaults here are the common case."""

    group: str
    kind: str
    initial_status: Obj | None = None
    """Status of a new object; None where the kind has none, or leaves it to the client."""
    first_generation: bool = False
    """Whether a new object gets generation 1."""
    generation_of: tuple[str, ...] = ()
    """Top-level keys whose change makes a new generation."""
    status_metadata: str = "own"
    """Whose metadata a status write keeps: its ``own``, the old ``labels``, all but bookkeeping
    from the ``old`` object, or ``reset`` (labels, annotations, finalizers and owners are old)."""
    resets: tuple[Path, ...] | None = None
    """Paths a main write never owns; by default status, where the strategy resets it."""
    status_resets: tuple[Path, ...] | None = None
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    graceful_delete: bool = False
    supports_propagation: bool = True
    """Whether the garbage collector knows the kind; events never get its finalizers."""
    orphans_by_default_in: str = ""
    """The group/version through which a delete without a policy orphans dependents."""
    selectors: Mapping[str, Getter] = field(default_factory=dict)
    """Field selectors beside the name and the namespace."""
    only_own_selectors: bool = False
    """Whether the kind refuses ``metadata.namespace`` and words its refusal itself."""
    selector_refusal: str = ""
    """Text for an unsupported selector, ``{}`` being its label."""
    template_path: Path = ()
    """Where the kind keeps a pod template."""
    name_becomes: str = ""
    """What else the name is used for, where a dot in it surprises: ``Pod names and hostnames``."""
    deprecation: str = ""
    """Warning given on every request for the kind."""
    now: Callable[[], str] = rfc3339_now

    def __post_init__(self) -> None:
        own = {} if self.only_own_selectors else {"metadata.namespace": at("metadata", "namespace")}
        self._getters: dict[str, Getter] = {
            "metadata.name": at("metadata", "name"),
            **own,
            **self.selectors,
        }
        self.field_names = frozenset(self._getters)

    # Preparing writes

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        """Initialise what clients may not set; returns warnings met on the way."""
        if self.initial_status is not None:
            obj["status"] = {
                key: dict(value) if isinstance(value, dict) else value
                for key, value in self.initial_status.items()
            }
        if self.first_generation:
            obj["metadata"]["generation"] = 1
        return ()

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Undo changes a main write may not make, and count generations."""
        self.keep_generation(new, old)
        if self.initial_status is not None:
            restore(new, old, "status")
        if self.generation_of and self.is_new_generation(new, old):
            self.bump_generation(new, old)

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        """Undo changes a status write may not make."""
        self.keep_generation(new, old)
        restore(new, old, "spec")
        if self.status_metadata == "labels":
            restore(new["metadata"], old["metadata"], "labels")
        elif self.status_metadata == "reset":
            reset_metadata(new["metadata"], old["metadata"])
        elif self.status_metadata == "old":
            kept = {k: v for k, v in new["metadata"].items() if k in _REPLACED_BY_WRITE}
            new["metadata"] = {
                **{k: v for k, v in old["metadata"].items() if k not in _REPLACED_BY_WRITE},
                **kept,
            }

    def is_new_generation(self, new: Obj, old: Obj) -> bool:
        return any(new.get(key) != old.get(key) for key in self.generation_of)

    @staticmethod
    def keep_generation(new: Obj, old: Obj) -> None:
        restore(new["metadata"], old["metadata"], "generation")

    @staticmethod
    def bump_generation(new: Obj, old: Obj) -> None:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    # Warnings

    def warnings_create(self, obj: Obj) -> list[str]:
        """Warnings for a prepared new object."""
        warnings = self.warnings_name(obj) if self.name_becomes else []
        if self.template_path:
            warnings += template_warnings(self.template_path, obj)
        return warnings + self.warnings_common(obj)

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        """Warnings for a prepared update; templates are looked at in new generations only."""
        warnings: list[str] = []
        if self.template_path and self.template_changed(new, old):
            warnings = template_warnings(self.template_path, new)
        return warnings + self.warnings_common(new)

    def template_changed(self, new: Obj, old: Obj) -> bool:
        return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))

    def warnings_name(self, obj: Obj) -> list[str]:
        return name_warnings(obj["metadata"].get("name") or "", self.name_becomes)

    def warnings_common(self, obj: Obj) -> list[str]:
        """Warnings given on create and update alike."""
        return []

    # Deleting

    def graceful_period(self, obj: Obj, requested: int | None) -> int:
        """Seconds an object is given to end; meaningful where ``graceful_delete`` is set."""
        return 0

    def default_propagation(self, obj: Obj, gvk: tuple[str, str, str]) -> str:
        """What happens to dependents when the delete does not say: Background or Orphan."""
        group, version, _ = gvk
        through = f"{group}/{version}" if group else version
        return "Orphan" if self.orphans_by_default_in == through else "Background"

    # Field selectors and server-side apply

    def selectable_fields(self, obj: Obj) -> dict[str, str]:
        return {name: get(obj) for name, get in self._getters.items()}

    def field_value(self, obj: Obj, name: str) -> str:
        """One selectable field; raises KeyError on an unsupported one."""
        return self._getters[name](obj)

    def unsupported_field(self, label: str) -> str:
        """Why a field selector is refused."""
        if self.selector_refusal:
            return self.selector_refusal.format(label)
        known = 'only "metadata.name", "metadata.namespace"'
        return f'"{label}" is not a known field selector: {known}'

    @property
    def reset_fields(self) -> list[Path]:
        """Paths that a main write never gives to a field manager."""
        if self.resets is not None:
            return list(self.resets)
        return list(_STATUS if self.initial_status is not None else ())

    @property
    def status_reset_fields(self) -> list[Path]:
        """Paths that a status write never gives to a field manager."""
        if self.status_resets is not None:
            return list(self.status_resets)
        if self.status_metadata in ("reset", "old"):
            return [("metadata",), *_SPEC]
        if self.status_metadata == "labels":
            return [*_SPEC, ("metadata", "labels")]
        return list(_SPEC)


def content(obj: Obj) -> dict[str, Any]:
    """Everything of an object but its type and metadata."""
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT}


def reset_metadata(new: Obj, old: Obj) -> None:
    """Take back every change of metadata that a subresource write may not make."""
    for key in _STATUS_META:
        restore(new, old, key)
    restore(new, old, "generation")

"""How admission refuses: 403 with the name the client knows the object by."""

from __future__ import annotations

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.kube import errors

__all__ = ["join", "name_before_generation", "refuse", "refuse_early"]

_SUFFIX = 5


def refuse(request: AdmissionRequest, why: str) -> errors.Forbidden:
    """The refusal of a validating plugin."""
    info = request.kind.info
    return say.forbidden(info.group, info.plural, request.name or "Unknown", why)


def refuse_early(request: AdmissionRequest, why: str) -> errors.Forbidden:
    """The refusal of a mutating plugin, which runs before names are generated."""
    info = request.kind.info
    name = name_before_generation(request)
    if not name:
        meta = (request.object or {}).get("metadata") or {}
        name = meta.get("generateName") or "Unknown"
    return say.forbidden(info.group, info.plural, name, why)


def name_before_generation(request: AdmissionRequest) -> str:
    """The name the client gave; empty where it asked for a generated one."""
    name = request.name
    if request.operation == "CREATE" and not request.subresource:
        base = ((request.object or {}).get("metadata") or {}).get("generateName")
        if base and len(name) == min(len(base), 58) + _SUFFIX and name.startswith(base[:58]):
            return ""
    return name


def join(problems: list[str]) -> str:
    """Several errors as Kubernetes prints an aggregate."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"

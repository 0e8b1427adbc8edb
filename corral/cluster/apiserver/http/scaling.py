"""The scale subresource: one number of an object, seen and written as an object of its own."""

from __future__ import annotations

from collections.abc import Callable

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.apply import parent_entries, scale_entries
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.write import Change, check_name, check_namespace
from corral.cluster.apiserver.http.bodies import decode_object
from corral.cluster.apiserver.http.options import APPLY
from corral.cluster.apiserver.http.patching import patcher
from corral.cluster.apiserver.kinds import BuiltinKind
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.cluster.apiserver.resources import ResourceInfo
from corral.kube.types import Obj

SCALE = BuiltinKind(ResourceInfo("autoscaling", "v1", "scales", "scale", "Scale", True))
"""Decodes, patches and tracks Scales; they are stored nowhere."""


def scale_update(
    info: RequestInfo, kind: Kind, body: bytes, media: str, context: Context, now: Callable[[], str]
) -> Change:
    """The change of the object that a PUT of its Scale stands for."""
    decode_object(SCALE, body, media, context)
    return _through(
        info, kind, lambda live: decode_object(SCALE, body, media, context), _tracked(context, now)
    )


def scale_patch(
    info: RequestInfo,
    kind: Kind,
    body: bytes,
    patch_type: str,
    context: Context,
    now: Callable[[], str],
) -> Change:
    """The change of the object that a patch of its Scale stands for."""
    change = patcher(SCALE, body, patch_type, context, subresource="scale", now=now)
    track = _untouched if patch_type == APPLY else _tracked(context, now)
    return _through(info, kind, change, track)


_Track = Callable[[Obj, Obj], None]


def _tracked(context: Context, now: Callable[[], str]) -> _Track:
    def track(old: Obj, new: Obj) -> None:
        SCALE.track(old, new, manager=context.manager, now=now(), subresource="scale")

    return track


def _untouched(old: Obj, new: Obj) -> None:
    """An apply has recorded ownership already."""


def _through(info: RequestInfo, kind: Kind, change: Change, track: _Track) -> Change:
    """Show the object as a Scale, change that, and take the result back into the object."""

    def through(live: Obj | None) -> Obj:
        assert live is not None
        meta = live["metadata"]
        entries = meta.get("managedFields") or []
        paths = {kind.info.api_version: kind.replicas_path}
        old, given = kind.get_scale(live, absent=0), kind.get_scale(live, absent=0)
        for scale in (old, given):
            scale["metadata"]["managedFields"] = scale_entries(entries, replicas_paths=paths)
        new = change(given)
        check_namespace(SCALE, info.namespace, new)
        check_name(new, info.name)
        track(old, new)
        _check(info, kind, new, live)
        kind.set_scale(live, (new.get("spec") or {}).get("replicas", 0))
        owned = parent_entries(
            entries,
            new["metadata"].get("managedFields") or [],
            api_version=kind.info.api_version,
            replicas_paths=paths,
        )
        meta["managedFields"] = owned
        if not owned:
            del meta["managedFields"]
        if new["metadata"].get("resourceVersion"):
            meta["resourceVersion"] = new["metadata"]["resourceVersion"]
        return live

    return through


def _check(info: RequestInfo, kind: Kind, scale: Obj, live: Obj) -> None:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0 and not kind.info.custom:  # custom kinds say so themselves
        problem = say.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise say.invalid("autoscaling", "Scale", info.name, [problem])
    uid, own = scale["metadata"].get("uid"), live["metadata"]["uid"]
    if uid and uid != own:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
        raise say.conflict(kind.info.group, f"{kind.info.plural}/scale", info.name, why)

"""Endpoints and EndpointSlices that may point at 127.0.0.0/8.

kube-apiserver refuses such addresses, since every machine has its own. Where all nodes are on one
machine and its pods have loopback addresses, they are as good as any; a server that is told so uses
these kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.cluster.apiserver.builtin.validation.fields.addresses import LOOPBACK_REFUSED
from corral.cluster.apiserver.errors import FieldError
from corral.cluster.apiserver.kinds import BuiltinKind
from corral.kube.types import Obj

__all__ = ["LOOPBACK_KINDS", "LoopbackKind"]


class LoopbackKind(BuiltinKind):
    """A kind whose validation lets IPv4 loopback addresses pass, and nothing else."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        return _without_loopback(super().validate_create(obj))

    def validate_update(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]:
        return _without_loopback(super().validate_update(new, old, subresource))


def _without_loopback(problems: Iterable[FieldError]) -> list[FieldError]:
    return [
        one
        for one in problems
        if not (one.body.startswith('Invalid value: "127.') and one.body.endswith(LOOPBACK_REFUSED))
    ]


LOOPBACK_KINDS: Final = {
    ("", "Endpoints"): LoopbackKind,
    ("discovery.k8s.io", "EndpointSlice"): LoopbackKind,
}

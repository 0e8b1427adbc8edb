"""The definitions of both kinds of PodGroup, for clusters that have none.

They accept what clients of the two schedulers write: the fields and their types are those of the
public APIs.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib import resources

import orjson

from corral.kube.types import Obj

__all__ = ["crds"]


@cache
def _definitions() -> tuple[Obj, ...]:
    data = resources.files(__package__).joinpath("definitions.json").read_bytes()
    return tuple(orjson.loads(data))


def crds() -> list[Obj]:
    """CustomResourceDefinitions of PodGroups: of scheduling.volcano.sh, scheduling.x-k8s.io."""
    return copy.deepcopy(list(_definitions()))

"""PropletGroups: which proplets there are (`proplets`), and who gets a task (`choosing`).

`pools` knows the proplets and loads of the whole cluster; tasks ask it. Names are loaded when first
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.families.federated.groups.family import register
    from corral.families.federated.groups.pools import Pools

__all__ = ["Pools", "register"]

__getattr__ = lazily(__name__, {"pools": "Pools", "family": "register"})

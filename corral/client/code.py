"""ConfigMaps with the source code of a job: they go when the job goes, and outlive its restart.

A restart deletes the job and creates it anew. What belongs to the deleted one would be collected,
so its code is let go before and given to the new one after. Whoever may not do that restarts a job
whose code is not in ConfigMaps all the same.
"""

from __future__ import annotations

from typing import Final

from corral.kube.client import KubeClient
from corral.kube.errors import Forbidden, NotFound
from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj

__all__ = ["CODE_OF", "give_code", "let_go_of_code", "owner_of"]

CODE_OF: Final = "corral.dev/code-of"
"""Label of the ConfigMaps of a job: its name."""


async def let_go_of_code(client: KubeClient, job: Obj) -> list[str]:
    """Take the ConfigMaps from the job; their names."""
    meta = job["metadata"]
    try:
        found = await client.list_all(
            CONFIGMAPS, meta["namespace"], label_selector=f"{CODE_OF}={meta['name'][:63]}"
        )
    except Forbidden:
        return []
    names = []
    for obj in found["items"]:
        owners = obj["metadata"].get("ownerReferences") or []
        others = [owner for owner in owners if owner["uid"] != meta["uid"]]
        if len(others) < len(owners) and await _owned(client, obj["metadata"], others):
            names.append(obj["metadata"]["name"])
    return names


async def give_code(client: KubeClient, job: Obj, names: list[str]) -> None:
    """Give the ConfigMaps to the job that was made anew."""
    namespace = job["metadata"]["namespace"]
    for name in names:
        await _owned(client, {"name": name, "namespace": namespace}, [owner_of(job)])


def owner_of(job: Obj) -> Obj:
    """The reference by which what is made for a job goes when it goes."""
    meta = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


async def _owned(client: KubeClient, meta: Obj, owners: list[Obj]) -> bool:
    """Whether it could be given these owners."""
    patch = {"metadata": {"ownerReferences": owners or None}}
    try:
        await client.patch(CONFIGMAPS, meta["name"], namespace=meta["namespace"], patch=patch)
    except (Forbidden, NotFound):
        return False
    return True

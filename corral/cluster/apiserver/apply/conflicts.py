"""The conflict a server-side apply runs into: which fields, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corral.cluster.apiserver.apply.fields import show_path
from corral.cluster.apiserver.apply.managers import Identity, written_identity
from corral.kube import errors


class Clash(NamedTuple):
    """One field that somebody else owns and the configuration would change."""

    owner: Identity
    path: tuple[str, ...]


def conflict_error(clashes: Sequence[Clash]) -> errors.Conflict:
    """409 with a cause for every field."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_show(clash.owner)}",
            "field": show_path(clash.path),
        }
        for clash in clashes
    ]
    return errors.Conflict(_message(clashes), details={"causes": causes})


def _message(clashes: Sequence[Clash]) -> str:
    if len(clashes) == 1:
        owner, path = clashes[0]
        shown = show_path(path)
        return f"Apply failed with 1 conflict: conflict with {_show(owner)}: {shown}"
    owned: dict[Identity, list[str]] = {}
    for clash in clashes:
        owned.setdefault(clash.owner, []).append(f"- {show_path(clash.path)}")
    lines: list[str] = []
    for owner in sorted(owned, key=written_identity):
        lines += (f"conflicts with {_show(owner)}:", *owned[owner])
    return f"Apply failed with {len(clashes)} conflicts: " + "\n".join(lines)


def _show(owner: Identity) -> str:
    manager, operation, version, subresource = owner
    text = f'"{manager}"'
    if subresource:
        text += f' with subresource "{subresource}"'
    return f"{text} using {version}" if operation == "Update" else text

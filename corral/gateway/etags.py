"""ETags: which version of which object a caller has seen.

An ETag names the object by its uid and the version by its resource version, so that an object that
was deleted and created anew under the same name never matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.client.errors import BadRequest, PreconditionFailed
from corral.client.phases import section, text
from corral.kube.types import Obj

__all__ = ["ETags", "etag_of", "read_etags"]

_LISTED: Final = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*(?:,|$)')
_LONGEST: Final = 4096


def etag_of(obj: Obj) -> str:
    """The strong ETag of an object, with its quotes."""
    metadata = section(obj, "metadata")
    return f'"{text(metadata.get("uid"))}.{text(metadata.get("resourceVersion"))}"'


@dataclass(frozen=True, slots=True)
class ETags:
    """What ``If-Match`` or ``If-None-Match`` said."""

    any: bool = False
    """``*``: whatever there is."""
    tags: tuple[str, ...] = ()
    """With their quotes, and ``W/`` before weak ones."""

    def holds(self, obj: Obj) -> bool:
        """Strong comparison, for ``If-Match``: weak tags never match."""
        return self.any or etag_of(obj) in self.tags

    def holds_weakly(self, obj: Obj) -> bool:
        """Weak comparison, for ``If-None-Match``."""
        plain = {tag.removeprefix("W/") for tag in self.tags}
        return self.any or etag_of(obj) in plain

    def demand(self, obj: Obj) -> None:
        """Raises PreconditionFailed where the object is another than the caller has seen."""
        if not self.holds(obj):
            raise PreconditionFailed(
                "the object has changed since it was read",
                hint="read it again, look at the change, and repeat with the new ETag",
            )


def read_etags(header: str | None) -> ETags | None:
    """The tags of a header; none where there is no header.

    Raises:
        BadRequest: the header is no list of ETags.
    """
    if header is None or not header.strip():
        return None
    if header.strip() == "*":
        return ETags(any=True)
    tags, at = [], 0
    while at < len(header):
        found = _LISTED.match(header, at)
        if found is None or len(header) > _LONGEST:
            raise BadRequest(
                "If-Match and If-None-Match take ETags in double quotes, with commas between",
                hint="send the ETag header of an answer as it is",
            )
        tags.append(f'{found.group(1) or ""}"{found.group(2)}"')
        at = found.end()
    return ETags(tags=tuple(tags))

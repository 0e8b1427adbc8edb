"""When an image is pulled, if its container does not say."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["pull_policy"]

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Always for the tag ``latest`` (said or implied), IfNotPresent for everything else."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag, digest = match.group("tag"), match.group("digest")
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"

"""References to artifacts, as in ``oci://host[:port]/repository[:tag][@sha256:…]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from corral.oci.errors import InvalidReference

__all__ = ["DEFAULT_TAG", "SCHEME", "Reference", "is_digest", "is_repository", "is_tag"]

SCHEME: Final = "oci://"
DEFAULT_TAG: Final = "latest"
"""Meant by a reference with neither a tag nor a digest."""

_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST: Final = 255
"""Characters of a host and repository."""


def is_repository(text: str) -> bool:
    return len(text) <= _LONGEST and _REPOSITORY.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether it is a digest of the one algorithm that we take: SHA-256."""
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """Where an artifact is. The digest counts where there is one; the tag is then a remark."""

    registry: str
    """Host and port, as written."""
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; without the scheme its first part must look like a host.

        Raises:
            InvalidReference: it is none.
        """
        named = text.removeprefix(SCHEME)
        registry, slash, rest = named.partition("/")
        if not slash or not _HOST.fullmatch(registry):
            raise _invalid(text, "it must begin with a registry: oci://HOST[:PORT]/REPOSITORY")
        if named == text and not _is_host(registry):
            raise _invalid(text, f"{registry!r} is no host; write oci://{registry}/… if it is")
        rest, at, digest = rest.partition("@")
        if at and not is_digest(digest):
            raise _invalid(text, "its digest must be sha256: and 64 hexadecimal digits")
        repository, colon, tag = rest.partition(":")
        if colon and not is_tag(tag):
            raise _invalid(text, "its tag must be letters, digits, '.', '_' and '-', at most 128")
        if not is_repository(repository):
            raise _invalid(text, "its repository must be lower-case names with '/' between them")
        return cls(registry, repository, tag, digest)

    @property
    def target(self) -> str:
        """What to ask the registry for."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def name(self) -> str:
        """The registry and the repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    def with_digest(self, digest: str) -> Reference:
        """The same, fixed to some bytes; the tag stays as a remark."""
        if not is_digest(digest):
            raise InvalidReference(f"{digest!r} is no SHA-256 digest")
        return replace(self, digest=digest)

    def with_tag(self, tag: str) -> Reference:
        """Another tag of the same repository, with no digest."""
        if not is_tag(tag):
            raise InvalidReference(f"{tag!r} cannot be a tag")
        return replace(self, tag=tag, digest="")

    @property
    def image(self) -> str:
        """As containers name it: without ``oci://``."""
        return str(self).removeprefix("oci://")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.name}{tag}{digest}"


def _is_host(registry: str) -> bool:
    return registry == "localhost" or "." in registry or ":" in registry


def _invalid(text: str, why: str) -> InvalidReference:
    return InvalidReference(f"{text[:300]!r} is no reference of an artifact: {why}")

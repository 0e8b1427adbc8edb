"""What a registry refuses, with the codes of the distribution specification."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Refused", "digest_invalid", "name_unknown", "too_large", "unknown_blob"]


class Refused(Exception):
    """An answer that is an error; the words are for people."""

    def __init__(
        self, status: int, code: str, words: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(words)
        self.status = status
        self.code = code
        self.words = words
        self.headers = dict(headers or {})


def digest_invalid(words: str) -> Refused:
    return Refused(400, "DIGEST_INVALID", words)


def unknown_blob(digest: str) -> Refused:
    return Refused(404, "BLOB_UNKNOWN", f"this repository has no blob {digest}")


def name_unknown(repository: str) -> Refused:
    return Refused(404, "NAME_UNKNOWN", f"there is no repository {repository}")


def too_large(words: str) -> Refused:
    return Refused(413, "SIZE_INVALID", words)

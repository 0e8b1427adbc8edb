"""File paths inside volumes and containers."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors

__all__ = ["check_local_path", "check_no_backsteps", "check_unreserved_path"]


def check_no_backsteps(errs: Errors, text: str, path: str) -> None:
    if ".." in text and ".." in text.split("/"):
        errs.invalid(path, text, "must not contain '..'")


def check_local_path(errs: Errors, text: str, path: str) -> None:
    """A relative path that stays below its root."""
    if text.startswith("/"):
        errs.invalid(path, text, "must be a relative path")
    check_no_backsteps(errs, text, path)


def check_unreserved_path(errs: Errors, text: str, path: str) -> None:
    """A local path that does not use the names the node keeps for itself."""
    check_local_path(errs, text, path)
    if text.startswith("..") and not text.startswith("../"):
        errs.invalid(path, text, "must not start with '..'")

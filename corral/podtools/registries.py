"""Registries as programs of pods use them: named by variables, tried until they answer."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from corral.oci import Credentials, Registries

__all__ = ["PATIENCE", "print_line", "registries_of", "retried"]

T = TypeVar("T")

PATIENCE: Final = 240.0
"""Seconds for which a registry that does not answer is tried."""


def registries_of(env: Mapping[str, str], logins: Credentials) -> Registries:
    """The registries of ``CORRAL_REGISTRIES``, with the pod's own token for Corral's."""
    from corral.oci import Registries, endpoints

    pairs = json.loads(env.get("CORRAL_REGISTRIES") or "{}")
    file = Path(env.get("CORRAL_REGISTRY_TOKEN") or "/nowhere")
    token = (lambda: file.read_text().strip()) if file.is_file() else None
    mapping = endpoints([f"{name}={url}" for name, url in pairs.items()], token=token)
    return Registries(mapping, logins)


async def retried(
    work: Callable[[], Awaitable[T]],
    *,
    log: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    patience: float = PATIENCE,
) -> T:
    """Do it, and again while the registry does not answer.

    Raises:
        Unavailable: it has not answered for too long.
    """
    from corral.oci import Unavailable

    end = clock() + patience
    while True:
        try:
            return await work()
        except Unavailable as error:
            if clock() >= end:
                raise
            log(f"the registry does not answer, trying again: {error}")
            await asyncio.sleep(1.0)


def print_line(text: str) -> None:
    """Print at once, for whoever follows the log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

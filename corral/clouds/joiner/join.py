"""Make a VM a node of a Kubernetes cluster with kubeadm over SSH.

For each VM a fresh token is written, used and taken back, whatever happens. The token is sent only
to a machine that has shown the host key we know, and checks the cluster's CA by its hash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from corral.clouds.joiner import ssh
from corral.clouds.joiner.kubeadm import (
    ALREADY,
    JOINED,
    TIMED_OUT,
    Cluster,
    configuration,
    redacted,
    script,
)
from corral.clouds.joiner.tokens import BootstrapToken

__all__ = [
    "HostKeyRefused",
    "JoinError",
    "JoinRefused",
    "JoinSettings",
    "KeyNotAccepted",
    "NotReachable",
    "TokenStore",
    "join",
]

logger = logging.getLogger(__name__)


class JoinError(Exception):
    """The VM is not a node; the message says why."""


class NotReachable(JoinError):
    """Nobody answered on the SSH port in all the time allowed."""


class KeyNotAccepted(JoinError):
    """The VM did not let us in in all the time allowed."""


class HostKeyRefused(JoinError):
    """Somebody else than the VM answered; nothing was sent."""


class JoinRefused(JoinError):
    """kubeadm ran and said no."""


class TokenStore(Protocol):
    """Where the API server looks for bootstrap tokens."""

    async def put(self, token: BootstrapToken, vm: str) -> None:
        """Make the token good until it expires."""
        ...

    async def remove(self, token: BootstrapToken) -> None:
        """Make it good for nothing; one that is not there is so already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """How long things may take."""

    boot_s: float = 300.0
    """Until the VM lets us in."""
    join_s: float = 300.0
    """For kubeadm, from then on."""
    pause_s: float = 3.0
    """Seconds between two attempts to connect."""
    clock: Callable[[], float] = field(default=time.time)
    pause: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)


_MARGIN_S: Final = 60.0


async def join(
    vm: str,
    login: ssh.Login,
    cluster: Cluster,
    tokens: TokenStore,
    settings: JoinSettings | None = None,
    *,
    given_token: BootstrapToken | None = None,
) -> bool:
    """Join one VM under its own name; False when it had joined before.

    ``given_token`` is one that somebody else made and looks after: it is used and left alone.

    Raises:
        JoinError: it did not join.
        BadRequest: login or cluster cannot be right; nothing was tried.
    """
    how = settings or JoinSettings()
    login.checked()
    await _let_in(vm, login, how)
    lifetime = how.join_s + _MARGIN_S
    token = given_token or BootstrapToken.fresh(now=how.clock(), lifetime_s=lifetime)
    given = configuration(cluster, token, vm)
    if given_token is None:
        await tokens.put(token, vm)
    try:
        done = await ssh.run(login, script(how.join_s), given, limit_s=how.join_s + _MARGIN_S / 2)
    except TimeoutError as error:
        raise JoinRefused(f"kubeadm on {vm} did not end within {how.join_s:g} s") from error
    except ssh.SshError as error:
        raise NotReachable(f"the connection to {vm} was lost while it joined: {error}") from error
    finally:
        if given_token is None:
            await asyncio.shield(tokens.remove(token))
    if done.status == 0 and JOINED in done.output:
        logger.info("VM %s joined with token %s", vm, token)
        return True
    if done.status == 0 and ALREADY in done.output:
        return False
    if done.status == TIMED_OUT:
        raise JoinRefused(f"kubeadm on {vm} did not end within {how.join_s:g} s")
    words = redacted(done.errors or done.output, token)
    raise JoinRefused(f"kubeadm on {vm} ended with {done.status}: {words}")


async def _let_in(vm: str, login: ssh.Login, how: JoinSettings) -> None:
    """Knock until the VM opens: it may still boot, and may not have our key yet."""
    until = how.clock() + how.boot_s
    while True:
        try:
            await ssh.run(login, "true", "", limit_s=login.connect_s + 10)
            return
        except ssh.HostKeyMismatch as error:
            raise HostKeyRefused(
                f"what answers at {login.host}:{login.port} is not {vm}: {error}"
            ) from error
        except (ssh.KeyRefused, ssh.Unreachable, TimeoutError) as error:
            if how.clock() >= until:
                kind = KeyNotAccepted if isinstance(error, ssh.KeyRefused) else NotReachable
                raise kind(f"{vm} did not let us in within {how.boot_s:g} s: {error}") from error
        await how.pause(how.pause_s)

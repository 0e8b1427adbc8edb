"""Credentials from an exec plugin (``client.authentication.k8s.io/v1`` and ``v1beta1``).

The plugin runs when a credential is first needed, when the last one has expired, and when the
server refused it; never twice at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from corral.kube.connection.config import ConfigError, ExecPlugin
from corral.kube.connection.credentials import Credential
from corral.kube.times import parse_datetime

__all__ = ["ExecSource"]

EXEC_INFO_ENV = "KUBERNETES_EXEC_INFO"


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _now() -> datetime:
    return datetime.now(UTC)


class ExecSource:
    """Runs the plugin and keeps what it said until that expires."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Callable[[], datetime] = _now,
        environ: Mapping[str, str] | None = None,
        is_terminal: Callable[[], bool] = _stdin_is_terminal,
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._environ = environ
        self._is_terminal = is_terminal
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None

    async def current(self) -> Credential:
        if self._credential is not None and not self._expired():
            return self._credential
        async with self._lock:
            if self._credential is None or self._expired():
                await self._refresh()
        assert self._credential is not None
        return self._credential

    async def renew(self, refused: Credential) -> bool:
        async with self._lock:
            # Somebody else may have renewed it while this request was on its way.
            if self._credential is refused:
                await self._refresh()
        return True

    def _expired(self) -> bool:
        return self._expires is not None and self._clock() >= self._expires

    async def _refresh(self) -> None:
        interactive = self._interactive()
        output = await self._run(interactive)
        self._credential, self._expires = parse_credential(output, self._plugin)

    def _interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        terminal = self._is_terminal()
        if mode == "Always" and not terminal:
            raise ConfigError(
                f"exec plugin {self._plugin.command} needs a terminal (interactiveMode Always): "
                "run from a terminal or use another way to log in"
            )
        return terminal

    async def _run(self, interactive: bool) -> bytes:
        plugin = self._plugin
        env = dict(os.environ if self._environ is None else self._environ)
        env.update(plugin.env)
        env[EXEC_INFO_ENV] = exec_info(plugin, interactive=interactive)
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=env,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as e:
            hint = " ".join(plugin.install_hint.split())
            tail = f": {hint}" if hint else ": install it or correct `exec.command`"
            raise ConfigError(f"cannot run exec plugin {plugin.command}: {e.strerror}{tail}") from e
        try:
            output, _ = await process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise ConfigError(
                f"exec plugin {plugin.command} failed with exit code {process.returncode}: "
                "run it by hand to see why"
            )
        return output


def exec_info(plugin: ExecPlugin, *, interactive: bool) -> str:
    """The JSON that a plugin is given in ``KUBERNETES_EXEC_INFO``."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = dict(plugin.cluster_info)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    return orjson.dumps(info).decode()


def parse_credential(output: bytes, plugin: ExecPlugin) -> tuple[Credential, datetime | None]:
    """Read what a plugin printed.

    Raises:
        ConfigError: it is not an ``ExecCredential`` of the version asked for, or has no
            credential in it.
    """
    name = f"exec plugin {plugin.command}"
    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError as e:
        raise ConfigError(f"{name} printed no valid JSON: run it by hand to see why") from e
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise ConfigError(f"{name} printed something that is no ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise ConfigError(
            f"{name} is configured to use API version {plugin.api_version}, "
            f"plugin returned version {answer.get('apiVersion')}"
        )
    status = answer.get("status")
    if not status:
        raise ConfigError(f"{name} did not return a status field")
    token = str(status.get("token") or "")
    cert, key = status.get("clientCertificateData") or "", status.get("clientKeyData") or ""
    if bool(cert) != bool(key):
        raise ConfigError(f"{name} returned only certificate or key, not both")
    if not token and not cert:
        raise ConfigError(f"{name} did not return a token or cert/key pair")
    authorization = f"Bearer {token}" if token else ""
    credential = Credential(authorization, cert_data=cert.encode(), key_data=key.encode())
    return credential, _expiry(status.get("expirationTimestamp"), name)


def _expiry(value: Any, name: str) -> datetime | None:
    try:
        return parse_datetime(str(value or ""))
    except ValueError as e:
        raise ConfigError(f"{name} returned an expirationTimestamp that is no time") from e

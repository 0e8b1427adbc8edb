"""The certificate that the gateway serves with: files that somebody gives, or one of our own.

Files are read again when they change, without a restart. Our own certificate is issued by an
authority of our own; both are kept in a folder, and renewed long before they end, so that whoever
trusts the authority (``ca.crt``) need not look at it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from corral.kube.connection.config import ConfigError

__all__ = ["CertificateFiles", "ServerTls", "own_certificate"]

logger = logging.getLogger(__name__)
_CHECK_EVERY: Final = 30.0


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate with its chain, and its key, in PEM."""

    cert: Path
    key: Path

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Tells versions of the files apart."""
        return tuple((s.st_mtime_ns, s.st_ino) for s in (self.cert.stat(), self.key.stat()))


class ServerTls:
    """The TLS context of a server, kept up with its files."""

    def __init__(
        self, files: CertificateFiles, *, renew: Callable[[], object] = lambda: None
    ) -> None:
        """``renew`` makes the files anew where that is due: those of our own.

        Raises ConfigError where the files cannot be used.
        """
        self.files, self._renew = files, renew
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._seen: tuple[tuple[int, int], ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Use the files as they are now. Raises ConfigError; the ones of before stay in use."""
        try:
            stamp = self.files.stamp()
            if stamp == self._seen:
                return
            # A context of its own first: half of a pair must not get into the one at work.
            trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            trial.load_cert_chain(self.files.cert, self.files.key)
            self.context.load_cert_chain(self.files.cert, self.files.key)
        except (OSError, ssl.SSLError) as error:
            detail = f"no usable certificate in {self.files.cert} and {self.files.key}: {error}"
            raise ConfigError(detail) from error
        self._seen = stamp

    async def run(self) -> None:
        """Look after the files for ever."""
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            try:
                await asyncio.to_thread(self._renew)
                await asyncio.to_thread(self.refresh)
            except (ConfigError, OSError) as error:
                logger.warning("%s: going on with the certificate of before", error)


def own_certificate(
    folder: Path,
    hosts: Iterable[str],
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CertificateFiles:
    """A certificate for these names and addresses, kept in the folder and renewed there."""
    from corral.runtime.webhooks.certificates import CertificateSet, advance

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = folder / "certificates.json"
    current = CertificateSet.from_data(_read(state))
    found = advance(current, hosts, now())
    if found is not current:
        import orjson

        _write(state, orjson.dumps(found.as_data()))
    # each by itself: a full disk, or a kill, may have left some of them as they were before
    _keep(folder / "tls.key", found.serving.key)
    _keep(folder / "tls.crt", found.serving.cert)
    _keep(folder / "ca.crt", found.bundle, mode=0o644)
    return CertificateFiles(folder / "tls.crt", folder / "tls.key")


def _keep(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file unless it says that already."""
    with suppress(OSError):  # one that is missing, or cannot be read, is written anew
        if path.read_bytes() == content:
            return
    _write(path, content, mode=mode)


def _read(path: Path) -> dict[str, str]:
    import orjson

    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}  # there is none, or none that could be used: a new one is the remedy
    return found if isinstance(found, dict) else {}


def _write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def listening_hosts(host: str, extra: Sequence[str] = ()) -> list[str]:
    """The names that a server at an address is reached by."""
    import socket

    names = ["localhost", "127.0.0.1", "::1", *extra]
    names.append(socket.gethostname() if host in ("", "0.0.0.0", "::") else host)
    return list(dict.fromkeys(name for name in names if name))

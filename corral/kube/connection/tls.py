"""TLS contexts for a `ClusterConfig`, rebuilt when a certificate file or credential changes.

A new context also means new connections: the pool keys its connections by context, so nothing
sent after a rotation travels over a connection that was opened with the old certificate.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Callable

from corral.kube.connection.config import ClusterConfig, ConfigError
from corral.kube.connection.credentials import Credential

__all__ = ["TlsContexts"]

FILE_CHECK_SECONDS = 60.0
"""How often certificate files are looked at for a change."""

_Fingerprint = tuple[tuple[str, int, int], ...]


class TlsContexts:
    """Gives the context for a credential; keeps exactly one."""

    def __init__(
        self, config: ClusterConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._clock = clock
        self._plain = config.server.startswith("http://")
        self._files = [f for f in (config.ca_file, config.cert_file, config.key_file) if f]
        self._context: ssl.SSLContext | None = None
        self._pair: tuple[bytes, bytes] = (b"", b"")
        self._fingerprint: _Fingerprint = ()
        self._checked_at = 0.0

    def context(self, credential: Credential) -> ssl.SSLContext | None:
        """The context to open connections with; ``None`` for a server without TLS.

        Raises:
            ConfigError: a certificate or key cannot be read.
        """
        if self._plain:
            return None
        pair = (credential.cert_data, credential.key_data)
        if self._context is None or pair != self._pair or self._files_changed():
            self._context = self._build(pair)
            self._pair = pair
        return self._context

    def _files_changed(self) -> bool:
        if not self._files or self._clock() - self._checked_at < FILE_CHECK_SECONDS:
            return False
        self._checked_at = self._clock()
        return self._look() != self._fingerprint

    def _look(self) -> _Fingerprint:
        found = []
        for path in self._files:
            try:
                stat = os.stat(path)
            except OSError:
                # Gone for a moment during a rotation: what was loaded stays in use.
                return self._fingerprint
            found.append((path, stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _build(self, pair: tuple[bytes, bytes]) -> ssl.SSLContext:
        config = self._config
        self._fingerprint = self._look()
        self._checked_at = self._clock()
        context = _verifying_context(config)
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if pair[0]:
            _load_pair(context, pair[0], pair[1])
        elif config.cert_data or config.cert_file:
            _load_configured_pair(context, config)
        return context


def _verifying_context(config: ClusterConfig) -> ssl.SSLContext:
    try:
        if config.ca_data:
            context = ssl.create_default_context(cadata=config.ca_data.decode("ascii"))
        else:
            context = ssl.create_default_context(cafile=config.ca_file or None)
    except (OSError, ValueError) as e:
        what = config.ca_file or "certificate-authority-data"
        raise ConfigError(f"cannot use certificate authority {what}: {e}") from e
    # Cluster CAs made by hand often lack the extensions that the strict mode of Python asks for;
    # kubectl accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _load_configured_pair(context: ssl.SSLContext, config: ClusterConfig) -> None:
    cert, key = config.cert_data, config.key_data
    try:
        if not cert:
            with open(config.cert_file, "rb") as f:
                cert = f.read()
        if not key:
            if not config.key_file:
                raise ConfigError("a client certificate is set without a client key: add one")
            with open(config.key_file, "rb") as f:
                key = f.read()
    except OSError as e:
        raise ConfigError(f"cannot read client certificate {e.filename}: {e.strerror}") from e
    _load_pair(context, cert, key)


def _load_pair(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    # The ssl module reads certificates from files only; this one is readable by us alone and gone
    # at once.
    with tempfile.NamedTemporaryFile(prefix="corral-client-", suffix=".pem") as f:
        f.write(cert.rstrip(b"\n") + b"\n" + key)
        f.flush()
        try:
            context.load_cert_chain(f.name)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError(f"client certificate and key do not load: {e}") from e

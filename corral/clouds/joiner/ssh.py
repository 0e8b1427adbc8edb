"""One command on one machine over OpenSSH's client, its host key checked against what we know.

The system's ``ssh`` and not a library: it is the client that is looked at most, every image of an
operator can have it, and asyncssh's licences (EPL, GPL) are not ours to bring along.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from corral.clouds.errors import BadRequest
from corral.files.temporary import temporary

__all__ = ["HostKeyMismatch", "KeyRefused", "Login", "SshError", "Unreachable", "run"]

_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]*|[0-9a-fA-F:]+")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY: Final = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*")
_MOST: Final = 1 << 20
"""Bytes of output, and as many of errors, that are read of one command."""
_FAILED: Final = 255
"""What ssh itself ends with when it did not get as far as the command."""


class SshError(Exception):
    """No SSH session could be established."""


class HostKeyMismatch(SshError):
    """Somebody else answers: never try again, never send anything."""


class KeyRefused(SshError):
    """The VM does not know our key; early after boot: not yet."""


class Unreachable(SshError):
    """Nobody answers; early after boot: not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to get into one VM."""

    host: str
    port: int = 22
    user: str
    private_key: str = field(repr=False)
    """In OpenSSH's or PEM form, without a passphrase."""
    host_keys: Sequence[str]
    """``type base64`` of every key the VM may show; there must be at least one."""
    connect_s: float = 10.0

    def checked(self) -> Login:
        """The login itself, checked; raises BadRequest if part of it is malformed."""
        if not _HOST.fullmatch(self.host) or not _USER.fullmatch(self.user):
            raise BadRequest(f"cannot log in as {self.user!r} at {self.host!r}")
        if not self.host_keys or not all(_KEY.match(key) for key in self.host_keys):
            raise BadRequest(
                f"no host key of {self.host} is known: without one anybody could answer for it"
            )
        return self


@dataclass(frozen=True, slots=True)
class Done:
    """The exit status and the output of a command."""

    status: int
    output: str
    errors: str


async def run(login: Login, script: str, given: str, *, limit_s: float) -> Done:
    """Run a shell script with ``given`` on its standard input.

    Of what it writes a bounded number of bytes is read: a VM may be anybody's.

    Raises:
        SshError: there was no session.
        TimeoutError: it took longer than the limit; the session is ended.
        BadRequest: the login itself is wrong, or there is no ssh.
    """
    client = shutil.which("ssh")
    if client is None:
        raise BadRequest("no ssh here: install OpenSSH's client")
    with _files(login.checked()) as folder:
        process = await asyncio.create_subprocess_exec(
            client,
            *_options(login, folder),
            f"{login.user}@{login.host}",
            f"sh -c {_quoted(script)}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(folder)},
        )
        try:
            async with asyncio.timeout(limit_s):
                output, errors = await _talk(process, given.encode())
        finally:
            if process.returncode is None:
                await _end(process)
    done = Done(
        process.returncode or 0, output.decode(errors="replace"), errors.decode(errors="replace")
    )
    if done.status == _FAILED:
        raise _failure(done.errors)
    return done


async def _talk(process: asyncio.subprocess.Process, given: bytes) -> tuple[bytes, bytes]:
    """What it writes until it ends. Raises Unreachable: it writes without an end."""
    assert process.stdin and process.stdout and process.stderr
    with suppress(BrokenPipeError, ConnectionResetError):  # it says itself what is wrong
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    readers = [asyncio.ensure_future(_read(each)) for each in (process.stdout, process.stderr)]
    try:
        output, errors = await asyncio.gather(*readers)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    await process.wait()
    return output, errors


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it; what is left in its pipes is thrown away, else waiting for it never ends."""
    process.kill()
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(1 << 16):
            continue
    await process.wait()


async def _read(stream: asyncio.StreamReader) -> bytes:
    """All of a stream. Raises Unreachable: that is too much."""
    pieces, size = [], 0
    while piece := await stream.read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST:
            raise Unreachable(f"the VM writes more than {_MOST} bytes: this is no session with it")
    return b"".join(pieces)


@contextmanager
def _files(login: Login) -> Iterator[Path]:
    """The key and the known hosts, for as long as ssh runs, for nobody else to read."""
    with temporary("ssh") as name:
        folder = Path(name)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(login.private_key.rstrip("\n") + "\n")
        lines = (f"vm {' '.join(each.split()[:2])}\n" for each in login.host_keys)
        (folder / "known_hosts").write_text("".join(lines))
        yield folder


def _options(login: Login, folder: Path) -> list[str]:
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": str(max(1, round(login.connect_s))),
        "ConnectionAttempts": "1",
        "GlobalKnownHostsFile": "/dev/null",
        "UserKnownHostsFile": str(folder / "known_hosts"),
        "HostKeyAlias": "vm",
        "StrictHostKeyChecking": "yes",
        "CheckHostIP": "no",
        "UpdateHostKeys": "no",
        "VerifyHostKeyDNS": "no",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "ControlMaster": "no",
        "ControlPath": "none",
        "ServerAliveInterval": "10",
        "ServerAliveCountMax": "3",
        "LogLevel": "INFO",
        # only kinds we know a key of: else another kind would be offered and refused
        "HostKeyAlgorithms": ",".join(_algorithms(login.host_keys)),
    }
    options = ["-F", "/dev/null", "-T", "-x", "-i", str(folder / "key"), "-p", str(login.port)]
    for name, value in settings.items():
        options += ["-o", f"{name}={value}"]
    return options


def _algorithms(keys: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for key in keys:
        kind = key.split()[0]
        if kind == "ssh-rsa":  # the old signature is no longer taken, the keys are
            found.update({"rsa-sha2-512": None, "rsa-sha2-256": None})
        else:
            found[kind] = None
    return list(found)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _failure(errors: str) -> SshError:
    """What ssh's words mean; they are the only thing it says."""
    words = errors.strip()[-1000:] or "ssh ended without a word"
    if (
        "Host key verification failed" in errors
        or "REMOTE HOST IDENTIFICATION HAS CHANGED" in errors
        or "no matching host key type" in errors
    ):
        return HostKeyMismatch(words)
    if "Permission denied" in errors or "Too many authentication failures" in errors:
        return KeyRefused(words)
    return Unreachable(words)

"""A machine to log in to: a real sshd on loopback, with its own /etc and /run, as root."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from corral.clouds.joiner import BootstrapToken, Login
from tests.support.sshd import find_sshd

SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STANDIN = Path(__file__).with_name("kubeadm_standin.py")
_ENTER = """set -e
mount -t overlay overlay -o "lowerdir=$1:/etc" /etc
mount -t tmpfs none /etc/kubernetes
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
shift
exec "$@"
"""


class Machine:
    """One VM with a stand-in kubeadm; it boots when told to."""

    def __init__(self, folder: Path) -> None:
        self._sshd, self._environment = find_sshd("ssh", "ssh-keygen", "unshare")
        self.folder = folder
        self.cluster = folder / "cluster"
        (self.cluster / "tokens").mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.user_key = make_key(folder / "user")
        self.host_key = make_key(folder / "host")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._write()

    def _write(self) -> None:
        home = self.folder / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        shutil.copy(self.folder / "user.pub", home / ".ssh/authorized_keys")
        etc = self.folder / "etc"
        (etc / "kubernetes").mkdir(parents=True)
        users = [
            f"root:x:0:0:root:{home}:/bin/sh",
            "sshd:x:999:65534::/run/sshd:/usr/sbin/nologin",
        ]
        (etc / "passwd").write_text("\n".join([*users, ""]))
        programs = self.folder / "bin"
        programs.mkdir()
        kubeadm = programs / "kubeadm"
        kubeadm.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STANDIN} "$@"\n')
        kubeadm.chmod(0o755)
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host'}",
            "AuthorizedKeysFile .ssh/authorized_keys",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "StrictModes no",
            "PidFile none",
            f'SetEnv "PATH={programs}:{SYSTEM}" "CORRAL_TEST_CLUSTER={self.cluster}"',
        ]
        (self.folder / "sshd_config").write_text("\n".join([*lines, ""]))

    def boot(self) -> None:
        """Return when it listens."""
        log = self.folder / "sshd.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    "unshare", "--mount", "sh", "-c", _ENTER, "vm", str(self.folder / "etc"),
                    "env", *(f"{key}={value}" for key, value in self._environment.items()),
                    self._sshd, "-D", "-e", "-f", str(self.folder / "sshd_config"),
                ],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 30
        while "Server listening" not in log.read_text():
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def has_file(self, path: str) -> bool:
        """Whether the machine, not the one it runs on, has it."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{path}").exists()

    def login(self, **changes: object) -> Login:
        values: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "root",
            "private_key": self.user_key[0],
            "host_keys": [self.host_key[1]],
        }
        return Login(**{**values, **changes})  # type: ignore[arg-type]


class Tokens:
    """The cluster's tokens, where the stand-in looks for them."""

    def __init__(self, cluster: Path) -> None:
        self._folder = cluster / "tokens"
        self.put_ones: list[BootstrapToken] = []
        self.good = True

    async def put(self, token: BootstrapToken, vm: str) -> None:
        self.put_ones.append(token)
        if self.good:
            (self._folder / token.id).write_text(token.secret)

    async def remove(self, token: BootstrapToken) -> None:
        (self._folder / token.id).unlink(missing_ok=True)

    def left(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()]


def make_key(path: Path, kind: str = "ed25519") -> tuple[str, str]:
    """A private key and its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
    return path.read_text(), path.with_name(f"{path.name}.pub").read_text()

"""Hosts on one machine: a network namespace each, with a name, an address and an sshd of its own.

What a host has for itself: its network, its name, ``/etc`` (the machine's with our files above it),
``/run`` and ``/dev/shm``. Everything is gone with `SshHosts.close`.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from corral.families.mpijob import names
from corral.families.mpijob.objects.hostfile import host, hostfile
from corral.families.mpijob.objects.launcher import launcher_env
from corral.families.mpijob.objects.ssh import generate_keys, ssh_secret
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from tests.cluster.mpi_runs.mpi_stage import PATIENCE, Mpi
from tests.cluster.objects import eventually
from tests.support.sshd import find_sshd

_SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_ENTER = """set -e
hostname "$1"
mount -t overlay overlay -o "lowerdir=$2:/etc" /etc
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
mount -t tmpfs none /dev/shm
shift 2
exec "$@"
"""


class SshHosts:
    """The launcher's host and those of the workers, with all that an MPIJob's pods would have."""

    def __init__(self, job: dict[str, Any], mpi: Mpi, folder: Path) -> None:
        self._view = JobView.of(job)
        self._mpi = mpi
        self._folder = folder
        self._settings = ObjectSettings()
        self._sshd, self._sshd_env = find_sshd("ssh", "ssh-keygen", "ip", "unshare")
        self._prefix = f"mpi-{uuid.uuid4().hex[:6]}"
        self._made: list[str] = []
        self._daemons: list[subprocess.Popen[bytes]] = []
        workers = [names.worker_name(self._view.name, index) for index in range(self._view.workers)]
        self._pods = [names.launcher_name(self._view.name), *workers]

    def open(self) -> None:
        self._write_files()
        try:
            self._connect()
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        for index in range(1, len(self._pods)):
            self._start_sshd(index)

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()
        for name in self._made:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=False)
            for pid in pids.stdout.split():
                subprocess.run(["kill", "-9", pid], capture_output=True, check=False)
            _ip("netns", "del", name)

    def launch(self, line: list[str]) -> subprocess.CompletedProcess[str]:
        """Run the launcher's command, with the variables that its pod would have."""
        env = {
            "PATH": f"{self._mpi.venv / 'bin'}:{_SYSTEM}",
            "HOME": str(self._home),
            **self._mpi.environment,
            **{item["name"]: item.get("value", "") for item in self._variables()},
        }
        return subprocess.run(
            [*self._enter(0), *line],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("sshd-*.log")))

    def _variables(self) -> list[dict[str, str]]:
        return launcher_env(self._view, self._settings)

    # -- files ---------------------------------------------------------------------------------

    @property
    def _home(self) -> Path:
        return self._folder / "home"

    def _write_files(self) -> None:
        etc = self._folder / "etc"
        (etc / "mpi").mkdir(parents=True)
        (etc / "mpi" / "hostfile").write_text(hostfile(self._view, self._settings))
        # Bare names too: workers call the launcher by its own, and their pods search its domain.
        lines = [
            f"{_address(index)} {host(self._view, pod, self._settings)} {pod}"
            for index, pod in enumerate(self._pods)
        ]
        (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        users = [f"root:x:0:0:root:{self._home}:/bin/sh"]
        users.append("sshd:x:999:65534::/run/sshd:/usr/sbin/nologin")
        (etc / "passwd").write_text("\n".join([*users, ""]))
        self._write_keys()
        self._write_config()

    def _write_keys(self) -> None:
        """As the job's Secret has them, under the names that its volume gives them."""
        folder = self._home / ".ssh"
        folder.mkdir(parents=True, mode=0o700)
        data = ssh_secret(self._view, generate_keys())["data"]
        files = {"id_rsa": names.SSH_PRIVATE_KEY, "authorized_keys": names.SSH_PUBLIC_KEY}
        for name, key in files.items():
            path = folder / name
            path.write_bytes(base64.b64decode(data[key]))
            path.chmod(0o600)
        # What images for MPIJobs say, since hosts are new in every job.
        (folder / "config").write_text(
            "Host *\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        )
        key = str(self._folder / "hostkey")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)

    def _write_config(self) -> None:
        env = {"PATH": f"{self._mpi.venv / 'bin'}:{_SYSTEM}", **self._mpi.environment}
        lines = [
            "Port 22",
            f"HostKey {self._folder / 'hostkey'}",
            "AuthorizedKeysFile .ssh/authorized_keys",
            "PermitRootLogin prohibit-password",
            "StrictModes no",
            "PidFile none",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()),
        ]
        (self._folder / "sshd_config").write_text("\n".join([*lines, ""]))

    # -- hosts ---------------------------------------------------------------------------------

    def _connect(self) -> None:
        """A bridge in the launcher's namespace, and a cable from it to every worker."""
        for index in range(len(self._pods)):
            _ip("netns", "add", self._namespace(index), check=True)
            self._made.append(self._namespace(index))
            self._link(index, "lo", "up")
        hub = self._namespace(0)
        _ip("-n", hub, "link", "add", "eth0", "type", "bridge", check=True)
        for index in range(1, len(self._pods)):
            cable = ["link", "add", f"v{index}", "type", "veth", "peer", "name", "eth0"]
            _ip("-n", hub, *cable, "netns", self._namespace(index), check=True)
            _ip("-n", hub, "link", "set", f"v{index}", "master", "eth0", "up", check=True)
        for index in range(len(self._pods)):
            where = ["-n", self._namespace(index)]
            _ip(*where, "addr", "add", f"{_address(index)}/24", "dev", "eth0", check=True)
            self._link(index, "eth0", "up")

    def _link(self, index: int, device: str, state: str) -> None:
        _ip("-n", self._namespace(index), "link", "set", device, state, check=True)

    def _namespace(self, index: int) -> str:
        return f"{self._prefix}-{index}"

    def _enter(self, index: int) -> list[str]:
        """What a command is put behind to run on a host."""
        outside = ["ip", "netns", "exec", self._namespace(index), "unshare", "--mount", "--uts"]
        return [*outside, "sh", "-c", _ENTER, "host", self._pods[index], str(self._folder / "etc")]

    def _start_sshd(self, index: int) -> None:
        log = self._folder / f"sshd-{index}.log"
        command = [self._sshd, "-D", "-e", "-f", str(self._folder / "sshd_config")]
        with log.open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [*self._enter(index), "env", *(f"{k}={v}" for k, v in self._sshd_env.items()),
                     *command],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                )
            )  # fmt: skip
        daemon = self._daemons[-1]

        def serves() -> bool:
            assert daemon.poll() is None, log.read_text()
            return "Server listening" in log.read_text()

        eventually(serves)


def _address(index: int) -> str:
    return f"10.77.0.{index + 1}"


def _ip(*words: str, check: bool = False) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=check)

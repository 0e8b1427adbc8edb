"""Process nodes for a backend: ``corral node``, started the way people start it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

from tests.backends.base import Backend, wait_for
from tests.backends.embedded import node_token

NOBODY = 65534
OPEN_TO_CASES = ("--allow-host-access=path", f"--expose={Path(__file__).parents[2]}")
"""Options by which pods see what cases and examples have on this machine."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ORDINARY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@cache
def ordinary_python() -> tuple[str, dict[str, str]] | None:
    """An interpreter that an ordinary user may run, with the variables to find our packages.

    The one at work where it can be; else the machine's own of the same version.
    """
    try:
        subprocess.run([*ORDINARY, "sh", "-c", f"{sys.executable} -c 1"], check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        other = shutil.which(version, path="/usr/local/bin:/usr/bin:/bin")
        folders = [str(Path(__file__).parents[2]), sysconfig.get_path("purelib")]
        more = {"PYTHONPATH": os.pathsep.join(folders)}
        if other is None or not _runs(other, more):
            return None
        return other, more
    return sys.executable, {}


def _runs(python: str, more: dict[str, str]) -> bool:
    check = [*ORDINARY, python, "-c", "import corral.cli.main, aiohttp, orjson"]
    done = subprocess.run(check, env={**os.environ, **more}, capture_output=True, check=False)
    return done.returncode == 0


class Node:
    """One agent with a folder of its own."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        *,
        isolation: str,
        ordinary: bool,
        options: tuple[str, ...],
    ) -> None:
        self.backend = backend
        self.name = name
        self.isolation = isolation
        self.ordinary = ordinary
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix=f"corral-{name}-"))
        self.folder.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None
        config = self.folder / "kubeconfig"
        text = backend.kubeconfig.read_text().replace(backend.token, node_token(name))
        authority = self.folder / "ca.crt"
        authority.write_bytes(Path(backend.ca_file).read_bytes())
        config.write_text(text.replace(backend.ca_file, str(authority)))
        (self.folder / "data").mkdir()
        if ordinary:
            for path in (self.folder, config, authority, self.folder / "data"):
                os.chown(path, NOBODY, NOBODY)

    def start(self) -> None:
        """Return when the node serves."""
        log = self.folder / "log"
        log.write_text("")
        prefix: tuple[str, ...] = ()
        python, more = sys.executable, dict[str, str]()
        if self.ordinary:
            found = ordinary_python()
            assert found is not None
            prefix, (python, more) = ORDINARY, found
            more = more | {"PATH": f"{self._named_python(python)}{os.pathsep}{SYSTEM_PATH}"}
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [
                    *prefix, python, "-m", "corral.cli.main", "node",
                    "--kubeconfig", str(self.folder / "kubeconfig"), "--name", self.name,
                    "--data-dir", str(self.folder / "data"), "--isolation", self.isolation,
                    "--client-ca", str(self.folder / "ca.crt"), *self.options,
                ],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "HOME": str(self.folder), **more},
            )  # fmt: skip
        wait_for(self.process, log, "is ready")

    def _named_python(self, interpreter: str) -> Path:
        """A folder where the interpreter is called ``python``, as not every machine calls it."""
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "python").symlink_to(interpreter)
        return folder

    def kill(self) -> None:
        """As a crash: what runs goes on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """In order: pods end, nothing is left."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
                raise RuntimeError(f"{self.name} did not stop:\n{self.log()}") from None
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "log").read_text()


def add_node(
    backend: Backend,
    name: str,
    *,
    isolation: str = "auto",
    ordinary: bool = False,
    options: tuple[str, ...] = (),
    open_to_cases: bool = True,
) -> Node:
    """Start a node that works for the backend, with a node's own rights.

    ``open_to_cases``: pods may mount folders that cases make, and see the programs of this tree.
    """
    backend.allow()
    if open_to_cases:
        options = (*OPEN_TO_CASES, *options)
    node = Node(backend, name, isolation=isolation, ordinary=ordinary, options=options)
    try:
        node.start()
    except BaseException:
        node.stop()  # leave neither the process nor its folder behind
        raise
    return node

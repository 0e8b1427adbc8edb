"""Our API server, as a process of its own, started the way people start it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.backends.base import Backend, free_port, wait_for

AGENTS = ("root", "user", "plain", "one", "two", "three")
"""Names that nodes of a test may have."""


def node_token(name: str) -> str:
    return f"agent-{name}-token"


TOKENS = (
    'admin-token,admin,admin,"system:masters"\n'
    "nobody-token,nobody,nobody\n"
    'node-token,system:node:n1,n1,"system:nodes"\n'
    "workloads-token,system:kube-controller-manager,kcm\n"
    "scheduler-token,system:kube-scheduler,scheduler\n"
) + "".join(
    f'{node_token(name)},system:node:{name},{name},"system:nodes,corral:nodes"\n' for name in AGENTS
)


class EmbeddedBackend(Backend):
    """``corral apiserver``, and beside it the workload controllers and the scheduler."""

    name = "embedded"
    token = "admin-token"

    def __init__(self, folder: Path, *, controllers: bool = True) -> None:
        super().__init__(folder)
        self._controllers = controllers

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        tokens = self.folder / "tokens.csv"
        tokens.write_text(TOKENS)
        if not self.server:
            self.server = f"https://127.0.0.1:{free_port()}"
        port = self.server.rpartition(":")[2]
        self._part(
            "apiserver", "--data-dir", str(data), "--port", port, "--token-file", str(tokens)
        )
        self.ca_file = str(data / "pki" / "ca.crt")
        self.write_kubeconfig()
        self.wait_ready()
        if self._controllers:
            self._start_controllers()

    def _start_controllers(self) -> None:
        """With the rights that `corral up` gives them."""
        self.allow()
        for part, *options in (
            ("workloads", "--claims-dir", str(self.folder / "claims")),
            ("scheduler",),
        ):
            config = self.folder / f"{part}.kubeconfig"
            config.write_text(self.kubeconfig.read_text().replace(self.token, f"{part}-token"))
            self._part(part, "--kubeconfig", str(config), *options)

    def _part(self, name: str, *options: str) -> None:
        log = self.folder / f"{name}.log"
        log.write_text("")
        process = self.spawn(name, sys.executable, "-m", "corral.cli.main", name, *options)
        wait_for(process, log, "is ready")

"""Our API server, as a process of its own, started the way people start it."""

from __future__ import annotations

import sys

from tests.backends.base import Backend, free_port, wait_for

AGENTS = ("root", "user", "plain", "one", "two", "three")
"""Names that nodes of a test may have."""


def node_token(name: str) -> str:
    return f"agent-{name}-token"


TOKENS = (
    'admin-token,admin,admin,"system:masters"\n'
    "nobody-token,nobody,nobody\n"
    'node-token,system:node:n1,n1,"system:nodes"\n'
) + "".join(
    f'{node_token(name)},system:node:{name},{name},"system:nodes,corral:nodes"\n' for name in AGENTS
)


class EmbeddedBackend(Backend):
    """``corral apiserver`` on a folder of its own."""

    name = "embedded"
    token = "admin-token"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        tokens = self.folder / "tokens.csv"
        tokens.write_text(TOKENS)
        if not self.server:
            self.server = f"https://127.0.0.1:{free_port()}"
        port = self.server.rpartition(":")[2]
        log = self.folder / "apiserver.log"
        log.write_text("")
        process = self.spawn(
            "apiserver", sys.executable, "-m", "corral.cli.main", "apiserver",
            "--data-dir", str(data), "--port", port, "--token-file", str(tokens),
        )  # fmt: skip
        wait_for(process, log, "corral apiserver is ready")
        self.ca_file = str(data / "pki" / "ca.crt")
        self.write_kubeconfig()
        self.wait_ready()

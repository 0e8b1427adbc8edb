"""Stands in for kubeadm on the VM: checks what it is given, and the cluster it is told to trust.

The folder beside it is the cluster: ``tokens/ID`` holds secrets that are good, ``ca-hash`` the CA.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

CLUSTER = Path(os.environ["CORRAL_TEST_CLUSTER"])


def fail(words: str) -> None:
    sys.exit(f"error execution phase preflight: {words}")


def seen_by_others(secret: str) -> list[str]:
    """Command lines and environments of all processes that have the secret in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                if secret.encode() in (process / name).read_bytes():
                    found.append(f"{process.name}/{name}")
            except OSError:
                continue
    return found


def main() -> None:
    if sys.argv[1:3] != ["join", "--config"] or len(sys.argv) != 4:
        fail(f"unknown arguments {sys.argv[1:]}")
    file = Path(sys.argv[3])
    if stat.S_IMODE(file.stat().st_mode) != 0o600:
        fail("others can read the configuration")
    config = json.loads(file.read_text())
    if config["kind"] != "JoinConfiguration" or not config["apiVersion"].startswith(
        "kubeadm.k8s.io/"
    ):
        fail("no JoinConfiguration")
    bootstrap = config["discovery"]["bootstrapToken"]
    identity, _, secret = bootstrap["token"].partition(".")
    if others := seen_by_others(secret):
        fail(f"the token can be seen in {others}")
    if (CLUSTER / "hang").exists():
        time.sleep(600)
    good = CLUSTER / "tokens" / identity
    if not good.exists() or good.read_text() != secret:
        fail(f"could not find a JWS signature for token ID {identity!r}; token was {secret}")
    if (CLUSTER / "ca-hash").read_text() not in bootstrap["caCertHashes"]:
        fail("none of the public keys were pinned")
    if bootstrap["unsafeSkipCAVerification"]:
        fail("the CA would not have been checked")
    Path("/etc/kubernetes/kubelet.conf").write_text("joined")
    record = {"file": str(file), "config": config}
    with (CLUSTER / "joined").open("a") as joined:
        joined.write(json.dumps(record) + "\n")
    print("This node has joined the cluster")


main()

"""How far the containers of a node are kept apart: as far as this machine lets us.

* ``root``: every pod has a network namespace with an address on its cluster's bridge; every
  container its own mounts, hosts file and host name; control groups where they can be made.
* ``user``: the same mounts, hosts file and host name in user namespaces, without any privilege;
  pods share the machine's network and each has an address of the loopback network.
* ``plain``: processes and nothing else. Mounts become paths: words of the command line and
  variables that begin with a mount path are rewritten; CORRAL_MOUNTS (JSON) holds them all. Names
  are resolved by Python programs only, through a module that they import when they start.

``Capabilities.detect`` finds out by trying. ``network`` makes a pod's sandbox; ``Isolation.dress``
puts a container into it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from corral.cluster.node.container_spec import MOUNTS, ContainerSpec, Mount, rewrite
from corral.cluster.node.groups import ROOT, Groups

Mode = Literal["root", "user", "plain"]

RESOLVER: Final = str(Path(__file__).resolve().parent / "network" / "inpod" / "resolv.conf")
"""For pods that have a network of their own: nobody is there to be asked."""
INPOD: Final = str(Path(__file__).resolve().parent / "network" / "inpod")
"""What plain Python programs import when they start."""
_ROOT: Final = str(Path(__file__).resolve().parents[3])
_TRY: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from corral.cluster.node.shim.confinement import enter; "
    "enter({'unshare': sys.argv[2].split(','), 'hostname': 'x'}, '/')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this process may do on this machine."""

    mode: Mode
    groups: Groups | None = None
    missing: tuple[str, ...] = ()
    """What pods go without, in words."""

    @classmethod
    def detect(cls, node: str, *, highest: Mode = "root", cgroup_root: Path = ROOT) -> Capabilities:
        """Find out by trying; ``highest`` asks for less than could be had."""
        # imported here because that package is built on this module
        from corral.cluster.node.network.gateway import possible

        missing: list[str] = []
        groups = Groups.detect(node, root=cgroup_root) if highest != "plain" else None
        if groups is None:
            missing.append("CPU and memory limits (no control group can be made)")
        if highest == "root" and _may("mount", "uts", "net"):
            if possible():
                return cls(mode="root", groups=groups, missing=tuple(missing))
            missing.append("networks of their own (the kernel makes no bridges or cables)")
        elif highest == "root":
            missing.append("networks of their own (that needs root)")
        if highest != "plain" and _may("user", "mount", "uts"):
            return cls(mode="user", groups=groups, missing=tuple(missing))
        missing.append("volumes at their mount paths, hosts files and host names (no namespaces)")
        return cls(mode="plain", groups=groups, missing=tuple(missing))


def _may(*kinds: str) -> bool:
    command = [sys.executable, "-S", "-E", "-B", "-c", _TRY, _ROOT, ",".join(kinds)]
    try:
        result = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return result.returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The surroundings of one pod."""

    uid: str
    address: str
    hostname: str
    hosts: str
    """Path of the pod's hosts file."""
    namespace: str = ""
    """The Kubernetes namespace."""
    network: str = ""
    """Path of the pod's network namespace; empty where it shares the machine's."""
    host_network: bool = False


class Isolation:
    """One mode at work on one node."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode

    def dress(self, spec: ContainerSpec, sandbox: Sandbox) -> ContainerSpec:
        """Put a container into a sandbox."""
        env = {
            "HOSTNAME": sandbox.hostname,
            **spec.env,
            "CORRAL_POD_IP": sandbox.address,
            "CORRAL_HOSTS_FILE": sandbox.hosts,
        }
        if self.mode == "plain":
            return _plain(spec, env, sandbox)
        hosts = Mount(source=sandbox.hosts, target="/etc/hosts")
        own = [hosts]
        if sandbox.network:
            # nothing leads to the machine's name servers: a name that is not in the hosts file is
            # to be unknown at once, not after their silence
            own.append(Mount(source=RESOLVER, target="/etc/resolv.conf"))
        taken = {mount.target.rstrip("/") for mount in spec.mounts}
        mounts = [*spec.mounts, *(mount for mount in own if mount.target not in taken)]
        kinds = ["mount", "uts"] if self.mode == "root" else ["user", "mount", "uts"]
        join = {"net": sandbox.network} if sandbox.network else {}
        return replace(
            spec, env=env, mounts=mounts, unshare=kinds, hostname=sandbox.hostname, join=join
        )


def _plain(spec: ContainerSpec, env: Mapping[str, str], sandbox: Sandbox) -> ContainerSpec:
    places = {mount.target: mount.source for mount in spec.mounts}
    changed = {name: rewrite(value, places) for name, value in env.items()}
    changed[MOUNTS] = json.dumps(places)
    changed["CORRAL_HOSTNAME"] = sandbox.hostname
    changed["PYTHONPATH"] = os.pathsep.join(filter(None, [INPOD, changed.get("PYTHONPATH")]))
    argv = None if spec.argv is None else [rewrite(word, places) for word in spec.argv]
    return replace(spec, argv=argv, env=changed, cwd=rewrite(spec.cwd, places), mounts=())

"""How far the containers of a node are kept apart: as far as this machine lets us.

* ``root``: every pod has a range of user ids and a network namespace with an address on its
  cluster's bridge; every container its own files, processes, hosts file and host name; control
  groups where they can be made.
* ``user``: the same files, processes, hosts file and host name without any privilege, as one user;
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

from corral.cluster.node.container.cgroups import ROOT, Groups
from corral.cluster.node.container.spec import MOUNTS, ContainerSpec, Mount, rewrite

Mode = Literal["root", "user", "plain"]

INPOD: Final = str(Path(__file__).resolve().parent / "network" / "podside")
"""What plain Python programs import when they start."""
_ROOT: Final = str(Path(__file__).resolve().parents[3])
_NETWORK_SETTINGS: Final = {
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv4.ping_group_range": "0 2147483647",
}
"""For networks of pods: NET_BIND_SERVICE and NET_RAW are for their users, the network is ours."""
_TRY: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from corral.cluster.node.shim.confinement import attempt; attempt(sys.argv[2])"
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
        if highest == "root" and _may("root"):
            if possible():
                return cls(mode="root", groups=groups, missing=tuple(missing))
            missing.append("networks of their own (the kernel makes no bridges or cables)")
        elif highest == "root":
            missing.append("networks of their own (that needs root)")
        if highest != "plain" and _may("user"):
            return cls(mode="user", groups=groups, missing=tuple(missing))
        missing.append("volumes at their mount paths, hosts files and host names (no namespaces)")
        return cls(mode="plain", groups=groups, missing=tuple(missing))


def _may(mode: str) -> bool:
    command = [sys.executable, "-S", "-E", "-B", "-c", _TRY, _ROOT, mode]
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
        own = [Mount(source=sandbox.hosts, target="/etc/hosts")]
        if not sandbox.network:
            # name servers that can be asked; else nothing leads to any, and a name that is not in
            # the hosts file is to be unknown at once
            own.append(Mount(source="/etc/resolv.conf", target="/etc/resolv.conf", read_only=True))
        taken = {mount.target.rstrip("/") for mount in spec.mounts}
        mounts = [*spec.mounts, *(mount for mount in own if mount.target not in taken)]
        kinds = ["mount", "uts", *(kind for kind in ("ipc", "pid") if kind not in spec.shares)]
        return replace(
            spec,
            env=env,
            mounts=mounts,
            unshare=kinds if self.mode == "root" else ["user", *kinds],
            users=sandbox.uid if self.mode == "root" and "user" not in spec.shares else "",
            hostname=sandbox.hostname,
            sysctls={**_NETWORK_SETTINGS, **spec.sysctls} if sandbox.network else spec.sysctls,
            join={"net": sandbox.network} if sandbox.network else {},
        )


def _plain(spec: ContainerSpec, env: Mapping[str, str], sandbox: Sandbox) -> ContainerSpec:
    places = {mount.target: mount.source for mount in spec.mounts}
    changed = {name: rewrite(value, places) for name, value in env.items()}
    changed[MOUNTS] = json.dumps(places)
    changed["CORRAL_HOSTNAME"] = sandbox.hostname
    changed["PYTHONPATH"] = os.pathsep.join(filter(None, [INPOD, changed.get("PYTHONPATH")]))
    argv = [rewrite(word, places) for word in spec.argv]
    cwd = rewrite(spec.cwd, places)
    return replace(spec, argv=argv, env=changed, cwd=cwd, mounts=(), view={}, privileges={})

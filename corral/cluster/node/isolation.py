"""How far the containers of a node are kept apart: as far as this machine lets us.

* ``root``: every pod has a network namespace with an address on the node's bridge; every container
  its own mounts, hosts file and host name; control groups where they can be made.
* ``user``: the same mounts, hosts file and host name in user namespaces, without any privilege;
  pods share the machine's network and each has an address of the loopback network.
* ``plain``: processes and nothing else. Mounts become paths: words of the command line and
  variables that begin with a mount path are rewritten; CORRAL_MOUNTS (JSON) holds them all.

``Capabilities.detect`` finds out by trying. A mode is a strategy with two methods: ``open`` makes a
pod's sandbox, ``dress`` puts a container into it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from corral.cluster.node import networks
from corral.cluster.node.containers import Container, ContainerError, ContainerSpec, Engine, Mount
from corral.cluster.node.groups import ROOT, Groups

Mode = Literal["root", "user", "plain"]

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
        missing: list[str] = []
        groups = Groups.detect(node, root=cgroup_root) if highest != "plain" else None
        if groups is None:
            missing.append("CPU and memory limits (no control group can be made)")
        if highest == "root" and _may("mount", "uts", "net"):
            if networks.tools_present():
                return cls(mode="root", groups=groups, missing=tuple(missing))
            missing.append("networks of their own (ip and nsenter are not installed)")
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
    """Path of the pod's hosts file; see ``addresses``."""
    holder: Container | None = None
    """Holds the network namespace, where there is one."""

    async def close(self) -> None:
        """Remove it, when all containers have ended."""
        if self.holder is not None:
            await self.holder.kill()
            self.holder.remove()


class Isolation:
    """One mode at work on one node."""

    def __init__(
        self, mode: Mode, engine: Engine, *, bridge: networks.Bridge | None = None
    ) -> None:
        if mode == "root" and bridge is None:
            raise ValueError("pods with networks of their own need a bridge")
        self.mode = mode
        self._engine = engine
        self._bridge = bridge

    async def open(
        self, uid: str, address: str, *, hostname: str, hosts: str, host_network: bool = False
    ) -> Sandbox:
        """Make a pod's sandbox. Raises ContainerError, NetworkError."""
        holder = None
        if self.mode == "root" and not host_network:
            holder = await self._hold(uid, address)
        return Sandbox(uid=uid, address=address, hostname=hostname, hosts=hosts, holder=holder)

    async def _hold(self, uid: str, address: str) -> Container:
        assert self._bridge is not None
        spec = ContainerSpec(
            id=f"{uid}.sandbox",
            argv=None,
            unshare=["net"],
            labels={"sandbox": uid, "address": address},
        )
        holder = await self._engine.start(spec)
        if not holder.state.running:
            raise ContainerError(holder.state.error)
        try:
            await self._bridge.attach(holder.state.shim, address, uid)
        except networks.NetworkError:
            await holder.kill()
            holder.remove()
            raise
        return holder

    def adopt(
        self, holder: Container | None, uid: str, address: str, *, hostname: str, hosts: str
    ) -> Sandbox:
        """A sandbox that an earlier agent made; ``holder`` is among what the engine adopted."""
        return Sandbox(uid=uid, address=address, hostname=hostname, hosts=hosts, holder=holder)

    def dress(self, spec: ContainerSpec, sandbox: Sandbox) -> ContainerSpec:
        """Put a container into a sandbox."""
        env = {
            "HOSTNAME": sandbox.hostname,
            **spec.env,
            "CORRAL_POD_IP": sandbox.address,
            "CORRAL_HOSTS_FILE": sandbox.hosts,
        }
        if self.mode == "plain":
            return _plain(spec, env)
        hosts = Mount(source=sandbox.hosts, target="/etc/hosts")
        mounts = spec.mounts
        if not any(mount.target.rstrip("/") == "/etc/hosts" for mount in mounts):
            mounts = [*mounts, hosts]
        kinds = ["mount", "uts"] if self.mode == "root" else ["user", "mount", "uts"]
        join: dict[str, str] = {}
        if sandbox.holder is not None:
            join["net"] = f"/proc/{sandbox.holder.state.shim}/ns/net"
        return replace(
            spec, env=env, mounts=mounts, unshare=kinds, hostname=sandbox.hostname, join=join
        )


def _plain(spec: ContainerSpec, env: Mapping[str, str]) -> ContainerSpec:
    places = {mount.target: mount.source for mount in spec.mounts}
    changed = {name: rewrite(value, places) for name, value in env.items()}
    changed["CORRAL_MOUNTS"] = json.dumps(places)
    argv = None if spec.argv is None else [rewrite(word, places) for word in spec.argv]
    return replace(spec, argv=argv, env=changed, cwd=rewrite(spec.cwd, places), mounts=())


def rewrite(text: str, places: Mapping[str, str]) -> str:
    """A path at or below a mount path, as it is on the machine; also after ``=`` and ``:``."""
    names = sorted((target.rstrip("/") for target in places), key=len, reverse=True)
    words = "|".join(re.escape(name) for name in names if name)
    if "/" not in text or not words:
        return text
    by_name = {target.rstrip("/"): source for target, source in places.items()}
    # in one pass: what a path is replaced by must not be replaced again
    return re.sub(
        f"(?:(?<=[:=,])|^)({words})(?=$|[/:,])", lambda match: by_name[match.group(1)], text
    )


def sandboxes_of(containers: Sequence[Container]) -> dict[str, Container]:
    """Pod uid → the container that holds its network, among adopted containers."""
    return {c.labels["sandbox"]: c for c in containers if "sandbox" in c.labels}

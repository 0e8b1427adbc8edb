"""Puts a container together from its pod and starts it.

The order matters: what can be refused (image, variables, volumes) comes before anything is made.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from corral.cluster.node.config import AgentConfig
from corral.cluster.node.container import cgroups as groups
from corral.cluster.node.container import environment
from corral.cluster.node.container.cgroups import Groups, Limits
from corral.cluster.node.container.identity import (
    Identity,
    groups_of_others,
    identity_of,
    not_honoured,
)
from corral.cluster.node.container.images import Image, make_named
from corral.cluster.node.container.processes import Container, ContainerSpec, Engine, Mount
from corral.cluster.node.container.security import (
    hides_proc,
    ignored,
    privileges_of,
    refusal,
    shared_with_machine,
    sysctls_of,
)
from corral.cluster.node.container.view import NAMED, View
from corral.cluster.node.isolation import Sandbox
from corral.cluster.node.layout import Layout
from corral.cluster.node.network import PodNetwork
from corral.cluster.node.pod.fit import Rejection
from corral.cluster.node.resources import GPU, GpuPool, device_environment, device_files
from corral.cluster.node.sweeper import Sweeper
from corral.cluster.node.volumes.job_folders import job_root
from corral.cluster.node.volumes.pod_volumes import fixed_volumes, mounts_of
from corral.cluster.node.volumes.sources import PodContext, Sources
from corral.cluster.node.wasm import RUNTIME_CLASS, is_module, wasm_command
from corral.files.private import make_folders
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["Launcher", "PulledModule", "Scene", "container_name", "image_id"]

logger = logging.getLogger(__name__)

_NO_IMAGE: Final = Image(pattern="wasm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A pod that is ready for containers."""

    context: PodContext
    sandbox: Sandbox
    sources: Sources
    volumes: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledModule:
    """A WebAssembly module that came from a registry."""

    file: str
    """On the machine."""
    image: Image
    """What it says about its command line and variables."""
    image_id: str


class Launcher:
    """Starts the containers of one node."""

    def __init__(
        self,
        config: AgentConfig,
        layout: Layout,
        *,
        engine: Engine,
        network: PodNetwork,
        cgroups: Groups | None,
        gpus: GpuPool,
        sweeper: Sweeper,
        view: View | None,
    ) -> None:
        """``view`` is what containers see of the machine; None where they see all of it."""
        self._config = config
        self._layout = layout
        self._engine = engine
        self._network = network
        self._cgroups = cgroups
        self._gpus = gpus
        self._sweeper = sweeper
        self._view = view
        self._may_change_user = os.geteuid() == 0 or network.mode == "user"
        self._named = NAMED if view is not None else str(layout.root / "bin")
        """Where interpreters are found under the name ``python``."""

    async def start(
        self, container: Obj, attempt: int, scene: Scene, *, pulled: PulledModule | None = None
    ) -> Container:
        """Run one attempt of a container; ``pulled`` is the module of its image.

        Raises ImageNotMapped, ConfigError, NoDevice, ContainerError, OSError; nothing runs then.
        """
        pod, name = scene.context.pod, container["name"]
        module = is_module(container, pod, mapped=self._config.images.knows)
        if pulled is not None:
            image = pulled.image
        elif module:  # from a volume
            image = _NO_IMAGE
        else:
            image = self._config.images.resolve(container.get("image", ""))
        who = identity_of(pod, container, own_uid=os.geteuid(), may_change=self._may_change_user)
        services = self._network.service_environment(pod)
        env = environment.build(container, scene.context, scene.sources, services=services)
        argv = environment.command_line(container, env, entrypoint=image.entrypoint, cmd=image.cmd)
        mounts = mounts_of(
            container,
            scene.volumes,
            env,
            fixed=fixed_volumes(pod),
            root_of=lambda volume: job_root(
                volume, pod["metadata"]["namespace"], self._config.job_folders
            ),
        )
        devices = self._gpus.assign(owner_of(pod["metadata"]["uid"], name), gpu_count(container))
        spec = ContainerSpec(
            id=container_name(pod["metadata"]["uid"], name, attempt),
            argv=argv,
            env=env,
            cwd=container.get("workingDir") or image.workdir or "/",
            log=str(self._layout.log(pod, name, attempt)),
            max_log_bytes=self._config.max_log_bytes,
            max_log_files=self._config.max_log_files,
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            tty=bool(container.get("tty")),
            uid=who.uid,
            gid=who.gid,
            groups=who.groups,
            mounts=mounts,
            view=self._seen(pod, container, devices),
            privileges={
                **privileges_of(pod, container, max_processes=self._config.max_processes),
                "oomScore": oom_score(container, groups.machine_memory()),
            },
            shares=shared_with_machine(pod),
            sysctls=sysctls_of(pod),
            labels={
                **labels_of(pod, name, attempt, scene.sandbox, devices, image),
                "runtime": "wasm" if module else "",
                **({"image": pulled.image_id} if pulled is not None else {}),
            },
        )
        message = self._make_message(spec)
        if self._view is None:
            others = groups_of_others(pod, own_uid=os.geteuid())
            self._layout.close_pod(pod["metadata"]["uid"], others)
        if module:
            file = pulled.file if pulled is not None else ""
            spec = replace(spec, env={**image.env, **spec.env})
            spec, overhead = self._module(spec, container, pod, message, file=file)
        else:
            shown = device_environment(devices, machine_has_gpus=self._gpus.any)
            spec, overhead = self._process(spec, container, message, image, who, shown), 0
        limits = replace(limits_of(container, overhead), processes=self._config.max_processes)
        return await self._run(spec, limits, scene.sandbox)

    def _seen(self, pod: Obj, container: Obj, devices: Sequence[str]) -> dict[str, Any]:
        """What the container sees of the machine."""
        if self._view is None:
            return {}
        context = container.get("securityContext") or {}
        read_only = bool(context.get("readOnlyRootFilesystem"))
        hidden = hides_proc(pod, container)
        return self._view.to_dict(
            devices=device_files(devices), read_only=read_only, hide_proc=hidden
        )

    def _make_message(self, spec: ContainerSpec) -> Path:
        """The file for the termination message."""
        labels = spec.labels
        path = self._layout.message(labels["uid"], labels["container"], int(labels["attempt"]))
        self._layout.make_messages(labels["uid"])
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fchmod(fd, 0o666)  # whoever the container runs as
        finally:
            os.close(fd)
        return path

    def _process(
        self,
        spec: ContainerSpec,
        container: Obj,
        message: Path,
        image: Image,
        who: Identity,
        devices: Mapping[str, str],
    ) -> ContainerSpec:
        # the devices last: a pod must not see more than it was given
        base = image.environment(os.environ, named=self._named)
        env = {**base, "HOME": who.home, **spec.env, **devices}
        target = container.get("terminationMessagePath") or "/dev/termination-log"
        mounts = [*spec.mounts, Mount(source=str(message), target=target)]
        if self._view is not None:
            return replace(spec, env=env, mounts=mounts)
        make_named(image.python, Path(self._named))
        cwd = spec.cwd.rstrip("/")
        inside = any(f"{cwd}/".startswith(f"{mount.target.rstrip('/')}/") for mount in mounts)
        if cwd and not inside and not os.path.isdir(cwd):
            # a container runtime makes it; here it must not be made on the machine
            folder = self._layout.workdir(spec.labels["uid"], spec.labels["container"])
            make_folders(folder.parent, mode=self._layout.mode)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            if who.uid is not None:
                os.chown(folder, who.uid, -1 if who.gid is None else who.gid)
            mounts.append(Mount(source=str(folder), target=cwd))
        return replace(spec, env=env, mounts=mounts)

    def _module(
        self, spec: ContainerSpec, container: Obj, pod: Obj, message: Path, *, file: str
    ) -> tuple[ContainerSpec, int]:
        """The same for a WebAssembly module, and the memory that its runner needs beside it."""
        cache = str(self._layout.root / "wasm")
        launch = wasm_command(
            container,
            pod,
            spec.argv or (),
            mounts=spec.mounts,
            env=spec.env,
            message=str(message),
            cache=cache,
            module=file,
            mounted=self._network.mode != "plain",
        )
        spec = launch.apply(spec)
        if self._view is not None:
            os.makedirs(cache, mode=0o700, exist_ok=True)
            spec = replace(spec, mounts=[*spec.mounts, Mount(source=cache, target=cache)])
        return spec, launch.overhead_bytes

    async def _run(self, spec: ContainerSpec, limits: Limits, sandbox: Sandbox) -> Container:
        spec = replace(spec, cgroups=self._make_groups(spec.id, limits))
        try:
            return await self._engine.start(self._network.dress(spec, sandbox))
        except BaseException:
            self._sweeper.later(groups.remove, spec.cgroups)
            raise

    def _make_groups(self, name: str, limits: Limits) -> list[str]:
        if self._cgroups is None:
            return []
        try:
            return self._cgroups.create(name, limits)
        except OSError as err:
            # the machine lets us have no more of them: the container runs without limits
            logger.warning("no control group for %s: %s", name, err)
            return []

    def cannot_honour(self, pod: Obj) -> list[str]:
        """What this node cannot do for a pod, in words; it runs without."""
        own_uid = os.geteuid()
        found = not_honoured(
            pod,
            may_change=self._may_change_user,
            own_uid=own_uid,
            has_groups=own_uid == 0 and self._network.mode != "user",
        )
        if self._view is None:
            words = "this node is in mode plain, which keeps nothing apart"
            if names := ignored(pod):
                found.append(f"{', '.join(names)} of its securityContext ({words})")
            if pod["spec"].get("hostUsers") is False:
                found.append(f"hostUsers: false ({words})")
        name = pod["spec"].get("runtimeClassName") or RUNTIME_CLASS
        if name != RUNTIME_CLASS:
            words = f"processes of this node have one runtime, and modules that of {RUNTIME_CLASS}"
            found.append(f"runtimeClassName {name} ({words})")
        return found

    def refusal(self, pod: Obj) -> Rejection | None:
        """Why the pod may not run here by its security contexts."""
        config = self._config
        return refusal(
            pod,
            mode=self._network.mode,
            allowed=config.host_access,
            shared=config.job_folders,
        )

    def ended(self, container: Container) -> None:
        """Give back what a container had that has ended."""
        if paths := container.spec.get("cgroups"):
            self._sweeper.later(groups.remove, paths)

    def release_devices(self, uid: str, name: str) -> None:
        """The container will not be started again."""
        self._gpus.release(owner_of(uid, name))


def container_name(uid: str, name: str, attempt: int) -> str:
    return f"{uid}.{name}.{attempt}"


def owner_of(uid: str, name: str) -> str:
    return f"{uid}/{name}"


def image_id(image: Image) -> str:
    """What stands for an image's digest where there are no images: the entry that was used."""
    return f"corral://{image.pattern}"


def labels_of(
    pod: Obj, name: str, attempt: int, sandbox: Sandbox, devices: tuple[str, ...], image: Image
) -> dict[str, str]:
    """All that a later agent needs to take the container over."""
    meta = pod["metadata"]
    return {
        "namespace": meta["namespace"],
        "pod": meta["name"],
        "uid": meta["uid"],
        "container": name,
        "attempt": str(attempt),
        "gpus": ",".join(devices),
        "address": sandbox.address,
        "image": image_id(image),
    }


def gpu_count(container: Obj) -> int:
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(GPU) or (resources.get("requests") or {}).get(GPU)
    return Quantity.parse(str(amount)).to_int() if amount else 0


def limits_of(container: Obj, overhead: int = 0) -> Limits:
    """``overhead`` bytes come on top of the limit of memory."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    memory, cpu, share = limits.get("memory"), limits.get("cpu"), requests.get("cpu")
    return Limits(
        memory_bytes=Quantity.parse(str(memory)).to_int() + overhead if memory else None,
        cpu_milli=Quantity.parse(str(cpu)).milli() if cpu else None,
        cpu_request_milli=Quantity.parse(str(share)).milli() if share else None,
    )


def oom_score(container: Obj, total: int) -> int:
    """How soon the kernel is to end its processes where the machine's memory is all used.

    Those that asked for none come first, as with a kubelet; no part of the cluster comes before.
    """
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    asked = requests.get("memory") or limits.get("memory")
    share = Quantity.parse(str(asked)).to_int() * 1000 // total if asked else 0
    return max(1000 - share, 2)

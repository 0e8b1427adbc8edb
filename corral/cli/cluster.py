"""``corral up``, ``corral down`` and the parts alone."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.broker import addition as broker_part
from corral.cli.broker import addresses, local_broker
from corral.cli.machines import end_machines, local_vms
from corral.cli.output import complain, fail
from corral.cli.registry import addition as registry_part
from corral.cli.registry import local_registry, split_map
from corral.cli.registry import where as registries_of

if TYPE_CHECKING:
    from corral.cluster.node.images import ImageMap
    from corral.cluster.node.isolation import Mode
    from corral.cluster.node.resources import Gpu
    from corral.cluster.up.cluster import Addition, Facts
    from corral.cluster.up.folder import DataFolder
    from corral.cluster.up.supervisor import Ready
    from corral.controllers.spot.machines_settings import LocalVms

DEFAULT_DIR = Path("~/.corral")
_OPERATOR_MODULES = (
    "corral.operator.local",
    "corral.controllers.trainingjob.reconciler",
    "corral.controllers.trainingjob.checkpoints",
    "corral.controllers.trainingjob.webhooks",
    "corral.controllers.spot.jobs",
    "corral.controllers.spot.machines",
)


class Isolation(StrEnum):
    """How far pods are kept apart."""

    auto = "auto"
    root = "root"
    user = "user"
    plain = "plain"


DataDir = Annotated[Path, typer.Option(help="Folder of everything the cluster keeps.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]
Tokens = Annotated[
    Path | None, typer.Option(help='Static tokens, one a line: token,user,uid,"groups".')
]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Cluster to work for; else KUBECONFIG, else ~/.kube/config.")
]
Isolated = Annotated[
    Isolation,
    typer.Option(help="Namespaces for pods: of root, of users, or none; auto takes the best."),
]
Images = Annotated[
    Path | None,
    typer.Option(help="Image map, JSON or YAML: what images mean on this machine."),
]
MaxPods = Annotated[int, typer.Option(min=1, max=1000, help="Pods on a node, at most.")]
Gpus = Annotated[
    str, typer.Option(help="auto, none, or a file with a list of devices (JSON or YAML).")
]


def up(
    data_dir: DataDir = DEFAULT_DIR,
    port: Port = 6443,
    nodes: Annotated[int, typer.Option(min=1, max=64, help="How many nodes.")] = 1,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it serves.")] = False,
    host: Host = "127.0.0.1",
    isolation: Isolated = Isolation.auto,
    images: Images = None,
    gpus: Gpus = "auto",
    max_pods: MaxPods = 250,
    token_file: Tokens = None,
    operator: Annotated[bool, typer.Option(help="Run the operator of our kinds too.")] = True,
    gateway: Annotated[bool, typer.Option(help="Serve REST, gRPC and the dashboard too.")] = True,
    gateway_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65534,
            help="Port of REST, with gRPC on the next; 0 takes free ones. "
            "Else 8443, or free ones where that is taken or --port is 0.",
        ),
    ] = None,
    registry: Annotated[bool, typer.Option(help="Serve an OCI registry too.")] = True,
    registry_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the registry; 0 takes a free one. "
            "Else 5000, or a free one where that is taken or --port is 0.",
        ),
    ] = None,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME: a registry in references that is ours; NAME=URL: one elsewhere."),
    ] = None,
    broker: Annotated[bool, typer.Option(help="Serve the Kafka protocol too.")] = True,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the broker; 0 takes a free one. "
            "Else 9092, or a free one where that is taken or --port is 0.",
        ),
    ] = None,
    kafka: Annotated[
        str, typer.Option(help="HOST:PORT of a Kafka to use in the place of our broker.")
    ] = "",
    verbose: Verbose = False,
) -> None:
    """Run a whole cluster on this machine, until Ctrl-C or `corral down`."""
    from corral.cluster.up.cluster import Settings
    from corral.cluster.up.cluster import up as run
    from corral.cluster.up.folder import DataFolder, FolderError
    from corral.cluster.up.supervisor import PartFailed

    folder = DataFolder(data_dir.expanduser().absolute())
    own_broker = (
        local_broker(folder, broker_port, any_port=port == 0 or broker_port == 0)
        if broker and not kafka
        else None
    )
    names, others = split_map(registry_map or ())
    own_registry = (
        local_registry(folder, registry_port, any_port=port == 0 or registry_port == 0, names=names)
        if registry
        else None
    )
    registries = registries_of(own_registry, others)
    vms = local_vms(folder, registries[1], images=images, isolation=isolation, max_pods=max_pods)
    settings = Settings(
        folder=folder,
        host=host,
        port=port,
        nodes=nodes,
        isolation=_mode(isolation),
        images=_image_map(images),
        gpus=_gpus(gpus),
        max_pods=max_pods,
        token_file=token_file,
        registries=registries[1],
        additions=[
            *([_operator(addresses(own_broker, kafka), registries, vms)] if operator else ()),
            *([_gateway(host, gateway_port, port, registries[1])] if gateway else ()),
            *([broker_part(own_broker)] if own_broker else ()),
            *([registry_part(own_registry)] if own_registry else ()),
        ],
        verbose=verbose,
    )
    tell = _detach(settings.folder) if detach else _foreground
    try:
        run(settings, ready=lambda path, facts: tell(_ready_line(path, facts), 0), say=complain)
    except (FolderError, PartFailed) as err:
        tell(f"corral: {err}", 1)
        raise typer.Exit(1) from err


def _operator(
    kafka: tuple[str, str],
    registries: tuple[str, dict[str, str], dict[str, str]],
    vms: LocalVms,
) -> Addition:
    """The operator as a part of a cluster; ``kafka``: for itself, and for pods."""
    from corral.api import all_crds
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.operator.local import run_part

        own = folder.credentials("operator")
        await run_part(
            folder.kubeconfig,
            own,
            folder.checkpoints,
            ready,
            kafka=kafka,
            registries=registries,
            vms=vms,
        )

    return Addition("operator", "corral:operator", run, _OPERATOR_MODULES, all_crds)


def _gateway(host: str, port: int | None, server_port: int, registries: dict[str, str]) -> Addition:
    """The gateway as a part of a cluster; it is nobody to the API server."""
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.cluster.up.supervisor import Expected
        from corral.gateway.local import LocalSettings, run_part

        settings = LocalSettings(
            folder=folder.path,
            kubeconfig=folder.kubeconfig,
            socket=folder.socket,
            host=host,
            port=0 if port is None and server_port == 0 else port,
            registries=tuple(f"{name}={url}" for name, url in registries.items()),
        )
        try:
            await run_part(settings, ready)
        except OSError as err:
            raise Expected(
                f"the gateway cannot listen on {host}:{port}: {err.strerror or err}; "
                "choose another port with --gateway-port (0 takes free ones)"
            ) from err

    return Addition("gateway", "", run, ("corral.gateway.local",))


def _ready_line(kubeconfig: Path, facts: Facts) -> str:
    dashboard = facts.get("gateway", {}).get("url", "none")
    return f"corral is ready: KUBECONFIG={kubeconfig} dashboard={dashboard}"


def _foreground(line: str, code: int) -> None:
    print(line, file=sys.stderr if code else sys.stdout, flush=True)


def _detach(folder: Any) -> Callable[[str, int], None]:
    """Go on in a process of its own; this one returns what that one tells, and ends."""
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(told, "rb") as file:
            said = file.readline()  # to the end would be: until the parts have ended too
        code, _, line = said.decode().strip().partition(" ")
        if not line:
            _foreground(f"corral: the cluster did not start: see {folder.path / 'logs'}", 1)
            raise typer.Exit(1)
        _foreground(line, int(code))
        raise typer.Exit(int(code))
    os.close(told)
    os.setsid()
    _to_log(folder.log("corral"))

    def answer(line: str, code: int) -> None:
        os.write(tell, f"{code} {line}\n".encode())
        os.close(tell)

    return answer


def _to_log(path: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        out = os.dup(nothing)  # what is wrong with the folder is told when it is taken
    sys.stdout.flush()
    sys.stderr.flush()
    for number, fd in enumerate((nothing, out, out)):
        os.dup2(fd, number)


def down(
    data_dir: DataDir = DEFAULT_DIR,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for its end.")] = 120.0,
) -> None:
    """Stop the cluster on a data folder; `corral up` on it goes on where it was."""
    from corral.cluster.up.cluster import NotStopped
    from corral.cluster.up.cluster import down as stop
    from corral.cluster.up.folder import DataFolder

    folder = DataFolder(data_dir.expanduser().absolute())
    try:
        was_running = stop(folder, timeout=timeout)
    except (NotStopped, PermissionError) as err:
        raise fail(err) from err
    if not was_running:
        end_machines(folder)  # those of one that was killed: they are nobody's children
    print("corral is down" if was_running else f"no cluster is running on {folder.path}")


# -- the parts alone -------------------------------------------------------------------------------


def apiserver(
    data_dir: DataDir = DEFAULT_DIR,
    port: Port = 6443,
    host: Host = "127.0.0.1",
    token_file: Tokens = None,
    verbose: Verbose = False,
) -> None:
    """Serve the Kubernetes API from one process and one folder."""
    from corral.cluster.up import parts
    from corral.cluster.up.folder import DataFolder

    settings = parts.ServerSettings(
        DataFolder(data_dir.expanduser().absolute()), host, port, token_file=token_file
    )

    def ready(facts: dict[str, Any]) -> None:
        where = f"https://{host}:{facts['port']} KUBECONFIG={facts['kubeconfig']}"
        print(f"corral apiserver is ready: {where}", flush=True)

    _run(parts.apiserver(settings, ready), verbose=verbose)


def workloads(
    kubeconfig: Kubeconfig = None,
    controllers: Annotated[
        str, typer.Option(help="Which ones, by name with commas between; else all.")
    ] = "",
    claims_dir: Annotated[
        Path | None, typer.Option(help="Folder for volume claims; without it none are made.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Run the workload controllers (what kube-controller-manager is to a real cluster)."""
    from corral.cluster.up import parts

    names = [name.strip() for name in controllers.split(",") if name.strip()] or None
    run = parts.workloads(kubeconfig, _said("workloads"), names=names, claims=claims_dir)
    _run(run, verbose=verbose)


def scheduler(
    kubeconfig: Kubeconfig = None,
    name: Annotated[
        str, typer.Option(help="The schedulerName of the pods to place.")
    ] = "default-scheduler",
    verbose: Verbose = False,
) -> None:
    """Run the scheduler."""
    from corral.cluster.up import parts

    _run(parts.scheduler(kubeconfig, _said("scheduler"), name=name), verbose=verbose)


def node(
    kubeconfig: Kubeconfig = None,
    name: Annotated[str, typer.Option(help="The node's name; else this machine's.")] = "",
    data_dir: DataDir = Path("~/.corral-node"),
    port: Annotated[int, typer.Option(help="Port of the node's own API; 0 takes one.")] = 0,
    address: Annotated[str, typer.Option(help="The node's address.")] = "127.0.0.1",
    isolation: Isolated = Isolation.auto,
    images: Images = None,
    gpus: Gpus = "auto",
    max_pods: MaxPods = 250,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: where a registry of module images is reached."),
    ] = None,
    client_ca: Annotated[
        Path | None, typer.Option(help="CA of the API server's client certificate.")
    ] = None,
    marks: Annotated[
        Path | None, typer.Option(help="File with labels and taints of the Node (JSON or YAML).")
    ] = None,
    keep_pods: Annotated[
        bool, typer.Option("--keep-pods", help="Leave pods running when the agent stops.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run this machine as a node of a cluster: pods become processes."""
    from corral.cluster.node.agent import AgentConfig
    from corral.cluster.node.images import ImageMap
    from corral.cluster.up import parts

    marked = (_load(marks, "marks") if marks else None) or {}
    config = AgentConfig(
        name=name or socket.gethostname().lower(),
        data_dir=data_dir.expanduser().absolute(),
        isolation=_mode(isolation),
        address=address,
        port=port,
        images=_image_map(images) or ImageMap(),
        gpus=_gpus(gpus),
        max_pods=max_pods,
        registries=_elsewhere(registry_map or []),
        client_ca_file=client_ca,
        labels=marked.get("labels") or {},
        taints=marked.get("taints") or (),
        # a machine of a cloud tells its agent so
        cloud=os.environ.get("CORRAL_CLOUD", ""),
        metadata=os.environ.get("CORRAL_METADATA", ""),
    )
    _run(
        parts.node(kubeconfig, config, _said(f"node {config.name}"), keep_pods=keep_pods),
        verbose=verbose,
    )


def _elsewhere(words: list[str]) -> dict[str, str]:
    names, others = split_map(words)
    if names:
        raise typer.BadParameter(f"--registry-map: write {names[0]}=http://HOST:PORT")
    return others


def _said(what: str) -> Callable[[dict[str, Any]], None]:
    return lambda facts: print(f"corral {what} is ready", flush=True)


def _run(part: Coroutine[Any, Any, None], *, verbose: bool) -> None:
    from corral.cluster.up.supervisor import Expected
    from corral.runtime import eventloop

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )

    try:
        eventloop.run(part)
    except Expected as err:
        raise fail(err) from err


# -- options ---------------------------------------------------------------------------------------


def _mode(isolation: Isolation) -> Mode | None:
    modes: dict[Isolation, Mode] = {
        Isolation.root: "root",
        Isolation.user: "user",
        Isolation.plain: "plain",
    }
    return modes.get(isolation)


def _load(path: Path, what: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except OSError as err:
        raise typer.BadParameter(f"{what}: cannot read {path}: {err.strerror}") from err
    except yaml.YAMLError as err:
        raise typer.BadParameter(f"{what}: {path} is not YAML: {err}") from err


def _image_map(path: Path | None) -> ImageMap | None:
    """The entries of the file, before those that every node has."""
    from corral.cluster.node.images import DEFAULT, Image, ImageMap

    if path is None:
        return None
    try:
        entries = [Image.from_dict(entry) for entry in _load(path, "image map") or ()]
    except (TypeError, AttributeError, ValueError) as err:
        raise typer.BadParameter(f"image map {path}: {err}") from err
    return ImageMap([*entries, *DEFAULT])


def _gpus(text: str) -> tuple[Gpu, ...] | None:
    from corral.cluster.node.resources import Gpu

    if text == "auto":
        return None
    if text == "none":
        return ()
    try:
        return tuple(Gpu(**entry) for entry in _load(Path(text), "devices"))
    except TypeError as err:
        example = json.dumps([{"index": "0", "model": "NVIDIA H200", "memory_mib": 143771}])
        raise typer.BadParameter(f"devices {text}: expected a list like {example}") from err

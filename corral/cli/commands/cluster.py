"""``corral up``, ``corral down`` and the parts alone."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.bounds import allowed_endpoints, local_folders
from corral.cli.commands.broker import addition as broker_part
from corral.cli.commands.broker import addresses, local_broker
from corral.cli.commands.registry import addition as registry_part
from corral.cli.commands.registry import local_registry, split_map
from corral.cli.commands.registry import where as registries_of
from corral.cli.machines import end_machines, local_vms
from corral.cli.views.output import complain, fail, say
from corral.files.private import private_umask

if TYPE_CHECKING:
    from corral.cluster.apiserver.audit.log import LogSettings
    from corral.cluster.broker.process import LocalBroker
    from corral.cluster.node.container.images import ImageMap
    from corral.cluster.node.isolation import Mode
    from corral.cluster.node.resources import Gpu
    from corral.cluster.up.cluster import Addition, Facts
    from corral.cluster.up.folder import DataFolder
    from corral.cluster.up.supervisor import Ready
    from corral.families.spot.machines.settings import LocalVms

DEFAULT_DIR = Path("~/.corral")
_OPERATOR_MODULES = (
    "corral.operator.local",
    "corral.families.trainingjob.reconciler",
    "corral.families.trainingjob.checkpoints.controller",
    "corral.families.trainingjob.webhooks",
    "corral.families.spot.jobs.controller",
    "corral.families.spot.machines.controller",
)


class Isolation(StrEnum):
    """How far pods are kept apart."""

    auto = "auto"
    root = "root"
    user = "user"
    plain = "plain"


DataDir = Annotated[Path, typer.Option(help="Data folder.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")]
Tokens = Annotated[
    Path | None, typer.Option(help='Static token file, one per line: token,user,uid,"groups".')
]
AuditPolicy = Annotated[
    Path | None,
    typer.Option(
        "--audit-policy-file", help="Audit policy file, audit.k8s.io/v1 (default: no auditing)."
    ),
]
AuditPath = Annotated[
    Path | None,
    typer.Option(
        "--audit-log-path",
        help="Path of the audit log (default: logs/audit.log in the data folder).",
    ),
]
AuditSize = Annotated[
    int,
    typer.Option(
        "--audit-log-maxsize",
        min=1,
        help="Maximum size of an audit log file in MB before it is rotated.",
    ),
]
AuditBackups = Annotated[
    int,
    typer.Option(
        "--audit-log-maxbackup", min=0, help="Number of rotated audit logs to keep; 0: all."
    ),
]
AuditAge = Annotated[
    int,
    typer.Option("--audit-log-maxage", min=0, help="Days to keep rotated audit logs; 0: no limit."),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Path of the kubeconfig (default: KUBECONFIG, then ~/.kube/config)."),
]
Isolated = Annotated[
    Isolation,
    typer.Option(
        help="Pod isolation: namespaces by root, user namespaces, none (plain) or auto (the best)."
    ),
]
Images = Annotated[
    Path | None,
    typer.Option(help="Image map (JSON or YAML): how container images run on this machine."),
]
Expose = Annotated[
    list[Path] | None,
    typer.Option(help="Host path to show to pods, read-only; repeatable."),
]
HostAccess = Annotated[
    list[str] | None,
    typer.Option(
        help="Host access that pods may request: path, network, pid, ipc, users, privileged, "
        "capabilities or all; repeatable or comma-separated."
    ),
]
MaxPods = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of pods per node.")]
Gpus = Annotated[
    str,
    typer.Option(
        help="GPUs: auto (detect), none, or a file with a list of devices (JSON or YAML)."
    ),
]


def up(
    data_dir: DataDir = DEFAULT_DIR,
    port: Port = 6443,
    nodes: Annotated[int, typer.Option(min=1, max=64, help="Number of nodes.")] = 1,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Run in the background; return when the cluster is ready."
        ),
    ] = False,
    host: Host = "127.0.0.1",
    isolation: Isolated = Isolation.auto,
    images: Images = None,
    gpus: Gpus = "auto",
    max_pods: MaxPods = 250,
    expose: Expose = None,
    allow_host_access: HostAccess = None,
    token_file: Tokens = None,
    operator: Annotated[bool, typer.Option(help="Run the Corral operator.")] = True,
    gateway: Annotated[
        bool, typer.Option(help="Run the gateway: REST, gRPC and the dashboard.")
    ] = True,
    gateway_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65534,
            help="REST port of the gateway (gRPC: the next port); 0 picks free ones. "
            "Default: 8443, or free ones if it is taken or --port is 0.",
        ),
    ] = None,
    registry: Annotated[bool, typer.Option(help="Run an OCI registry.")] = True,
    registry_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the registry; 0 picks a free one. "
            "Default: 5000, or a free one if it is taken or --port is 0.",
        ),
    ] = None,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME: alias of the built-in registry; NAME=URL: another registry; repeatable."
        ),
    ] = None,
    broker: Annotated[bool, typer.Option(help="Run a Kafka-compatible broker.")] = True,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the broker; 0 picks a free one. "
            "Default: 9092, or a free one if it is taken or --port is 0.",
        ),
    ] = None,
    broker_open: Annotated[
        bool,
        typer.Option(
            "--broker-open",
            help="Allow all users of this machine to access all topics without a login.",
        ),
    ] = False,
    kafka: Annotated[
        str,
        typer.Option(help="HOST:PORT of an external Kafka to use instead of the built-in broker."),
    ] = "",
    share_without_isolation: Annotated[
        bool,
        typer.Option(
            "--share-without-isolation",
            help="Allow RBAC bindings for other users even in plain mode, where pods have all your "
            "permissions.",
        ),
    ] = False,
    audit_policy: AuditPolicy = None,
    audit_log: AuditPath = None,
    audit_log_size: AuditSize = 100,
    audit_log_backups: AuditBackups = 10,
    audit_log_age: AuditAge = 0,
    allow_endpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="CIDR-or-host[:port] of a non-public store or registry that jobs may use; "
            "repeatable."
        ),
    ] = None,
    local_folder: Annotated[
        list[str] | None,
        typer.Option(
            help="NAMESPACE=DIR: storage.local folder in which the operator manages checkpoints; "
            "repeatable."
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Run a complete cluster on this machine until Ctrl-C or `corral down`."""
    from corral.cluster.up.cluster import Settings
    from corral.cluster.up.cluster import up as run
    from corral.cluster.up.folder import DataFolder, FolderError
    from corral.cluster.up.supervisor import PartFailed

    folder = DataFolder(data_dir.expanduser().absolute())
    own_broker = (
        local_broker(
            folder,
            broker_port,
            any_port=port == 0 or broker_port == 0,
            open_to_all=broker_open,
        )
        if broker and not kafka
        else None
    )
    if own_broker is not None and own_broker.open:
        complain(
            "the broker is open: everybody on this machine reads and writes all topics "
            "(omit --broker-open to require a login per namespace)"
        )
    names, others = split_map(registry_map or ())
    own_registry = (
        local_registry(folder, registry_port, any_port=port == 0 or registry_port == 0, names=names)
        if registry
        else None
    )
    registries = registries_of(own_registry, others)
    known = addresses(own_broker, kafka)
    named = (allowed_endpoints(allow_endpoint), local_folders(local_folder))
    access = _host_access(allow_host_access or ())
    vms = local_vms(
        folder,
        registries[1],
        allowed=named[0],
        images=images,
        isolation=isolation,
        max_pods=max_pods,
        expose=expose or (),
        host_access=access,
    )
    settings = Settings(
        folder=folder,
        host=host,
        port=port,
        nodes=nodes,
        isolation=_mode(isolation),
        images=_image_map(images),
        gpus=_gpus(gpus),
        max_pods=max_pods,
        expose=[path.absolute() for path in expose or ()],
        host_access=access,
        token_file=token_file,
        audit_policy=_absolute(audit_policy),
        audit_log=_audit_log(folder, audit_log, audit_log_size, audit_log_backups, audit_log_age),
        share_without_isolation=share_without_isolation,
        registries=registries[1],
        allowed_endpoints=named[0],
        additions=[
            *([_operator(known, own_broker, registries, vms, named)] if operator else ()),
            *([_gateway(host, gateway_port, port, registries[1])] if gateway else ()),
            *([broker_part(own_broker)] if own_broker else ()),
            *([registry_part(own_registry)] if own_registry else ()),
        ],
        verbose=verbose,
    )
    private_umask()
    tell = _detach(settings.folder) if detach else _foreground

    def ready(path: Path, facts: Facts) -> None:
        warning = _no_boundary(facts, shared=share_without_isolation)
        tell(_ready_line(path, facts), 0, warning)

    try:
        run(settings, ready=ready, say=complain)
    except (FolderError, PartFailed) as err:
        tell(f"corral: {err}", 1, "")
        raise typer.Exit(1) from err


def _absolute(path: Path | None) -> Path | None:
    return path.expanduser().absolute() if path else None


def _audit_log(
    folder: DataFolder, path: Path | None, size: int, backups: int, age: int
) -> LogSettings:
    from corral.cluster.apiserver.audit.log import LogSettings

    return LogSettings(_absolute(path) or folder.log("audit"), size, backups, age)


def _operator(
    kafka: tuple[str, str],
    own_broker: LocalBroker | None,
    registries: tuple[str, dict[str, str], dict[str, str]],
    vms: LocalVms,
    named: tuple[tuple[str, ...], tuple[tuple[str, Path], ...]],
) -> Addition:
    """The operator as a part of a cluster; ``kafka``: for itself, and for pods."""
    from corral.api import all_crds
    from corral.cluster.up.cluster import Addition

    async def run(folder: DataFolder, ready: Ready) -> None:
        from corral.operator.local import Bounds, run_part

        own = folder.credentials("operator")
        await run_part(
            folder.kubeconfig,
            own,
            folder.checkpoints,
            ready,
            kafka=kafka,
            kafka_secret=own_broker.secret if own_broker is not None else "",
            registries=registries,
            vms=vms,
            bounds=Bounds(allow_endpoints=named[0], local_folders=named[1]),
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
                "choose another port with --gateway-port (0 picks free ones)"
            ) from err

    return Addition("gateway", "", run, ("corral.gateway.local",))


def _ready_line(kubeconfig: Path, facts: Facts) -> str:
    dashboard = facts.get("gateway", {}).get("url", "none")
    return f"corral is ready: KUBECONFIG={kubeconfig} dashboard={dashboard}"


def _no_boundary(facts: Facts, *, shared: bool) -> str:
    """What people must know of a cluster that cannot keep its pods apart; else nothing."""
    from corral.cluster.marks import PLAIN

    nodes = [fact["name"] for fact in facts.values() if fact.get("isolation") == PLAIN]
    if not nodes:
        return _shared_network(facts)
    others = (
        "and so can pods of everybody who is given rights here (--share-without-isolation)"
        if shared
        else "so nobody else can be given rights here"
    )
    return (
        f"pods are not kept apart ({', '.join(nodes)}: mode plain): each can do all that the "
        f"user running it can, with the administrator's credentials, {others}; for isolation run "
        "it as root, or where user namespaces are allowed"
    )


def _shared_network(facts: Facts) -> str:
    """What people must know of pods that are kept apart, but for the network; else nothing."""
    nodes = [
        detail["name"] for detail in facts.values() if detail.get("isolation") == Isolation.user
    ]
    if not nodes:
        return ""
    return (
        f"pods share this machine's network, loopback and abstract sockets included, and one user "
        f"id ({', '.join(nodes)}: mode user): any service there without a login is open to all "
        "pods; run it as root to give each pod its own network"
    )


def _foreground(line: str, code: int, warning: str) -> None:
    if warning:
        complain(warning)
    say(line, err=bool(code), flush=True)


def _detach(folder: Any) -> Callable[[str, int, str], None]:
    """Go on in a process of its own; this one returns what that one tells, and ends."""
    notified, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(notified, "rb") as file:
            detail = file.readline()  # to the end would be: until the parts have ended too
        if not detail.endswith(b"\n"):
            problem = f"corral: the cluster did not start; see {folder.path / 'logs'}"
            _foreground(problem, 1, "")
            raise typer.Exit(1)
        line, code, warning = json.loads(detail)
        _foreground(line, code, warning)
        raise typer.Exit(code)
    os.close(notified)
    os.setsid()
    _to_log(folder.log("corral"))

    def answer(line: str, code: int, warning: str) -> None:
        os.write(tell, json.dumps([line, code, warning]).encode() + b"\n")
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
    timeout: Annotated[
        float, typer.Option(help="Maximum time to wait for the shutdown, in seconds.")
    ] = 120.0,
) -> None:
    """Stop a local cluster; its data is kept, and `corral up` continues with it."""
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
    say("corral is down" if was_running else f"no cluster is running on {folder.path}")


# -- the parts alone -------------------------------------------------------------------------------


def apiserver(
    data_dir: DataDir = DEFAULT_DIR,
    port: Port = 6443,
    host: Host = "127.0.0.1",
    token_file: Tokens = None,
    audit_policy: AuditPolicy = None,
    audit_log: AuditPath = None,
    audit_log_size: AuditSize = 100,
    audit_log_backups: AuditBackups = 10,
    audit_log_age: AuditAge = 0,
    verbose: Verbose = False,
) -> None:
    """Run the Kubernetes API server: one process, one data folder."""
    from corral.cluster.up import parts
    from corral.cluster.up.folder import DataFolder

    folder = DataFolder(data_dir.expanduser().absolute())
    settings = parts.ServerSettings(
        folder,
        host,
        port,
        token_file=token_file,
        audit_policy=_absolute(audit_policy),
        audit_log=_audit_log(folder, audit_log, audit_log_size, audit_log_backups, audit_log_age),
    )

    def ready(facts: dict[str, Any]) -> None:
        where = f"https://{host}:{facts['port']} KUBECONFIG={facts['kubeconfig']}"
        say(f"corral apiserver is ready: {where}", flush=True)

    _run(parts.apiserver(settings, ready), verbose=verbose)


def workloads(
    kubeconfig: Kubeconfig = None,
    controllers: Annotated[
        str, typer.Option(help="Controllers to run, comma-separated (default: all).")
    ] = "",
    claims_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for volumes of PersistentVolumeClaims (default: none are provisioned)."
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Run the workload controllers (the equivalent of kube-controller-manager)."""
    from corral.cluster.up import parts

    names = [name.strip() for name in controllers.split(",") if name.strip()] or None
    run = parts.workloads(kubeconfig, _said("workloads"), names=names, claims=claims_dir)
    _run(run, verbose=verbose)


def scheduler(
    kubeconfig: Kubeconfig = None,
    name: Annotated[
        str, typer.Option(help="Schedule pods with this schedulerName.")
    ] = "default-scheduler",
    verbose: Verbose = False,
) -> None:
    """Run the pod scheduler."""
    from corral.cluster.up import parts

    _run(parts.scheduler(kubeconfig, _said("scheduler"), name=name), verbose=verbose)


def node(
    kubeconfig: Kubeconfig = None,
    name: Annotated[str, typer.Option(help="Node name (default: the host name).")] = "",
    data_dir: DataDir = Path("~/.corral-node"),
    port: Annotated[int, typer.Option(help="Port of the kubelet API; 0 picks a free one.")] = 0,
    address: Annotated[str, typer.Option(help="Address of the node.")] = "127.0.0.1",
    isolation: Isolated = Isolation.auto,
    images: Images = None,
    gpus: Gpus = "auto",
    max_pods: MaxPods = 250,
    max_processes: Annotated[
        int, typer.Option(min=16, help="Maximum number of processes and threads per container.")
    ] = 4096,
    expose: Expose = None,
    allow_host_access: HostAccess = None,
    job_folder: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder for job data in NAMESPACE/JOB/UID, which pods of the namespace may mount; "
            "repeatable."
        ),
    ] = None,
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: address of a registry for Wasm module images; repeatable."),
    ] = None,
    allow_endpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="CIDR-or-host[:port] of a non-public registry that pods may use; repeatable."
        ),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="CA file to verify the client certificate of the API server."),
    ] = None,
    marks: Annotated[
        Path | None, typer.Option(help="File with labels and taints for the Node (JSON or YAML).")
    ] = None,
    keep_pods: Annotated[
        bool, typer.Option("--keep-pods", help="Keep pods running when the node agent stops.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run this machine as a node of a cluster; pods run as processes."""
    from corral.cluster.node.agent import AgentConfig
    from corral.cluster.node.container.images import ImageMap
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
        max_processes=max_processes,
        expose=[path.absolute() for path in expose or ()],
        host_access=_host_access(allow_host_access or ()),
        job_folders=[path.absolute() for path in job_folder or ()],
        registries=_elsewhere(registry_map or []),
        allowed_endpoints=allowed_endpoints(allow_endpoint),
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
    return lambda facts: say(f"corral {what} is ready", flush=True)


def _run(part: Coroutine[Any, Any, None], *, verbose: bool) -> None:
    from corral.cluster.up.supervisor import Expected
    from corral.runtime.logcontext import configure_logging
    from corral.runtime.serving import eventloop

    configure_logging(level=logging.DEBUG if verbose else logging.WARNING)

    private_umask()
    try:
        eventloop.run(part)
    except Expected as err:
        raise fail(err) from err


# -- options ---------------------------------------------------------------------------------------


def _host_access(words: Sequence[str]) -> tuple[str, ...]:
    """What pods may have of the machine. Raises BadParameter."""
    from corral.cluster.node.container.security import HOST_ACCESS

    found = {name.strip() for word in words for name in word.split(",") if name.strip()}
    if unknown := found - {*HOST_ACCESS, "all"}:
        known = ", ".join((*HOST_ACCESS, "all"))
        raise typer.BadParameter(f"--allow-host-access {min(unknown)}: use {known}")
    return tuple(sorted(HOST_ACCESS if "all" in found else found))


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
    from corral.cluster.node.container.images import DEFAULT, Image, ImageMap

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

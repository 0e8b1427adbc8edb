"""``corral operator``, ``corral install`` and ``corral uninstall``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.bounds import allowed_endpoints, local_folders
from corral.cli.machines import machine_settings
from corral.cli.views.output import Format, complain, fail, say, show_documents
from corral.files.private import data_folder, private_folder, private_umask

if TYPE_CHECKING:
    from corral.kube import KubeClient, Obj
    from corral.oci import Credentials
    from corral.operator.manifests import InstallSettings
    from corral.operator.settings import ProcessSettings

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Path of the kubeconfig (default: KUBECONFIG, ~/.kube/config, then in-cluster)."
    ),
]
Namespace = Annotated[str, typer.Option(help="Namespace of the operator.")]
Image = Annotated[
    str, typer.Option(help="Container image with `corral` (default: the image of this version).")
]
Replicas = Annotated[int, typer.Option(min=1, help="Number of operator replicas.")]
Timeout = Annotated[float, typer.Option(help="Maximum time to wait, in seconds.")]
_NONE = "; -1 disables it"


class LogFormat(StrEnum):
    """How to log."""

    json = "json"
    text = "text"


def operator(
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "--namespace-of-lease",
            help="Namespace of the Lease, certificates and Services.",
        ),
    ] = "corral-system",
    leader_elect: Annotated[
        bool,
        typer.Option(
            help="Use leader election; disable only if there is never more than one replica."
        ),
    ] = True,
    lease_duration: Annotated[
        float,
        typer.Option(help="Seconds after which a lease that is not renewed can be taken over."),
    ] = 15.0,
    renew_deadline: Annotated[
        float, typer.Option(help="Seconds that the leader keeps trying to renew the lease.")
    ] = 10.0,
    retry_period: Annotated[
        float, typer.Option(help="Seconds between attempts to acquire or renew the lease.")
    ] = 2.0,
    processes: Annotated[
        int,
        typer.Option(min=1, help="Number of processes that share the work; each uses one core."),
    ] = 1,
    share: Annotated[int, typer.Option(min=0, hidden=True)] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Concurrent reconciles per kind.")] = 10,
    resync: Annotated[float, typer.Option(help="Seconds between full resyncs.")] = 300.0,
    gang_scheduling: Annotated[
        str,
        typer.Option(
            help="Gang scheduler for MPIJobs: volcano, or the name of a scheduler with PodGroups."
        ),
    ] = "",
    cluster_domain: Annotated[
        str,
        typer.Option(
            help="Cluster DNS domain for MPIJob host names, such as cluster.local (default: none)."
        ),
    ] = "",
    mpi_agent: Annotated[
        bool,
        typer.Option(help="Launch MPIJobs on process nodes with the Corral agent instead of ssh."),
    ] = False,
    health_port: Annotated[
        int, typer.Option(help=f"Port for health checks and metrics{_NONE}.")
    ] = 8081,
    webhook_port: Annotated[
        int, typer.Option(help=f"Port of the admission webhooks{_NONE}.")
    ] = 9443,
    webhook_host: Annotated[
        str,
        typer.Option(
            help="Address where the API server reaches the webhooks (default: a Service)."
        ),
    ] = "",
    report_port: Annotated[
        int, typer.Option(help=f"Port of the endpoint for progress reports of pods{_NONE}.")
    ] = 9444,
    report_url: Annotated[
        str, typer.Option(help="URL where pods reach the report endpoint (default: the Service).")
    ] = "",
    report_address: Annotated[
        str, typer.Option(help="Endpoint address of the report Service (default: a pod selector).")
    ] = "",
    store_endpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="Object store endpoint that the operator's own credentials may be sent to."
        ),
    ] = None,
    store_bucket: Annotated[
        list[str] | None,
        typer.Option(help="URL prefix where those credentials may be used, such as s3://training."),
    ] = None,
    registry: Annotated[
        str,
        typer.Option(help="Registry for models and updates, such as oci://registry.corral.local."),
    ] = "",
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: address of a registry as seen from the operator; repeatable."),
    ] = None,
    pod_registry_map: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=URL: registry address as seen from pods (default: --registry-map)."
        ),
    ] = None,
    courier_image: Annotated[
        str,
        typer.Option(
            help="Image of the sidecar that transfers models and updates; must contain `corral`."
        ),
    ] = "corral/courier",
    kubelet_ca: Annotated[
        Path | None,
        typer.Option(
            help="CA file to verify kubelet certificates (default: the CA of the API server)."
        ),
    ] = None,
    kafka: Annotated[
        str,
        typer.Option(help="HOST:PORT of the Kafka brokers, comma-separated (default: no Kafka)."),
    ] = "",
    pod_kafka: Annotated[
        str,
        typer.Option(help="HOST:PORT of the Kafka brokers as seen from pods (default: --kafka)."),
    ] = "",
    kafka_secret: Annotated[
        str,
        typer.Option(
            help="Default Secret with the Kafka login, looked up in the namespace of each object."
        ),
    ] = "",
    cert_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with tls.crt, tls.key and ca.crt (default: a self-signed CA)."),
    ] = None,
    local_root: Annotated[
        Path | None, typer.Option(help="Folder of storage.local checkpoints on this machine.")
    ] = None,
    local_folder: Annotated[
        list[str] | None,
        typer.Option(
            help="NAMESPACE=DIR: folder that its jobs may use in storage.local; repeatable."
        ),
    ] = None,
    allow_endpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="CIDR-or-host[:port] of a non-public server that users may refer to; repeatable."
        ),
    ] = None,
    local_vms: Annotated[
        Path | None,
        typer.Option(
            help="Folder for local VMs, which are processes of this machine (spec.local)."
        ),
    ] = None,
    local_vm_authority: Annotated[
        Path | None,
        typer.Option(
            help="Folder with ca.crt and ca.key of the CA that the API server trusts for nodes."
        ),
    ] = None,
    local_vm_option: Annotated[
        list[str] | None,
        typer.Option(
            help="Extra `corral node` option for local VMs, such as --isolation=plain; repeatable."
        ),
    ] = None,
    local_vm_most: Annotated[int | None, typer.Option(help="Maximum number of local VMs.")] = None,
    local_vm_most_per_namespace: Annotated[
        int | None, typer.Option(help="Maximum number of local VMs per namespace.")
    ] = None,
    lend_identity: Annotated[
        list[str] | None,
        typer.Option(
            help="NAMESPACE=CLOUD[:ACCOUNT]: namespace whose spot jobs without a Secret use the "
            "operator's cloud identity; repeatable."
        ),
    ] = None,
    join_namespace: Annotated[
        list[str] | None,
        typer.Option(
            help="Namespace whose machines get join tokens; *: all namespaces; repeatable."
        ),
    ] = None,
    cloud_option: Annotated[
        list[str] | None,
        typer.Option(
            help="CLOUD.NAME=VALUE: cloud provider option, such as aws.endpoint=URL; repeatable."
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",
    log_format: Annotated[LogFormat, typer.Option(help="Log format.")] = LogFormat.json,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Run the operator until SIGTERM: controllers, webhooks, reports, health and metrics."""
    from corral.operator.settings import ProcessSettings
    from corral.runtime.leadership.election import ElectionSettings
    from corral.runtime.logcontext import configure_logging
    from corral.runtime.sharing import Share

    configure_logging(log_format.value, level=logging.DEBUG if verbose else logging.INFO)
    try:
        election = ElectionSettings(lease_duration, renew_deadline, retry_period)
        part = Share(share, processes)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err
    settings = ProcessSettings(
        namespace=namespace,
        leader_elect=leader_elect,
        election=election,
        share=part,
        workers=workers,
        resync=resync,
        gang_scheduler=gang_scheduling,
        cluster_domain=cluster_domain,
        mpi_agent=mpi_agent,
        health_host=listen,
        health_port=_port(health_port, share),
        webhook_host=listen,
        webhook_port=_port(webhook_port),
        webhook_url_host=webhook_host,
        report_host=listen,
        report_port=_port(report_port),
        report_url=report_url,
        report_address=report_address,
        store_endpoints=tuple(store_endpoint or ()),
        store_buckets=tuple(store_bucket or ()),
        registry=_registry(registry),
        registry_map=_registry_map(registry_map),
        pod_registry_map=_registry_map(pod_registry_map),
        courier_image=courier_image,
        kubelet_ca=str(kubelet_ca.absolute()) if kubelet_ca else "",
        kafka=kafka,
        pod_kafka=pod_kafka,
        kafka_secret=kafka_secret,
        machines=machine_settings(
            local_vms,
            local_vm_authority,
            local_vm_option,
            cloud_option,
            allowed=allowed_endpoints(allow_endpoint),
            lent=lend_identity,
            join_namespaces=join_namespace,
            most=local_vm_most,
            most_per_namespace=local_vm_most_per_namespace,
        ),
        cert_dir=cert_dir,
        local_root=_local_root(local_root),
        local_folders=local_folders(local_folder),
        allow_endpoints=allowed_endpoints(allow_endpoint),
    )
    _run(_operate(kubeconfig, settings))


def _local_root(path: Path | None) -> Path | None:
    """The folder of all jobs, out of others' reach. Raises BadParameter."""
    if path is None:
        return None
    try:
        private_folder(data_folder(path.absolute()))
    except OSError as err:
        raise typer.BadParameter(f"--local-root: {err}") from err
    return path.absolute()


def _registry(written: str) -> str:
    """Checked by what it is used for: the beginning of references."""
    from corral.oci import Reference, RegistryError

    base = written.rstrip("/")
    try:
        return str(Reference.parse(f"{base}/any")).removesuffix("/any") if base else ""
    except RegistryError as err:
        raise typer.BadParameter(f"--registry: {err}") from err


def _registry_map(pairs: list[str] | None) -> tuple[str, ...]:
    from corral.oci import RegistryError, endpoints

    try:
        endpoints(pairs or ())
    except RegistryError as err:
        raise typer.BadParameter(str(err)) from err
    return tuple(pairs or ())


def _port(number: int, offset: int = 0) -> int | None:
    if number <= 0:
        return None if number < 0 else 0
    return number + offset


def _partners(settings: ProcessSettings) -> list[list[str]]:
    """This very command once for each other share."""
    this = [sys.executable, "-m", "corral.cli.main", *sys.argv[1:]]
    return [[*this, "--share", str(number)] for number in range(1, settings.share.count)]


async def _operate(kubeconfig: Path | None, settings: ProcessSettings) -> None:
    from corral.kube.connection.kubeconfig import load_config
    from corral.operator.process import OperatorProcess, operator_client

    def ready() -> None:
        say("corral operator is ready", flush=True)

    private_umask()

    async with operator_client(load_config(kubeconfig)) as client:
        process = OperatorProcess(client, settings, on_ready=ready, partners=_partners(settings))
        await process.run()


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Problems of the surroundings are told in one line; others with all that is known."""
    from corral.kube import ApiError, ConfigError, KubeConnectionError
    from corral.operator.install import NotInTime
    from corral.operator.partners import PartnerLost
    from corral.operator.process import DefinitionsMissing
    from corral.operator.tls import BadFolder
    from corral.runtime import CacheSyncTimeout, LeadershipLost
    from corral.runtime.serving import eventloop

    try:
        eventloop.run(work)
    except (
        ApiError,
        BadFolder,
        CacheSyncTimeout,
        ConfigError,
        DefinitionsMissing,
        KubeConnectionError,
        LeadershipLost,
        NotInTime,
        OSError,
        PartnerLost,
    ) as err:
        raise fail(err) from err


# -- installation ----------------------------------------------------------------------------------


def install(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "corral-system",
    image: Image = "",
    replicas: Replicas = 2,
    workers: Annotated[int, typer.Option(min=1, help="Concurrent reconciles per kind.")] = 10,
    in_namespace: Annotated[
        list[str] | None,
        typer.Option(
            help="Namespace in which the operator may create pods and read Secrets; repeatable "
            "(default: all)."
        ),
    ] = None,
    allow_metadata: Annotated[
        bool, typer.Option(help="Allow Corral pods to reach the instance metadata service.")
    ] = False,
    pin: Annotated[
        bool, typer.Option("--pin", help="Resolve the image tag and install the image by digest.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the manifests instead of applying them.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate on the server without saving.")
    ] = False,
    gateway: Annotated[bool, typer.Option(help="Install the gateway.")] = True,
    wait: Annotated[bool, typer.Option(help="Wait until the operator is ready.")] = True,
    timeout: Timeout = 180.0,
) -> None:
    """Install or upgrade the operator in a cluster (server-side apply)."""
    from corral.operator.manifests import InstallSettings

    settings = InstallSettings(
        namespace,
        _image(image or InstallSettings().image, pin=pin),
        replicas,
        workers,
        tenants=tuple(in_namespace or ()),
        allow_metadata=allow_metadata,
    )
    objects = _objects(settings, gateway=gateway)
    if print_only:
        show_documents(objects, Format.yaml)
        return
    _run(_install(kubeconfig, objects, namespace, dry_run=dry_run, wait=wait, within=timeout))


def uninstall(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "corral-system",
    definitions: Annotated[
        bool,
        typer.Option(
            "--definitions",
            help="Delete the CustomResourceDefinitions too, and with them all jobs.",
        ),
    ] = False,
    timeout: Timeout = 180.0,
) -> None:
    """Uninstall the operator from a cluster; jobs are kept unless --definitions is given."""
    _run(_uninstall(kubeconfig, namespace, definitions=definitions, within=timeout))


def _image(image: str, *, pin: bool) -> str:
    """The image with its digest, where that is asked for."""
    if "@sha256:" in image:
        return image
    if not pin:
        complain(f"{image} is a tag, which can be moved to another image: use a digest, or --pin")
        return image
    from corral.oci import RegistryError
    from corral.runtime.serving import eventloop

    try:
        return eventloop.run(_pinned(image, _logins()))
    except RegistryError as err:
        raise fail(err) from err


def _logins() -> Credentials:
    """Those of this machine's container tools."""
    from corral.oci import Credentials, docker_config

    path = Path("~/.docker/config.json").expanduser()
    return (
        docker_config({".dockerconfigjson": path.read_bytes()}) if path.exists() else Credentials()
    )


async def _pinned(image: str, logins: Credentials) -> str:
    from corral.oci import Artifacts, Reference, Registries

    async with Artifacts(Registries(credentials=logins)) as artifacts:
        return (await artifacts.pinned(Reference.parse(image))).image


def _client(kubeconfig: Path | None) -> KubeClient:
    from corral.kube import KubeClient

    path = str(kubeconfig) if kubeconfig else None
    return KubeClient.from_kubeconfig(path, on_warning=complain)


def _objects(settings: InstallSettings, *, gateway: bool = True) -> list[Obj]:
    """Everything that is installed, in order."""
    from corral.gateway import manifests
    from corral.operator.manifests import install_objects
    from corral.operator.network import network_policy

    if not gateway:
        return install_objects(settings)
    chosen = manifests.GatewayInstall(namespace=settings.namespace, image=settings.image)
    policy = network_policy(
        manifests.NAME,
        settings.namespace,
        manifests.SELECTOR,
        manifests.PORTS,
        labels=manifests.LABELS,
    )
    return [*install_objects(settings), *manifests.gateway_objects(chosen), policy]


async def _install(
    kubeconfig: Path | None,
    objects: Sequence[Obj],
    namespace: str,
    *,
    dry_run: bool,
    wait: bool,
    within: float,
) -> None:
    from corral.operator import install as steps

    kind = "CustomResourceDefinition"
    definitions = [o["metadata"]["name"] for o in objects if o["kind"] == kind]
    async with _client(kubeconfig) as client:
        await steps.apply_objects(client, objects, dry_run=dry_run, say=print)
        if dry_run:
            return
        await steps.wait_served(client, definitions, within=within)
        if wait:
            await steps.wait_serving(client, namespace, within=within)
            say("corral is installed")


async def _uninstall(
    kubeconfig: Path | None, namespace: str, *, definitions: bool, within: float
) -> None:
    from corral.operator.install import remove_objects
    from corral.operator.manifests import InstallSettings

    objects = [
        obj
        for obj in _objects(InstallSettings(namespace))
        if definitions or obj["kind"] != "CustomResourceDefinition"
    ]
    async with _client(kubeconfig) as client:
        await remove_objects(client, objects, within=within, say=print)
    say("corral is uninstalled")

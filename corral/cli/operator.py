"""``corral operator``, ``corral install`` and ``corral uninstall``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.machines import machine_settings
from corral.cli.output import Format, complain, fail, show_documents

if TYPE_CHECKING:
    from corral.kube import KubeClient, Obj
    from corral.operator.manifests import InstallSettings
    from corral.operator.settings import ProcessSettings

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Cluster to work for; else KUBECONFIG, else ~/.kube/config, else that of the pod."
    ),
]
Namespace = Annotated[str, typer.Option(help="Where the operator and what it shares are.")]
Image = Annotated[
    str, typer.Option(help="Container image that has `corral`; else of this version.")
]
Replicas = Annotated[int, typer.Option(min=1, help="Replicas of the operator.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.")]
_NONE = "; -1 serves none"


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
            help="Where Lease, certificates and Services are.",
        ),
    ] = "corral-system",
    leader_elect: Annotated[
        bool, typer.Option(help="Work only while leading; off where there is one replica, ever.")
    ] = True,
    lease_duration: Annotated[float, typer.Option(help="Seconds a silent leader is left.")] = 15.0,
    renew_deadline: Annotated[float, typer.Option(help="Seconds a leader tries to renew.")] = 10.0,
    retry_period: Annotated[float, typer.Option(help="Seconds between two tries.")] = 2.0,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that share the work; each uses one core.")
    ] = 1,
    share: Annotated[int, typer.Option(min=0, hidden=True)] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Reconciles at the same time.")] = 10,
    resync: Annotated[float, typer.Option(help="Seconds until all is looked at again.")] = 300.0,
    gang_scheduling: Annotated[
        str,
        typer.Option(help="For MPIJobs: volcano, or the name of a scheduler with PodGroups."),
    ] = "",
    cluster_domain: Annotated[
        str, typer.Option(help="Ends the names of hosts in MPIJobs, such as cluster.local.")
    ] = "",
    mpi_agent: Annotated[
        bool, typer.Option(help="Launch MPIJobs on process nodes by our agent instead of ssh.")
    ] = False,
    health_port: Annotated[int, typer.Option(help=f"Port of health and metrics{_NONE}.")] = 8081,
    webhook_port: Annotated[int, typer.Option(help=f"Port of webhooks{_NONE}.")] = 9443,
    webhook_host: Annotated[
        str,
        typer.Option(help="Address by which the API server reaches this process; else a Service."),
    ] = "",
    report_port: Annotated[int, typer.Option(help=f"Port of reports{_NONE}.")] = 9444,
    report_url: Annotated[
        str, typer.Option(help="Where pods reach the report endpoint; else the Service.")
    ] = "",
    report_address: Annotated[
        str, typer.Option(help="Have the Service of reports lead here; else it has a selector.")
    ] = "",
    store_endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Object store that the operator's own credentials may be sent to."),
    ] = None,
    store_bucket: Annotated[
        list[str] | None,
        typer.Option(help="Address below which they may be used, such as s3://training."),
    ] = None,
    registry: Annotated[
        str,
        typer.Option(
            help="Where models and updates are kept, such as oci://registry.corral.local."
        ),
    ] = "",
    registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: where a registry of this name is reached from here."),
    ] = None,
    pod_registry_map: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: the same from within pods; else as from here."),
    ] = None,
    courier_image: Annotated[
        str, typer.Option(help="What carries models and updates beside tasks: has this program.")
    ] = "corral/courier",
    kubelet_ca: Annotated[
        Path | None,
        typer.Option(help="Authorities of kubelets' certificates; else those of the API server."),
    ] = None,
    kafka: Annotated[
        str, typer.Option(help="HOST:PORT of Kafka, several with commas between; else none.")
    ] = "",
    pod_kafka: Annotated[
        str, typer.Option(help="The same from within pods; else as from here.")
    ] = "",
    cert_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with tls.crt, tls.key and ca.crt; else an authority of our own."),
    ] = None,
    local_root: Annotated[
        Path | None, typer.Option(help="Where checkpoints of storage.local lie on this machine.")
    ] = None,
    local_vms: Annotated[
        Path | None,
        typer.Option(help="Folder of machines that are processes of this one (spec.local)."),
    ] = None,
    local_vm_authority: Annotated[
        Path | None,
        typer.Option(help="Folder with ca.crt and ca.key, by which the API server knows nodes."),
    ] = None,
    local_vm_option: Annotated[
        list[str] | None,
        typer.Option(help="A word more for their `corral node`, such as --isolation=plain."),
    ] = None,
    cloud_option: Annotated[
        list[str] | None,
        typer.Option(help="CLOUD.NAME=VALUE: an option of a cloud, such as aws.endpoint=URL."),
    ] = None,
    listen: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.json,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run the operator: controllers, webhooks, reports, health and metrics, until SIGTERM."""
    from corral.operator.settings import ProcessSettings
    from corral.runtime.election import ElectionSettings
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
        machines=machine_settings(local_vms, local_vm_authority, local_vm_option, cloud_option),
        cert_dir=cert_dir,
        local_root=local_root.absolute() if local_root else None,
    )
    _run(_operate(kubeconfig, settings))


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
    from corral.kube.kubeconfig import load_config
    from corral.operator.process import OperatorProcess, operator_client

    def ready() -> None:
        print("corral operator is ready", flush=True)

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
    from corral.runtime import CacheSyncTimeout, LeadershipLost, eventloop

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
    workers: Annotated[int, typer.Option(min=1, help="Reconciles at the same time.")] = 10,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the objects for kubectl; change nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Have them checked only.")] = False,
    gateway: Annotated[bool, typer.Option(help="Install the gateway too.")] = True,
    wait: Annotated[bool, typer.Option(help="Wait until the operator serves.")] = True,
    timeout: Timeout = 180.0,
) -> None:
    """Install the operator into a cluster, or upgrade it: server-side apply."""
    settings = _install_settings(namespace, image, replicas, workers)
    objects = _objects(settings, gateway=gateway)
    if print_only:
        show_documents(objects, Format.yaml)
        return
    _run(_install(kubeconfig, objects, namespace, dry_run=dry_run, wait=wait, within=timeout))


def uninstall(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "corral-system",
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Definitions too, with every job there is.")
    ] = False,
    timeout: Timeout = 180.0,
) -> None:
    """Remove the operator from a cluster; jobs stay unless definitions go too."""
    _run(_uninstall(kubeconfig, namespace, definitions=definitions, within=timeout))


def _install_settings(namespace: str, image: str, replicas: int, workers: int) -> InstallSettings:
    from corral.operator.manifests import InstallSettings

    chosen = InstallSettings(namespace, replicas=replicas, workers=workers)
    return InstallSettings(namespace, image or chosen.image, replicas, workers)


def _client(kubeconfig: Path | None) -> KubeClient:
    from corral.kube import KubeClient

    path = str(kubeconfig) if kubeconfig else None
    return KubeClient.from_kubeconfig(path, on_warning=complain)


def _objects(settings: InstallSettings, *, gateway: bool = True) -> list[Obj]:
    """Everything that is installed, in order."""
    from corral.gateway.manifests import GatewayInstall, gateway_objects
    from corral.operator.manifests import install_objects

    chosen = GatewayInstall(namespace=settings.namespace, image=settings.image)
    return [*install_objects(settings), *(gateway_objects(chosen) if gateway else ())]


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
            print("corral is installed")


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
    print("corral is uninstalled")

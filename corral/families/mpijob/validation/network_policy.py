"""Area 4, network: who may talk to the pods, and that they find each other."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.mpi.spec import WORKER
from corral.api.mpi.template import ContainerPort
from corral.families.mpijob import names
from corral.families.mpijob.objects.networkpolicy import CHOICES, NONE
from corral.families.mpijob.validation.findings import (
    Findings,
    PlacedPod,
    Subject,
    advice,
    error,
    errors,
    policy,
)
from corral.families.mpijob.validation.formats import dns_subdomain
from corral.kube.problems import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)

__all__ = ["PATH", "check"]

PATH = f"metadata.annotations[{names.NETWORK_POLICY_ANNOTATION}]"
_MAX_SEARCHES = 32
_MAX_SEARCH_LENGTH = 2048 - 256
"""With room for the one that is added."""
_DNS_OF_THE_CLUSTER = ("ClusterFirst", "ClusterFirstWithHostNet", None)


def check(subject: Subject) -> Findings:
    chosen = subject.annotations.get(names.NETWORK_POLICY_ANNOTATION)
    if chosen is not None and chosen not in CHOICES:
        yield error(not_supported(PATH, chosen, CHOICES))
    elif subject.context.policy == "restricted" and (chosen or NONE) == NONE:
        why = "must be Isolated or Restricted in a restricted namespace"
        yield policy(required(PATH, why))
    for pod in subject.pods():
        yield from _host_access(pod)
        yield from _resolution(pod)


def _host_access(pod: PlacedPod) -> Findings:
    if pod.pod.host_network:
        why = "no NetworkPolicy applies to pods in the network of their node"
        yield policy(forbidden_field(f"{pod.path}.hostNetwork", why))
    for place in pod.all_containers:
        for i, port in enumerate(place.container.ports or ()):
            if port.host_port:
                path = f"{place.path}.ports[{i}].hostPort"
                yield policy(forbidden_field(path, "ports of the node must not be taken"))
                yield from errors(_host_port(path, port, host_network=bool(pod.pod.host_network)))


def _host_port(path: str, port: ContainerPort, *, host_network: bool) -> Iterator[FieldError]:
    number = port.host_port or 0
    if not 0 < number < 65536:
        yield invalid_value(path, number, "must be between 1 and 65535, inclusive")
    elif host_network and number != port.container_port:
        why = "must match `containerPort` when `hostNetwork` is true"
        yield invalid_value(path, number, why)


def _resolution(pod: PlacedPod) -> Findings:
    yield from _searches(pod)
    dns = pod.pod.dns_policy or None
    if dns not in _DNS_OF_THE_CLUSTER and not pod.pod.host_network:
        servers = pod.pod.dns_config.nameservers if pod.pod.dns_config is not None else None
        if dns == "None" and not servers:
            yield error(
                required(
                    f"{pod.path}.dnsConfig.nameservers",
                    "must provide at least one DNS nameserver when `dnsPolicy` is None",
                )
            )
        elif dns == "Default":
            text = "with Default, pods do not find the hosts of the job"
            yield advice(f"{pod.path}.dnsPolicy", text)
        elif dns != "None":
            known = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
            yield error(not_supported(f"{pod.path}.dnsPolicy", dns, known))


def _searches(pod: PlacedPod) -> Findings:
    """Workers are given one more domain to look in."""
    searches = (pod.pod.dns_config.searches if pod.pod.dns_config is not None else None) or []
    path, most = f"{pod.path}.dnsConfig.searches", _MAX_SEARCHES - (pod.role == WORKER)
    if len(searches) > most:
        yield error(too_many(path, len(searches), most))
    elif sum(len(search) + 1 for search in searches) > _MAX_SEARCH_LENGTH:
        yield error(too_long(path, _MAX_SEARCH_LENGTH))
    for i, search in enumerate(searches):
        for why in dns_subdomain(search.removesuffix(".").replace("_", "-")):
            yield error(invalid_value(f"{path}[{i}]", search, why))

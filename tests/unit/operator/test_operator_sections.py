"""Every option of a family reaches its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from corral.families.federated.learning import LearningSettings
from corral.families.federated.settings import FederatedSettings
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.families.mpijob import MPISettings
from corral.families.spot.machines.settings import MachineSettings
from corral.families.spot.settings import SpotSettings
from corral.families.trainingjob import TrainingSettings
from corral.operator import sections
from corral.operator.sections import Surroundings
from corral.operator.settings import ProcessSettings

SETTINGS = ProcessSettings(
    namespace="ns",
    workers=3,
    resync=77.0,
    gang_scheduler="volcano",
    cluster_domain="cluster.local",
    mpi_agent=True,
    report_url="https://reports:1",
    allow_endpoints=("10.0.0.0/8",),
    registry="oci://models",
    registry_map=("models=http://here:1",),
    pod_registry_map=("models=http://there:1",),
    courier_image="ours/courier",
    kafka="here:9092",
    pod_kafka="there:9092",
    kafka_secret="login",
    machines=MachineSettings(join_namespaces=("team",)),
    kubelet_ca="/ca.crt",
    local_root=Path("/data"),
)
AROUND = Surroundings(SETTINGS, "PEM")
MADE: dict[str, Any] = {
    "training": sections.training_settings(AROUND),
    "mpi": sections.mpi_settings(AROUND),
    "federated": sections.federated_settings(AROUND),
    "learning": sections.learning_settings(AROUND, lambda: "token"),
    "kafkaml": sections.kafkaml_settings(AROUND),
    "spot": sections.spot_settings(AROUND, lambda: "token"),
}
KINDS: dict[str, type] = {
    "training": TrainingSettings,
    "mpi": MPISettings,
    "federated": FederatedSettings,
    "learning": LearningSettings,
    "kafkaml": KafkaMLSettings,
    "spot": SpotSettings,
}
SHARED = {
    "courier_image": "ours/courier",
    "egress": SETTINGS.egress,
    "local_root": Path("/data"),
    "registry": "oci://models",
    "report_ca": "PEM",
    "report_url": "https://reports:1",
    "resync": 77.0,
    "workers": 3,
}


@pytest.mark.parametrize("family", MADE)
def test_what_all_families_share_reaches_each_that_knows_it(family: str) -> None:
    assert type(MADE[family]) is KINDS[family]
    names = {field.name for field in fields(KINDS[family])}
    found = {name: getattr(MADE[family], name) for name in SHARED if name in names}
    assert found == {name: value for name, value in SHARED.items() if name in names}


@pytest.mark.parametrize(
    ("option", "read", "expected"),
    [
        ("gang_scheduler", lambda m: m["mpi"].objects.gang_scheduler, "volcano"),
        ("cluster_domain", lambda m: m["mpi"].objects.cluster_domain, "cluster.local"),
        ("mpi_agent", lambda m: (m["mpi"].agent, m["mpi"].agent_by_default), (True, True)),
        ("registry_map", lambda m: m["spot"].registry_map, ("models=http://here:1",)),
        ("registry_map", lambda m: list(m["learning"].registries), ["models"]),
        ("pod_registry_map", lambda m: m["federated"].registry_map, ("models=http://there:1",)),
        ("pod_registry_map", lambda m: m["kafkaml"].registry_map, ("models=http://there:1",)),
        ("pod_registry_map", lambda m: m["spot"].registries, {"models": "http://there:1"}),
        ("kafka", lambda m: m["kafkaml"].own_kafka, "here:9092"),
        ("pod_kafka", lambda m: m["kafkaml"].kafka, "there:9092"),
        ("kafka_secret", lambda m: m["kafkaml"].secret, "login"),
        ("kubelet_ca", lambda m: m["spot"].kubelet_ca, "/ca.crt"),
        ("namespace", lambda m: m["spot"].kubelet_account, "ns/corral-kubelets"),
        ("machines", lambda m: m["spot"].machines.join_namespaces, ("team",)),
        ("workers", lambda m: m["spot"].machines.workers, 3),
        ("resync", lambda m: m["spot"].machines.resync, 77.0),
        ("allow_endpoints", lambda m: m["learning"].client.egress, SETTINGS.egress),
    ],
)
def test_what_is_one_family_s_reaches_it(
    option: str, read: Callable[[dict[str, Any]], Any], expected: Any
) -> None:
    assert option in {field.name for field in fields(ProcessSettings)}
    assert read(MADE) == expected


OF_THE_PROCESS = {
    "leader_elect", "election", "identity", "share", "health_host", "health_port", "webhook_host",
    "webhook_port", "webhook_url_host", "report_host", "report_port", "report_address",
    "store_endpoints", "store_buckets", "cert_dir", "local_folders", "handle_signals",
}  # fmt: skip
"""What no controller needs to know; stores and folders are asked of `corral.operator.reporting`."""
OF_FAMILIES = {
    "allow_endpoints", "cluster_domain", "courier_image", "gang_scheduler", "kafka", "kafka_secret",
    "kubelet_ca", "local_root", "machines", "mpi_agent", "namespace", "pod_kafka",
    "pod_registry_map", "registry", "registry_map", "report_url", "resync", "workers",
}  # fmt: skip
"""What the cases above are about."""


def test_every_setting_is_the_process_s_or_some_family_s() -> None:
    assert {field.name for field in fields(ProcessSettings)} == OF_THE_PROCESS | OF_FAMILIES

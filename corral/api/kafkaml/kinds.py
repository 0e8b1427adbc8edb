"""``kafkaml.corral.dev/v1alpha1``: models, data in topics, and federated training over Kafka.

The objects are what the REST interface and the web forms of the family show: there is no other
place where anything is kept. The parts are in `kafkaml_spec` and `kafkaml_status`, the rules beyond
the schema in `kafkaml_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Self

from corral.api import names
from corral.api.kafkaml import rules
from corral.api.kafkaml.spec import (
    DatasourceSpec,
    FederatedDeploymentSpec,
    InferenceSpec,
    MLConfigurationSpec,
    MLModelSpec,
)
from corral.api.kafkaml.status import (
    DatasourceStatus,
    FederatedDeploymentStatus,
    InferenceStatus,
    MLConfigurationStatus,
    MLModelStatus,
)
from corral.api.kind import Check, Column, Kind, Names
from corral.kube.problems import duplicate, forbidden_field

__all__ = [
    "DATASOURCES",
    "FEDERATEDDEPLOYMENTS",
    "GROUP",
    "INFERENCES",
    "KINDS",
    "MLCONFIGURATIONS",
    "MLMODELS",
    "VERSION",
    "Datasource",
    "FederatedDeployment",
    "Inference",
    "MLConfiguration",
    "MLModel",
]

GROUP: Final = names.KAFKAML_GROUP
VERSION: Final = names.KAFKAML_VERSION
_AGE = Column("Age", ".metadata.creationTimestamp", "date")


class MLModel(Kind):
    """MLModel is a model as code, checked in a sandbox."""

    names: ClassVar[Names] = names.MLMODEL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Framework", ".spec.framework"),
        Column("Phase", ".status.phase"),
        Column("Parameters", ".status.parameters", "integer"),
        Column("Input", ".status.inputShape", wide=True),
        _AGE,
    )

    spec: MLModelSpec
    status: MLModelStatus | None = None


class MLConfiguration(Kind):
    """MLConfiguration names models that are trained and compared together."""

    names: ClassVar[Names] = names.MLCONFIGURATION
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Models", ".spec.models"),
        _AGE,
    )

    spec: MLConfigurationSpec
    status: MLConfigurationStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        models = self.spec.models
        twice = [(i, name) for i, name in enumerate(models) if name in models[:i]]
        yield Check(("spec.models",), (duplicate(f"spec.models[{i}]", n) for i, n in twice))


class Datasource(Kind):
    """Datasource says where data is in topics, and how to read it."""

    names: ClassVar[Names] = names.DATASOURCE
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Topic", ".spec.topic"),
        Column("Format", ".spec.inputFormat"),
        Column("Messages", ".spec.totalMsg", "integer"),
        Column("Phase", ".status.phase"),
        _AGE,
    )

    spec: DatasourceSpec
    status: DatasourceStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield Check(("spec",), rules.datasource_problems(self.spec))
        if old is not None and old.spec != self.spec:
            why = "clients may have read it already; make another datasource instead"
            yield Check(("spec",), iter([forbidden_field("spec", why)]))


class FederatedDeployment(Kind):
    """FederatedDeployment trains models where their data is, over Kafka."""

    names: ClassVar[Names] = names.FEDERATEDDEPLOYMENT
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Round", ".status.currentRound", "integer"),
        Column("Rounds", ".spec.aggregation.rounds", "integer"),
        Column("Id", ".status.federatedStringId"),
        _AGE,
    )

    spec: FederatedDeploymentSpec
    status: FederatedDeploymentStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        spec = self.spec
        yield Check(("spec.configuration", "spec.model"), rules.source_problems(spec))
        modes = ("spec.incremental", "spec.unsupervised", "spec.streamTimeout")
        yield Check(modes, rules.mode_problems(spec))
        path = "spec.aggregation"
        yield Check((path,), rules.aggregation_problems(path, spec.aggregation))
        yield Check(("spec.topics",), rules.topic_problems("spec.topics", spec.topics))
        if old is not None and _fixed(spec) != _fixed(old.spec):
            why = "only suspend can change; make another deployment instead"
            yield Check(("spec",), iter([forbidden_field("spec", why)]))


def _fixed(spec: FederatedDeploymentSpec) -> FederatedDeploymentSpec:
    return spec.model_copy(update={"suspend": False})


class Inference(Kind):
    """Inference answers what comes on a topic with a trained model."""

    names: ClassVar[Names] = names.INFERENCE
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Input", ".spec.inputTopic"),
        Column("Output", ".spec.outputTopic"),
        Column("Ready", ".status.readyReplicas", "integer"),
        _AGE,
    )

    spec: InferenceSpec
    status: InferenceStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield Check(("spec",), rules.inference_problems(self.spec))


KINDS: Final[tuple[type[Kind], ...]] = (
    MLModel,
    MLConfiguration,
    Datasource,
    FederatedDeployment,
    Inference,
)
MLMODELS: Final = MLModel.resource()
MLCONFIGURATIONS: Final = MLConfiguration.resource()
DATASOURCES: Final = Datasource.resource()
FEDERATEDDEPLOYMENTS: Final = FederatedDeployment.resource()
INFERENCES: Final = Inference.resource()

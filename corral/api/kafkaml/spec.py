"""What the kinds of ``kafkaml.corral.dev`` ask for: their ``spec``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from corral.api.fields import AnyObject, Int32, Int64, Model, section
from corral.api.propeller.tasks import Reference

__all__ = [
    "FORMATS",
    "FRAMEWORKS",
    "Aggregation",
    "ClientSpec",
    "DatasourceSpec",
    "FederatedDeploymentSpec",
    "InferenceSpec",
    "Kafka",
    "MLConfigurationSpec",
    "MLModelSpec",
    "ModelSource",
    "Topics",
]

Framework = Literal["tf", "pth", "numpy"]
FRAMEWORKS: Final[tuple[str, ...]] = ("tf", "pth", "numpy")
Format = Literal["RAW", "AVRO", "JSON", "TELEGRAF_STR_JSON"]
FORMATS: Final[tuple[str, ...]] = ("RAW", "AVRO", "JSON", "TELEGRAF_STR_JSON")
Short = Annotated[str, StringConstraints(max_length=253)]
Code = Annotated[str, StringConstraints(max_length=262_144)]
Words = Annotated[str, StringConstraints(max_length=1024)]
Topic = Annotated[str, StringConstraints(max_length=249, pattern=r"^[a-zA-Z0-9._{}-]*$")]
Ranges = Annotated[str, StringConstraints(max_length=65_536)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[Int32, Field(ge=1)]


class Kafka(Model):
    """A Kafka cluster."""

    bootstrap_servers: Annotated[str, StringConstraints(max_length=4096)] = ""
    """As host:port,host:port; the operator's own if empty."""
    secret_ref: Reference | None = None
    """The Secret with ``username``, ``password`` and, if not SCRAM-SHA-512, ``mechanism``."""


class MLModelSpec(Model):
    """A model as code: what makes it, and what it is made with."""

    framework: Framework = "tf"
    """tf: Keras; pth: PyTorch; numpy: layers of this platform's own."""
    description: Annotated[str, StringConstraints(max_length=1024)] = ""
    imports: Code = ""
    """Run before the code."""
    code: Annotated[str, StringConstraints(min_length=1, max_length=262_144)]
    """Leaves ``model``: compiled Keras, or an nn.Module with loss_fn, optimizer and metrics."""
    distributed: bool = False
    """It is a part of a model: its last line is an expression."""
    father: Short = ""
    """The MLModel that it is a part of."""
    resources: AnyObject | None = None
    """Of the pod that checks it (core/v1 ResourceRequirements)."""
    check_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 120
    """How long checking it may take."""
    image: Words = ""
    """What it is checked and trained in; the platform's own for the framework if empty."""


class MLConfigurationSpec(Model):
    """Models that are trained and compared together."""

    description: Annotated[str, StringConstraints(max_length=1024)] = ""
    models: Annotated[list[Short], Field(min_length=1, max_length=100)]
    """The names of MLModels."""


class DatasourceSpec(Model):
    """Data in topics, and how to read it."""

    topic: Ranges
    """``topic:partition:start:end[,…]`` with exclusive ends; a topic's name where it goes on."""
    unsupervised_topic: Ranges | None = None
    input_format: Format = "RAW"
    input_config: AnyObject = Field(default_factory=dict)
    """RAW: data_type, data_reshape, label_type, label_reshape; AVRO: data_scheme, label_scheme."""
    description: Annotated[str, StringConstraints(max_length=1024)] = ""
    dataset_restrictions: AnyObject = Field(default_factory=dict)
    """Must be equal to what a deployment asks for."""
    validation_rate: Share = 0.0
    test_rate: Share = 0.0
    total_msg: Annotated[Int64, Field(ge=0)] | None = None
    incremental: bool = False
    """It goes on: topic is a plain name, and there is no total."""
    deployment: Short = ""
    """Only for this FederatedDeployment; for every one that it fits if empty."""
    federated_string_id: Annotated[str, StringConstraints(max_length=63)] = ""
    """Only for the deployment with this federated id; for every one that it fits if empty."""
    client_id: Annotated[str, StringConstraints(max_length=63)] = ""
    """Who the client of this data is; made from the object's name if empty."""
    label_weights: AnyObject | None = None
    kafka: Kafka = section(Kafka)
    """Where the data is, if not where the deployment is."""


class ModelSource(Model):
    """What a deployment trains: one of the two."""

    configuration: Short = ""
    """An MLConfiguration; every one of its models is trained."""
    model: Short = ""
    """An MLModel."""


class Topics(Model):
    """Names of topics; ``{id}`` is the federated id, ``{client}`` the client's."""

    data_control: Topic = "FEDERATED_DATA_CONTROL_TOPIC"
    model_announcements: Topic = "FEDERATED_MODEL_CONTROL_TOPIC"
    model_control: Topic = "FED-{id}-model_control_topic"
    model_data: Topic = "FED-{id}-model_data_topic"
    client_control: Topic = "FED-{id}-agg_control_topic"
    client_data: Topic = "FED-{id}-agg_data_topic-{client}"
    retain: bool = True
    """false: topics that were made for a deployment are removed with it."""


class Aggregation(Model):
    """How clients' weights become the next version of the model."""

    mode: Literal["sync", "async"] = "sync"
    """async: each update counts when it comes, less the older what it began from."""
    rounds: Annotated[Int32, Field(ge=1, le=100_000)] = 15
    strategy: Annotated[str, StringConstraints(max_length=64)] = "fedavg"
    config: AnyObject | None = None
    """The parameters of the strategy."""
    k_of_n: Count | None = None
    """How many updates make a round; those of all clients if absent."""
    timeout_seconds: Annotated[Int64, Field(ge=0)] = 600
    """Of a round; no limit if 0."""
    on_timeout: Literal["fail", "aggregate", "extend"] = "aggregate"
    min_updates: Count = 1
    """The fewest updates to aggregate when the time is over."""


class ClientSpec(Model):
    """The pods that train."""

    min: Count = 1
    """How many must be matched before the first round begins."""
    max: Count = 1000
    external: bool = False
    """Clients that others have started may take part: rounds begin without waiting for data."""
    resources: AnyObject | None = None
    image: Words = ""
    node_selector: dict[str, str] | None = None
    volumes: list[AnyObject] | None = None
    volume_mounts: list[AnyObject] | None = None


class FederatedDeploymentSpec(ModelSource):
    """A model that is trained where its data is, over Kafka."""

    federated_string_id: Annotated[
        str, StringConstraints(max_length=63, pattern=r"^[0-9A-Za-z-]*$")
    ] = ""
    """Names the topics; eight characters are made if empty."""
    aggregation: Aggregation = section(Aggregation)
    min_data: Annotated[Int64, Field(ge=0)] = 1000
    """The fewest messages that a datasource must have."""
    data_restriction: AnyObject = Field(default_factory=dict)
    """Must be equal to what a datasource says of itself."""
    batch: Count = 32
    kwargs_fit: AnyObject = Field(default_factory=dict)
    """Of a client's training: epochs and others."""
    kwargs_val: AnyObject = Field(default_factory=dict)
    optimizer: Short = ""
    """Instead of what the model is compiled with, as are loss and metrics."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    loss: Short = ""
    metrics: list[Short] | None = None
    incremental: bool = False
    stream_timeout: Int64 = 60_000
    """Milliseconds without data after which a client of a stream stops; -1: never."""
    unsupervised: bool = False
    unsupervised_rounds: Count = 5
    confidence: Annotated[float, Field(gt=0, le=1)] = 0.9
    legacy_weights: bool = False
    """Also read weights as pickled arrays, and nothing else of what pickles can say."""
    suspend: bool = False
    """No further round begins while it is true, and clients are stopped."""
    clients: ClientSpec = section(ClientSpec)
    server_resources: AnyObject | None = None
    topics: Topics = section(Topics)
    kafka: Kafka = section(Kafka)


class InferenceSpec(Model):
    """A trained model that answers on topics."""

    deployment: Short = ""
    """The FederatedDeployment whose model it is."""
    model: Short = ""
    """Which model of the deployment's configuration; its first if empty."""
    model_ref: Annotated[str, StringConstraints(max_length=2048)] = ""
    """Instead of a deployment: the artifact."""
    replicas: Annotated[Int32, Field(ge=0, le=1000)] = 1
    input_format: Format = "RAW"
    input_config: AnyObject = Field(default_factory=dict)
    input_topic: Annotated[str, StringConstraints(min_length=1, max_length=249)]
    output_topic: Annotated[str, StringConstraints(min_length=1, max_length=249)]
    limit: Annotated[float, Field(ge=0, le=1)] | None = None
    """Below this certainty the input goes on to outputUpper instead."""
    output_upper: Annotated[str, StringConstraints(max_length=249)] = ""
    stopped: bool = False
    resources: AnyObject | None = None
    image: Words = ""
    input_kafka: Kafka = section(Kafka)
    output_kafka: Kafka = section(Kafka)

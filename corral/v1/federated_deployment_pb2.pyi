from corral.v1 import core_pb2 as _core_pb2
from corral.v1 import jobs_pb2 as _jobs_pb2
from corral.v1 import objects_pb2 as _objects_pb2
from corral.v1 import status_pb2 as _status_pb2
from corral.v1 import value_pb2 as _value_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FederatedDeployment(_message.Message):
    __slots__ = ("api_version", "kind", "metadata", "spec", "status", "other_fields")
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    kind: str
    metadata: _core_pb2.ObjectMeta
    spec: FederatedDeploymentSpec
    status: FederatedDeploymentStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[FederatedDeploymentSpec, _Mapping]] = ..., status: _Optional[_Union[FederatedDeploymentStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class FederatedDeploymentSpec(_message.Message):
    __slots__ = ("configuration", "model", "federated_string_id", "aggregation", "min_data", "data_restriction", "batch", "kwargs_fit", "kwargs_val", "optimizer", "learning_rate", "loss", "metrics", "incremental", "stream_timeout", "unsupervised", "unsupervised_rounds", "confidence", "legacy_weights", "suspend", "clients", "server_resources", "topics", "kafka", "other_fields")
    class Aggregation(_message.Message):
        __slots__ = ("mode", "rounds", "strategy", "config", "k_of_n", "timeout_seconds", "on_timeout", "min_updates", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        MODE_FIELD_NUMBER: _ClassVar[int]
        ROUNDS_FIELD_NUMBER: _ClassVar[int]
        STRATEGY_FIELD_NUMBER: _ClassVar[int]
        CONFIG_FIELD_NUMBER: _ClassVar[int]
        K_OF_N_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
        ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
        MIN_UPDATES_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        mode: str
        rounds: int
        strategy: str
        config: _value_pb2.Value
        k_of_n: int
        timeout_seconds: int
        on_timeout: str
        min_updates: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, mode: _Optional[str] = ..., rounds: _Optional[int] = ..., strategy: _Optional[str] = ..., config: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., k_of_n: _Optional[int] = ..., timeout_seconds: _Optional[int] = ..., on_timeout: _Optional[str] = ..., min_updates: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Clients(_message.Message):
        __slots__ = ("min", "max", "external", "resources", "image", "node_selector", "volumes", "volume_mounts", "other_fields")
        class NodeSelectorEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        MIN_FIELD_NUMBER: _ClassVar[int]
        MAX_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
        VOLUMES_FIELD_NUMBER: _ClassVar[int]
        VOLUME_MOUNTS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        min: int
        max: int
        external: bool
        resources: _core_pb2.ResourceRequirements
        image: str
        node_selector: _containers.ScalarMap[str, str]
        volumes: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        volume_mounts: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ..., external: _Optional[bool] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., image: _Optional[str] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., volumes: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., volume_mounts: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Topics(_message.Message):
        __slots__ = ("data_control", "model_announcements", "model_control", "model_data", "client_control", "client_data", "retain", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        DATA_CONTROL_FIELD_NUMBER: _ClassVar[int]
        MODEL_ANNOUNCEMENTS_FIELD_NUMBER: _ClassVar[int]
        MODEL_CONTROL_FIELD_NUMBER: _ClassVar[int]
        MODEL_DATA_FIELD_NUMBER: _ClassVar[int]
        CLIENT_CONTROL_FIELD_NUMBER: _ClassVar[int]
        CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
        RETAIN_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        data_control: str
        model_announcements: str
        model_control: str
        model_data: str
        client_control: str
        client_data: str
        retain: bool
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, data_control: _Optional[str] = ..., model_announcements: _Optional[str] = ..., model_control: _Optional[str] = ..., model_data: _Optional[str] = ..., client_control: _Optional[str] = ..., client_data: _Optional[str] = ..., retain: _Optional[bool] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Kafka(_message.Message):
        __slots__ = ("bootstrap_servers", "secret_ref", "other_fields")
        class SecretRef(_message.Message):
            __slots__ = ("name", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            NAME_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            name: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, name: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        BOOTSTRAP_SERVERS_FIELD_NUMBER: _ClassVar[int]
        SECRET_REF_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        bootstrap_servers: str
        secret_ref: FederatedDeploymentSpec.Kafka.SecretRef
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, bootstrap_servers: _Optional[str] = ..., secret_ref: _Optional[_Union[FederatedDeploymentSpec.Kafka.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FEDERATED_STRING_ID_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    MIN_DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_RESTRICTION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    KWARGS_FIT_FIELD_NUMBER: _ClassVar[int]
    KWARGS_VAL_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    STREAM_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    UNSUPERVISED_FIELD_NUMBER: _ClassVar[int]
    UNSUPERVISED_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    LEGACY_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    SERVER_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    configuration: str
    model: str
    federated_string_id: str
    aggregation: FederatedDeploymentSpec.Aggregation
    min_data: int
    data_restriction: _value_pb2.Value
    batch: int
    kwargs_fit: _value_pb2.Value
    kwargs_val: _value_pb2.Value
    optimizer: str
    learning_rate: float
    loss: str
    metrics: _containers.RepeatedScalarFieldContainer[str]
    incremental: bool
    stream_timeout: int
    unsupervised: bool
    unsupervised_rounds: int
    confidence: float
    legacy_weights: bool
    suspend: bool
    clients: FederatedDeploymentSpec.Clients
    server_resources: _value_pb2.Value
    topics: FederatedDeploymentSpec.Topics
    kafka: FederatedDeploymentSpec.Kafka
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, configuration: _Optional[str] = ..., model: _Optional[str] = ..., federated_string_id: _Optional[str] = ..., aggregation: _Optional[_Union[FederatedDeploymentSpec.Aggregation, _Mapping]] = ..., min_data: _Optional[int] = ..., data_restriction: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., batch: _Optional[int] = ..., kwargs_fit: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., kwargs_val: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., optimizer: _Optional[str] = ..., learning_rate: _Optional[float] = ..., loss: _Optional[str] = ..., metrics: _Optional[_Iterable[str]] = ..., incremental: _Optional[bool] = ..., stream_timeout: _Optional[int] = ..., unsupervised: _Optional[bool] = ..., unsupervised_rounds: _Optional[int] = ..., confidence: _Optional[float] = ..., legacy_weights: _Optional[bool] = ..., suspend: _Optional[bool] = ..., clients: _Optional[_Union[FederatedDeploymentSpec.Clients, _Mapping]] = ..., server_resources: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., topics: _Optional[_Union[FederatedDeploymentSpec.Topics, _Mapping]] = ..., kafka: _Optional[_Union[FederatedDeploymentSpec.Kafka, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class FederatedDeploymentStatus(_message.Message):
    __slots__ = ("phase", "observed_generation", "federated_string_id", "current_round", "completed_rounds", "clients", "results", "start_time", "finish_time", "conditions", "other_fields")
    class Client(_message.Message):
        __slots__ = ("client_id", "result", "datasource", "job", "phase", "samples", "version", "training_seconds", "metrics", "rejected", "message", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
        RESULT_FIELD_NUMBER: _ClassVar[int]
        DATASOURCE_FIELD_NUMBER: _ClassVar[int]
        JOB_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        TRAINING_SECONDS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        REJECTED_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        client_id: str
        result: int
        datasource: str
        job: str
        phase: str
        samples: int
        version: int
        training_seconds: float
        metrics: _value_pb2.Value
        rejected: int
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, client_id: _Optional[str] = ..., result: _Optional[int] = ..., datasource: _Optional[str] = ..., job: _Optional[str] = ..., phase: _Optional[str] = ..., samples: _Optional[int] = ..., version: _Optional[int] = ..., training_seconds: _Optional[float] = ..., metrics: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., rejected: _Optional[int] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Result(_message.Message):
        __slots__ = ("id", "model", "federated_string_id", "status", "version", "rounds", "train_metrics", "val_metrics", "test_metrics", "training_seconds", "model_ref", "message", "other_fields")
        class Round(_message.Message):
            __slots__ = ("version", "updates", "clients", "samples", "metrics", "started", "finished", "digest", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            VERSION_FIELD_NUMBER: _ClassVar[int]
            UPDATES_FIELD_NUMBER: _ClassVar[int]
            CLIENTS_FIELD_NUMBER: _ClassVar[int]
            SAMPLES_FIELD_NUMBER: _ClassVar[int]
            METRICS_FIELD_NUMBER: _ClassVar[int]
            STARTED_FIELD_NUMBER: _ClassVar[int]
            FINISHED_FIELD_NUMBER: _ClassVar[int]
            DIGEST_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            version: int
            updates: int
            clients: _containers.RepeatedScalarFieldContainer[str]
            samples: int
            metrics: _value_pb2.Value
            started: str
            finished: str
            digest: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, version: _Optional[int] = ..., updates: _Optional[int] = ..., clients: _Optional[_Iterable[str]] = ..., samples: _Optional[int] = ..., metrics: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., started: _Optional[str] = ..., finished: _Optional[str] = ..., digest: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ID_FIELD_NUMBER: _ClassVar[int]
        MODEL_FIELD_NUMBER: _ClassVar[int]
        FEDERATED_STRING_ID_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        ROUNDS_FIELD_NUMBER: _ClassVar[int]
        TRAIN_METRICS_FIELD_NUMBER: _ClassVar[int]
        VAL_METRICS_FIELD_NUMBER: _ClassVar[int]
        TEST_METRICS_FIELD_NUMBER: _ClassVar[int]
        TRAINING_SECONDS_FIELD_NUMBER: _ClassVar[int]
        MODEL_REF_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        id: int
        model: str
        federated_string_id: str
        status: str
        version: int
        rounds: _containers.RepeatedCompositeFieldContainer[FederatedDeploymentStatus.Result.Round]
        train_metrics: _value_pb2.Value
        val_metrics: _value_pb2.Value
        test_metrics: _value_pb2.Value
        training_seconds: float
        model_ref: str
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, id: _Optional[int] = ..., model: _Optional[str] = ..., federated_string_id: _Optional[str] = ..., status: _Optional[str] = ..., version: _Optional[int] = ..., rounds: _Optional[_Iterable[_Union[FederatedDeploymentStatus.Result.Round, _Mapping]]] = ..., train_metrics: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., val_metrics: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., test_metrics: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., training_seconds: _Optional[float] = ..., model_ref: _Optional[str] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Condition(_message.Message):
        __slots__ = ("type", "status", "observed_generation", "last_transition_time", "reason", "message", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        TYPE_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
        LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        type: str
        status: str
        observed_generation: int
        last_transition_time: str
        reason: str
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., observed_generation: _Optional[int] = ..., last_transition_time: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    FEDERATED_STRING_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_ROUND_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    observed_generation: int
    federated_string_id: str
    current_round: int
    completed_rounds: int
    clients: _containers.RepeatedCompositeFieldContainer[FederatedDeploymentStatus.Client]
    results: _containers.RepeatedCompositeFieldContainer[FederatedDeploymentStatus.Result]
    start_time: str
    finish_time: str
    conditions: _containers.RepeatedCompositeFieldContainer[FederatedDeploymentStatus.Condition]
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, phase: _Optional[str] = ..., observed_generation: _Optional[int] = ..., federated_string_id: _Optional[str] = ..., current_round: _Optional[int] = ..., completed_rounds: _Optional[int] = ..., clients: _Optional[_Iterable[_Union[FederatedDeploymentStatus.Client, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[FederatedDeploymentStatus.Result, _Mapping]]] = ..., start_time: _Optional[str] = ..., finish_time: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[FederatedDeploymentStatus.Condition, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: FederatedDeployment
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateFederatedDeploymentResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: FederatedDeployment
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetFederatedDeploymentResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: FederatedDeployment
    etag: str
    def __init__(self, object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListFederatedDeploymentsRequest(_message.Message):
    __slots__ = ("namespace", "label_selector", "phases", "name", "since", "sort", "limit", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    label_selector: str
    phases: _containers.RepeatedScalarFieldContainer[str]
    name: str
    since: str
    sort: str
    limit: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., label_selector: _Optional[str] = ..., phases: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., since: _Optional[str] = ..., sort: _Optional[str] = ..., limit: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFederatedDeploymentsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[FederatedDeployment]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[FederatedDeployment, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: FederatedDeployment
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceFederatedDeploymentResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: FederatedDeployment
    etag: str
    def __init__(self, object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match", "propagation")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    PROPAGATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    propagation: _jobs_pb2.DeletePropagation
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ..., propagation: _Optional[_Union[_jobs_pb2.DeletePropagation, str]] = ...) -> None: ...

class DeleteFederatedDeploymentResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: FederatedDeployment
    def __init__(self, object: _Optional[_Union[FederatedDeployment, _Mapping]] = ...) -> None: ...

class GetFederatedDeploymentStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetFederatedDeploymentStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class RestartFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match", "force")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    force: bool
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RestartFederatedDeploymentResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: FederatedDeployment
    etag: str
    def __init__(self, object: _Optional[_Union[FederatedDeployment, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ExplainFederatedDeploymentRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainFederatedDeploymentResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListFederatedDeploymentEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListFederatedDeploymentEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchFederatedDeploymentStatusRequest(_message.Message):
    __slots__ = ("namespace", "name", "label_selector", "since")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    label_selector: str
    since: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., label_selector: _Optional[str] = ..., since: _Optional[str] = ...) -> None: ...

class WatchFederatedDeploymentStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: FederatedDeployment
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[FederatedDeployment, _Mapping]] = ...) -> None: ...

class GetFederatedDeploymentLogsRequest(_message.Message):
    __slots__ = ("namespace", "name", "role", "index", "container", "follow", "tail_lines", "since_time", "timestamps", "previous", "position")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    role: str
    index: int
    container: str
    follow: bool
    tail_lines: int
    since_time: str
    timestamps: bool
    previous: bool
    position: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., container: _Optional[str] = ..., follow: _Optional[bool] = ..., tail_lines: _Optional[int] = ..., since_time: _Optional[str] = ..., timestamps: _Optional[bool] = ..., previous: _Optional[bool] = ..., position: _Optional[str] = ...) -> None: ...

class GetFederatedDeploymentLogsResponse(_message.Message):
    __slots__ = ("pod", "role", "index", "container", "data", "position")
    POD_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    pod: str
    role: str
    index: int
    container: str
    data: bytes
    position: str
    def __init__(self, pod: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., container: _Optional[str] = ..., data: _Optional[bytes] = ..., position: _Optional[str] = ...) -> None: ...

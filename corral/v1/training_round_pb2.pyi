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

class TrainingRound(_message.Message):
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
    spec: TrainingRoundSpec
    status: TrainingRoundStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[TrainingRoundSpec, _Mapping]] = ..., status: _Optional[_Union[TrainingRoundStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class TrainingRoundSpec(_message.Message):
    __slots__ = ("on_timeout", "min_updates", "max_extensions", "round_id", "federated_job_ref", "model_ref", "task_wasm_image", "participants", "hyperparams", "k_of_n", "timeout_seconds", "strategy", "aggregator", "template", "participant_templates", "registry", "other_fields")
    class FederatedJobRef(_message.Message):
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
    class Aggregator(_message.Message):
        __slots__ = ("algorithm", "config", "privacy", "other_fields")
        class Privacy(_message.Message):
            __slots__ = ("clip", "noise", "epsilon", "delta", "seed_secret_ref", "other_fields")
            class SeedSecretRef(_message.Message):
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
            CLIP_FIELD_NUMBER: _ClassVar[int]
            NOISE_FIELD_NUMBER: _ClassVar[int]
            EPSILON_FIELD_NUMBER: _ClassVar[int]
            DELTA_FIELD_NUMBER: _ClassVar[int]
            SEED_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            clip: float
            noise: float
            epsilon: float
            delta: float
            seed_secret_ref: TrainingRoundSpec.Aggregator.Privacy.SeedSecretRef
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, clip: _Optional[float] = ..., noise: _Optional[float] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., seed_secret_ref: _Optional[_Union[TrainingRoundSpec.Aggregator.Privacy.SeedSecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ALGORITHM_FIELD_NUMBER: _ClassVar[int]
        CONFIG_FIELD_NUMBER: _ClassVar[int]
        PRIVACY_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        algorithm: str
        config: _value_pb2.Value
        privacy: TrainingRoundSpec.Aggregator.Privacy
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, algorithm: _Optional[str] = ..., config: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., privacy: _Optional[_Union[TrainingRoundSpec.Aggregator.Privacy, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Template(_message.Message):
        __slots__ = ("cli_args", "env", "resources", "restart_policy", "backoff_limit", "active_deadline_seconds", "volumes", "volume_mounts", "image_pull_secrets", "service_account_name", "runtime_class_name", "other_fields")
        class ImagePullSecret(_message.Message):
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
        class EnvEntry(_message.Message):
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
        CLI_ARGS_FIELD_NUMBER: _ClassVar[int]
        ENV_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
        BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        VOLUMES_FIELD_NUMBER: _ClassVar[int]
        VOLUME_MOUNTS_FIELD_NUMBER: _ClassVar[int]
        IMAGE_PULL_SECRETS_FIELD_NUMBER: _ClassVar[int]
        SERVICE_ACCOUNT_NAME_FIELD_NUMBER: _ClassVar[int]
        RUNTIME_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        cli_args: _containers.RepeatedScalarFieldContainer[str]
        env: _containers.ScalarMap[str, str]
        resources: _core_pb2.ResourceRequirements
        restart_policy: str
        backoff_limit: int
        active_deadline_seconds: int
        volumes: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        volume_mounts: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        image_pull_secrets: _containers.RepeatedCompositeFieldContainer[TrainingRoundSpec.Template.ImagePullSecret]
        service_account_name: str
        runtime_class_name: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, cli_args: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., restart_policy: _Optional[str] = ..., backoff_limit: _Optional[int] = ..., active_deadline_seconds: _Optional[int] = ..., volumes: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., volume_mounts: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., image_pull_secrets: _Optional[_Iterable[_Union[TrainingRoundSpec.Template.ImagePullSecret, _Mapping]]] = ..., service_account_name: _Optional[str] = ..., runtime_class_name: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ParticipantTemplate(_message.Message):
        __slots__ = ("cli_args", "env", "resources", "restart_policy", "backoff_limit", "active_deadline_seconds", "volumes", "volume_mounts", "image_pull_secrets", "service_account_name", "runtime_class_name", "other_fields")
        class ImagePullSecret(_message.Message):
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
        class EnvEntry(_message.Message):
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
        CLI_ARGS_FIELD_NUMBER: _ClassVar[int]
        ENV_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
        BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        VOLUMES_FIELD_NUMBER: _ClassVar[int]
        VOLUME_MOUNTS_FIELD_NUMBER: _ClassVar[int]
        IMAGE_PULL_SECRETS_FIELD_NUMBER: _ClassVar[int]
        SERVICE_ACCOUNT_NAME_FIELD_NUMBER: _ClassVar[int]
        RUNTIME_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        cli_args: _containers.RepeatedScalarFieldContainer[str]
        env: _containers.ScalarMap[str, str]
        resources: _core_pb2.ResourceRequirements
        restart_policy: str
        backoff_limit: int
        active_deadline_seconds: int
        volumes: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        volume_mounts: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
        image_pull_secrets: _containers.RepeatedCompositeFieldContainer[TrainingRoundSpec.ParticipantTemplate.ImagePullSecret]
        service_account_name: str
        runtime_class_name: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, cli_args: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., restart_policy: _Optional[str] = ..., backoff_limit: _Optional[int] = ..., active_deadline_seconds: _Optional[int] = ..., volumes: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., volume_mounts: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ..., image_pull_secrets: _Optional[_Iterable[_Union[TrainingRoundSpec.ParticipantTemplate.ImagePullSecret, _Mapping]]] = ..., service_account_name: _Optional[str] = ..., runtime_class_name: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Registry(_message.Message):
        __slots__ = ("repository", "secret_ref", "other_fields")
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
        REPOSITORY_FIELD_NUMBER: _ClassVar[int]
        SECRET_REF_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        repository: str
        secret_ref: TrainingRoundSpec.Registry.SecretRef
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, repository: _Optional[str] = ..., secret_ref: _Optional[_Union[TrainingRoundSpec.Registry.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ParticipantTemplatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TrainingRoundSpec.ParticipantTemplate
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TrainingRoundSpec.ParticipantTemplate, _Mapping]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MIN_UPDATES_FIELD_NUMBER: _ClassVar[int]
    MAX_EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    FEDERATED_JOB_REF_FIELD_NUMBER: _ClassVar[int]
    MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    TASK_WASM_IMAGE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    K_OF_N_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    on_timeout: str
    min_updates: int
    max_extensions: int
    round_id: str
    federated_job_ref: TrainingRoundSpec.FederatedJobRef
    model_ref: str
    task_wasm_image: str
    participants: _containers.RepeatedScalarFieldContainer[str]
    hyperparams: _value_pb2.Value
    k_of_n: int
    timeout_seconds: int
    strategy: str
    aggregator: TrainingRoundSpec.Aggregator
    template: TrainingRoundSpec.Template
    participant_templates: _containers.MessageMap[str, TrainingRoundSpec.ParticipantTemplate]
    registry: TrainingRoundSpec.Registry
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, on_timeout: _Optional[str] = ..., min_updates: _Optional[int] = ..., max_extensions: _Optional[int] = ..., round_id: _Optional[str] = ..., federated_job_ref: _Optional[_Union[TrainingRoundSpec.FederatedJobRef, _Mapping]] = ..., model_ref: _Optional[str] = ..., task_wasm_image: _Optional[str] = ..., participants: _Optional[_Iterable[str]] = ..., hyperparams: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., k_of_n: _Optional[int] = ..., timeout_seconds: _Optional[int] = ..., strategy: _Optional[str] = ..., aggregator: _Optional[_Union[TrainingRoundSpec.Aggregator, _Mapping]] = ..., template: _Optional[_Union[TrainingRoundSpec.Template, _Mapping]] = ..., participant_templates: _Optional[_Mapping[str, TrainingRoundSpec.ParticipantTemplate]] = ..., registry: _Optional[_Union[TrainingRoundSpec.Registry, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class TrainingRoundStatus(_message.Message):
    __slots__ = ("phase", "start_time", "end_time", "deadline", "extensions", "participants", "updates_received", "updates_required", "updates_rejected", "base_model_ref", "aggregation_time", "aggregated_model_ref", "model_digest", "state_digest", "global_version", "format", "samples", "bytes", "aggregation_seconds", "metrics", "message", "privacy", "conditions", "observed_generation", "other_fields")
    class Participant(_message.Message):
        __slots__ = ("proplet_id", "task_ref", "status", "update_received", "samples", "bytes", "format", "metrics", "update_ref", "update_digest", "received_time", "selected", "rejected", "rounds_late", "duration_seconds", "message", "other_fields")
        class TaskRef(_message.Message):
            __slots__ = ("api_version", "kind", "namespace", "name", "uid", "resource_version", "field_path", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            API_VERSION_FIELD_NUMBER: _ClassVar[int]
            KIND_FIELD_NUMBER: _ClassVar[int]
            NAMESPACE_FIELD_NUMBER: _ClassVar[int]
            NAME_FIELD_NUMBER: _ClassVar[int]
            UID_FIELD_NUMBER: _ClassVar[int]
            RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
            FIELD_PATH_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            api_version: str
            kind: str
            namespace: str
            name: str
            uid: str
            resource_version: str
            field_path: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., resource_version: _Optional[str] = ..., field_path: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class MetricsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: float
            def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        PROPLET_ID_FIELD_NUMBER: _ClassVar[int]
        TASK_REF_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        UPDATE_RECEIVED_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        FORMAT_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        UPDATE_REF_FIELD_NUMBER: _ClassVar[int]
        UPDATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
        RECEIVED_TIME_FIELD_NUMBER: _ClassVar[int]
        SELECTED_FIELD_NUMBER: _ClassVar[int]
        REJECTED_FIELD_NUMBER: _ClassVar[int]
        ROUNDS_LATE_FIELD_NUMBER: _ClassVar[int]
        DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        proplet_id: str
        task_ref: TrainingRoundStatus.Participant.TaskRef
        status: str
        update_received: bool
        samples: int
        bytes: int
        format: str
        metrics: _containers.ScalarMap[str, float]
        update_ref: str
        update_digest: str
        received_time: str
        selected: bool
        rejected: bool
        rounds_late: int
        duration_seconds: float
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, proplet_id: _Optional[str] = ..., task_ref: _Optional[_Union[TrainingRoundStatus.Participant.TaskRef, _Mapping]] = ..., status: _Optional[str] = ..., update_received: _Optional[bool] = ..., samples: _Optional[int] = ..., bytes: _Optional[int] = ..., format: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ..., update_ref: _Optional[str] = ..., update_digest: _Optional[str] = ..., received_time: _Optional[str] = ..., selected: _Optional[bool] = ..., rejected: _Optional[bool] = ..., rounds_late: _Optional[int] = ..., duration_seconds: _Optional[float] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
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
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    UPDATES_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    UPDATES_REJECTED_FIELD_NUMBER: _ClassVar[int]
    BASE_MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATED_MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    start_time: str
    end_time: str
    deadline: str
    extensions: int
    participants: _containers.RepeatedCompositeFieldContainer[TrainingRoundStatus.Participant]
    updates_received: int
    updates_required: int
    updates_rejected: int
    base_model_ref: str
    aggregation_time: str
    aggregated_model_ref: str
    model_digest: str
    state_digest: str
    global_version: str
    format: str
    samples: int
    bytes: int
    aggregation_seconds: float
    metrics: _containers.ScalarMap[str, float]
    message: str
    privacy: _value_pb2.Value
    conditions: _containers.RepeatedCompositeFieldContainer[TrainingRoundStatus.Condition]
    observed_generation: int
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, phase: _Optional[str] = ..., start_time: _Optional[str] = ..., end_time: _Optional[str] = ..., deadline: _Optional[str] = ..., extensions: _Optional[int] = ..., participants: _Optional[_Iterable[_Union[TrainingRoundStatus.Participant, _Mapping]]] = ..., updates_received: _Optional[int] = ..., updates_required: _Optional[int] = ..., updates_rejected: _Optional[int] = ..., base_model_ref: _Optional[str] = ..., aggregation_time: _Optional[str] = ..., aggregated_model_ref: _Optional[str] = ..., model_digest: _Optional[str] = ..., state_digest: _Optional[str] = ..., global_version: _Optional[str] = ..., format: _Optional[str] = ..., samples: _Optional[int] = ..., bytes: _Optional[int] = ..., aggregation_seconds: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ..., message: _Optional[str] = ..., privacy: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., conditions: _Optional[_Iterable[_Union[TrainingRoundStatus.Condition, _Mapping]]] = ..., observed_generation: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateTrainingRoundRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: TrainingRound
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[TrainingRound, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateTrainingRoundResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: TrainingRound
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[TrainingRound, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetTrainingRoundRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetTrainingRoundResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingRound
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingRound, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListTrainingRoundsRequest(_message.Message):
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

class ListTrainingRoundsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[TrainingRound]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[TrainingRound, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceTrainingRoundRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: TrainingRound
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[TrainingRound, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceTrainingRoundResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingRound
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingRound, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteTrainingRoundRequest(_message.Message):
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

class DeleteTrainingRoundResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: TrainingRound
    def __init__(self, object: _Optional[_Union[TrainingRound, _Mapping]] = ...) -> None: ...

class GetTrainingRoundStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetTrainingRoundStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class ExplainTrainingRoundRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainTrainingRoundResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListTrainingRoundEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListTrainingRoundEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchTrainingRoundStatusRequest(_message.Message):
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

class WatchTrainingRoundStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: TrainingRound
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[TrainingRound, _Mapping]] = ...) -> None: ...

class GetTrainingRoundLogsRequest(_message.Message):
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

class GetTrainingRoundLogsResponse(_message.Message):
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

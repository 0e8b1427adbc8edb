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

class Inference(_message.Message):
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
    spec: InferenceSpec
    status: InferenceStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[InferenceSpec, _Mapping]] = ..., status: _Optional[_Union[InferenceStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class InferenceSpec(_message.Message):
    __slots__ = ("deployment", "model", "model_ref", "replicas", "input_format", "input_config", "input_topic", "output_topic", "limit", "output_upper", "stopped", "resources", "image", "input_kafka", "output_kafka", "other_fields")
    class InputKafka(_message.Message):
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
        secret_ref: InferenceSpec.InputKafka.SecretRef
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, bootstrap_servers: _Optional[str] = ..., secret_ref: _Optional[_Union[InferenceSpec.InputKafka.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OutputKafka(_message.Message):
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
        secret_ref: InferenceSpec.OutputKafka.SecretRef
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, bootstrap_servers: _Optional[str] = ..., secret_ref: _Optional[_Union[InferenceSpec.OutputKafka.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    INPUT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    INPUT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOPIC_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOPIC_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_UPPER_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    INPUT_KAFKA_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_KAFKA_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    deployment: str
    model: str
    model_ref: str
    replicas: int
    input_format: str
    input_config: _value_pb2.Value
    input_topic: str
    output_topic: str
    limit: float
    output_upper: str
    stopped: bool
    resources: _core_pb2.ResourceRequirements
    image: str
    input_kafka: InferenceSpec.InputKafka
    output_kafka: InferenceSpec.OutputKafka
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, deployment: _Optional[str] = ..., model: _Optional[str] = ..., model_ref: _Optional[str] = ..., replicas: _Optional[int] = ..., input_format: _Optional[str] = ..., input_config: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., input_topic: _Optional[str] = ..., output_topic: _Optional[str] = ..., limit: _Optional[float] = ..., output_upper: _Optional[str] = ..., stopped: _Optional[bool] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., image: _Optional[str] = ..., input_kafka: _Optional[_Union[InferenceSpec.InputKafka, _Mapping]] = ..., output_kafka: _Optional[_Union[InferenceSpec.OutputKafka, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class InferenceStatus(_message.Message):
    __slots__ = ("phase", "observed_generation", "ready_replicas", "model_ref", "group_id", "error", "conditions", "other_fields")
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
    READY_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    observed_generation: int
    ready_replicas: int
    model_ref: str
    group_id: str
    error: str
    conditions: _containers.RepeatedCompositeFieldContainer[InferenceStatus.Condition]
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, phase: _Optional[str] = ..., observed_generation: _Optional[int] = ..., ready_replicas: _Optional[int] = ..., model_ref: _Optional[str] = ..., group_id: _Optional[str] = ..., error: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[InferenceStatus.Condition, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateInferenceRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: Inference
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[Inference, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateInferenceResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: Inference
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[Inference, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetInferenceRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetInferenceResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: Inference
    etag: str
    def __init__(self, object: _Optional[_Union[Inference, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListInferencesRequest(_message.Message):
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

class ListInferencesResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[Inference]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[Inference, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceInferenceRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: Inference
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[Inference, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceInferenceResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: Inference
    etag: str
    def __init__(self, object: _Optional[_Union[Inference, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteInferenceRequest(_message.Message):
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

class DeleteInferenceResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: Inference
    def __init__(self, object: _Optional[_Union[Inference, _Mapping]] = ...) -> None: ...

class GetInferenceStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetInferenceStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class ScaleInferenceRequest(_message.Message):
    __slots__ = ("namespace", "name", "replicas", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    replicas: int
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., replicas: _Optional[int] = ..., if_match: _Optional[str] = ...) -> None: ...

class ScaleInferenceResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: Inference
    etag: str
    def __init__(self, object: _Optional[_Union[Inference, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ExplainInferenceRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainInferenceResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListInferenceEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListInferenceEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchInferenceStatusRequest(_message.Message):
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

class WatchInferenceStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: Inference
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[Inference, _Mapping]] = ...) -> None: ...

class GetInferenceLogsRequest(_message.Message):
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

class GetInferenceLogsResponse(_message.Message):
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

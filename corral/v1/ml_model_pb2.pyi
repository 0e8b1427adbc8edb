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

class MLModel(_message.Message):
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
    spec: MLModelSpec
    status: MLModelStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[MLModelSpec, _Mapping]] = ..., status: _Optional[_Union[MLModelStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class MLModelSpec(_message.Message):
    __slots__ = ("framework", "description", "imports", "code", "distributed", "father", "resources", "check_seconds", "image", "other_fields")
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    IMPORTS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTED_FIELD_NUMBER: _ClassVar[int]
    FATHER_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    CHECK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    framework: str
    description: str
    imports: str
    code: str
    distributed: bool
    father: str
    resources: _core_pb2.ResourceRequirements
    check_seconds: int
    image: str
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, framework: _Optional[str] = ..., description: _Optional[str] = ..., imports: _Optional[str] = ..., code: _Optional[str] = ..., distributed: _Optional[bool] = ..., father: _Optional[str] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., check_seconds: _Optional[int] = ..., image: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class MLModelStatus(_message.Message):
    __slots__ = ("phase", "observed_generation", "input_shape", "output_shape", "parameters", "layers", "weights_ref", "error", "conditions", "other_fields")
    class Layer(_message.Message):
        __slots__ = ("shape", "dtype", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        DTYPE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        shape: _containers.RepeatedScalarFieldContainer[int]
        dtype: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, shape: _Optional[_Iterable[int]] = ..., dtype: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
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
    INPUT_SHAPE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SHAPE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_REF_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    observed_generation: int
    input_shape: str
    output_shape: str
    parameters: int
    layers: _containers.RepeatedCompositeFieldContainer[MLModelStatus.Layer]
    weights_ref: str
    error: str
    conditions: _containers.RepeatedCompositeFieldContainer[MLModelStatus.Condition]
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, phase: _Optional[str] = ..., observed_generation: _Optional[int] = ..., input_shape: _Optional[str] = ..., output_shape: _Optional[str] = ..., parameters: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[MLModelStatus.Layer, _Mapping]]] = ..., weights_ref: _Optional[str] = ..., error: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[MLModelStatus.Condition, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateMLModelRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: MLModel
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[MLModel, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateMLModelResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: MLModel
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[MLModel, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetMLModelRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetMLModelResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MLModel
    etag: str
    def __init__(self, object: _Optional[_Union[MLModel, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListMLModelsRequest(_message.Message):
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

class ListMLModelsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[MLModel]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[MLModel, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceMLModelRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: MLModel
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[MLModel, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceMLModelResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MLModel
    etag: str
    def __init__(self, object: _Optional[_Union[MLModel, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteMLModelRequest(_message.Message):
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

class DeleteMLModelResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: MLModel
    def __init__(self, object: _Optional[_Union[MLModel, _Mapping]] = ...) -> None: ...

class GetMLModelStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetMLModelStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class ExplainMLModelRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainMLModelResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListMLModelEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListMLModelEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchMLModelStatusRequest(_message.Message):
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

class WatchMLModelStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: MLModel
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[MLModel, _Mapping]] = ...) -> None: ...

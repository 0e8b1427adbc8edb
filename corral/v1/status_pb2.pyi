from corral.v1 import value_pb2 as _value_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobStatus(_message.Message):
    __slots__ = ("kind", "namespace", "name", "uid", "resource_version", "phase", "message", "creation_time", "start_time", "completion_time", "duration_seconds", "suspended", "deleting", "replicas", "pods", "conditions", "progress", "checkpoint", "diagnosis", "cost", "other_fields")
    class RoleCounts(_message.Message):
        __slots__ = ("role", "desired", "pending", "running", "ready", "succeeded", "failed", "restarts", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ROLE_FIELD_NUMBER: _ClassVar[int]
        DESIRED_FIELD_NUMBER: _ClassVar[int]
        PENDING_FIELD_NUMBER: _ClassVar[int]
        RUNNING_FIELD_NUMBER: _ClassVar[int]
        READY_FIELD_NUMBER: _ClassVar[int]
        SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
        FAILED_FIELD_NUMBER: _ClassVar[int]
        RESTARTS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        role: str
        desired: int
        pending: int
        running: int
        ready: int
        succeeded: int
        failed: int
        restarts: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, role: _Optional[str] = ..., desired: _Optional[int] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., ready: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., restarts: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class PodState(_message.Message):
        __slots__ = ("name", "role", "index", "phase", "reason", "message", "container", "node", "ready", "restarts", "exit_code", "signal", "deleting", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        NAME_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        INDEX_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        CONTAINER_FIELD_NUMBER: _ClassVar[int]
        NODE_FIELD_NUMBER: _ClassVar[int]
        READY_FIELD_NUMBER: _ClassVar[int]
        RESTARTS_FIELD_NUMBER: _ClassVar[int]
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        DELETING_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        name: str
        role: str
        index: int
        phase: str
        reason: str
        message: str
        container: str
        node: str
        ready: bool
        restarts: int
        exit_code: int
        signal: int
        deleting: bool
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., phase: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., container: _Optional[str] = ..., node: _Optional[str] = ..., ready: _Optional[bool] = ..., restarts: _Optional[int] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., deleting: _Optional[bool] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Condition(_message.Message):
        __slots__ = ("type", "status", "observed_generation", "last_update_time", "last_transition_time", "reason", "message", "other_fields")
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
        LAST_UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
        LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        type: str
        status: str
        observed_generation: int
        last_update_time: str
        last_transition_time: str
        reason: str
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., observed_generation: _Optional[int] = ..., last_update_time: _Optional[str] = ..., last_transition_time: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Progress(_message.Message):
        __slots__ = ("step", "total_steps", "epoch", "percent", "eta_seconds", "metrics", "updated_at", "other_fields")
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
        STEP_FIELD_NUMBER: _ClassVar[int]
        TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        PERCENT_FIELD_NUMBER: _ClassVar[int]
        ETA_SECONDS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        step: int
        total_steps: int
        epoch: int
        percent: int
        eta_seconds: int
        metrics: _containers.ScalarMap[str, float]
        updated_at: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., epoch: _Optional[int] = ..., percent: _Optional[int] = ..., eta_seconds: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., updated_at: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class CheckpointState(_message.Message):
        __slots__ = ("last", "last_step", "last_time", "count", "bytes", "restored_from", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        LAST_FIELD_NUMBER: _ClassVar[int]
        LAST_STEP_FIELD_NUMBER: _ClassVar[int]
        LAST_TIME_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        RESTORED_FROM_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        last: str
        last_step: int
        last_time: str
        count: int
        bytes: int
        restored_from: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, last: _Optional[str] = ..., last_step: _Optional[int] = ..., last_time: _Optional[str] = ..., count: _Optional[int] = ..., bytes: _Optional[int] = ..., restored_from: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Diagnosis(_message.Message):
        __slots__ = ("pod", "role", "index", "node", "reason", "exit_code", "signal", "message", "log_tail", "text", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        POD_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        INDEX_FIELD_NUMBER: _ClassVar[int]
        NODE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        pod: str
        role: str
        index: int
        node: str
        reason: str
        exit_code: int
        signal: int
        message: str
        log_tail: str
        text: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, pod: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., log_tail: _Optional[str] = ..., text: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Cost(_message.Message):
        __slots__ = ("currency", "per_hour", "total", "gpu_hours", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        CURRENCY_FIELD_NUMBER: _ClassVar[int]
        PER_HOUR_FIELD_NUMBER: _ClassVar[int]
        TOTAL_FIELD_NUMBER: _ClassVar[int]
        GPU_HOURS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        currency: str
        per_hour: float
        total: float
        gpu_hours: float
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, currency: _Optional[str] = ..., per_hour: _Optional[float] = ..., total: _Optional[float] = ..., gpu_hours: _Optional[float] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSIS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    phase: str
    message: str
    creation_time: str
    start_time: str
    completion_time: str
    duration_seconds: float
    suspended: bool
    deleting: bool
    replicas: _containers.RepeatedCompositeFieldContainer[JobStatus.RoleCounts]
    pods: _containers.RepeatedCompositeFieldContainer[JobStatus.PodState]
    conditions: _containers.RepeatedCompositeFieldContainer[JobStatus.Condition]
    progress: JobStatus.Progress
    checkpoint: JobStatus.CheckpointState
    diagnosis: JobStatus.Diagnosis
    cost: JobStatus.Cost
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., resource_version: _Optional[str] = ..., phase: _Optional[str] = ..., message: _Optional[str] = ..., creation_time: _Optional[str] = ..., start_time: _Optional[str] = ..., completion_time: _Optional[str] = ..., duration_seconds: _Optional[float] = ..., suspended: _Optional[bool] = ..., deleting: _Optional[bool] = ..., replicas: _Optional[_Iterable[_Union[JobStatus.RoleCounts, _Mapping]]] = ..., pods: _Optional[_Iterable[_Union[JobStatus.PodState, _Mapping]]] = ..., conditions: _Optional[_Iterable[_Union[JobStatus.Condition, _Mapping]]] = ..., progress: _Optional[_Union[JobStatus.Progress, _Mapping]] = ..., checkpoint: _Optional[_Union[JobStatus.CheckpointState, _Mapping]] = ..., diagnosis: _Optional[_Union[JobStatus.Diagnosis, _Mapping]] = ..., cost: _Optional[_Union[JobStatus.Cost, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("headline", "reasons", "hints", "phase", "other_fields")
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    HEADLINE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    headline: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    hints: _containers.RepeatedScalarFieldContainer[str]
    phase: str
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, headline: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., hints: _Optional[_Iterable[str]] = ..., phase: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class JobMetrics(_message.Message):
    __slots__ = ("kind", "namespace", "name", "phase", "algorithm", "current_round", "completed_rounds", "total_rounds", "model_ref", "rounds", "proplets", "privacy", "other_fields")
    class Participant(_message.Message):
        __slots__ = ("proplet_id", "status", "counted", "rejected", "samples", "bytes", "duration_seconds", "metrics", "received_time", "rounds_late", "message", "other_fields")
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
        STATUS_FIELD_NUMBER: _ClassVar[int]
        COUNTED_FIELD_NUMBER: _ClassVar[int]
        REJECTED_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        RECEIVED_TIME_FIELD_NUMBER: _ClassVar[int]
        ROUNDS_LATE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        proplet_id: str
        status: str
        counted: bool
        rejected: bool
        samples: int
        bytes: int
        duration_seconds: float
        metrics: _containers.ScalarMap[str, float]
        received_time: str
        rounds_late: int
        message: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, proplet_id: _Optional[str] = ..., status: _Optional[str] = ..., counted: _Optional[bool] = ..., rejected: _Optional[bool] = ..., samples: _Optional[int] = ..., bytes: _Optional[int] = ..., duration_seconds: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ..., received_time: _Optional[str] = ..., rounds_late: _Optional[int] = ..., message: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Round(_message.Message):
        __slots__ = ("round", "name", "phase", "updates", "required", "rejected", "samples", "bytes", "duration_seconds", "aggregation_seconds", "metrics", "start_time", "end_time", "model_ref", "epsilon", "message", "participants", "other_fields")
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
        ROUND_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        UPDATES_FIELD_NUMBER: _ClassVar[int]
        REQUIRED_FIELD_NUMBER: _ClassVar[int]
        REJECTED_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
        AGGREGATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        START_TIME_FIELD_NUMBER: _ClassVar[int]
        END_TIME_FIELD_NUMBER: _ClassVar[int]
        MODEL_REF_FIELD_NUMBER: _ClassVar[int]
        EPSILON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        round: int
        name: str
        phase: str
        updates: int
        required: int
        rejected: int
        samples: int
        bytes: int
        duration_seconds: float
        aggregation_seconds: float
        metrics: _containers.ScalarMap[str, float]
        start_time: str
        end_time: str
        model_ref: str
        epsilon: float
        message: str
        participants: _containers.RepeatedCompositeFieldContainer[JobMetrics.Participant]
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, round: _Optional[int] = ..., name: _Optional[str] = ..., phase: _Optional[str] = ..., updates: _Optional[int] = ..., required: _Optional[int] = ..., rejected: _Optional[int] = ..., samples: _Optional[int] = ..., bytes: _Optional[int] = ..., duration_seconds: _Optional[float] = ..., aggregation_seconds: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ..., start_time: _Optional[str] = ..., end_time: _Optional[str] = ..., model_ref: _Optional[str] = ..., epsilon: _Optional[float] = ..., message: _Optional[str] = ..., participants: _Optional[_Iterable[_Union[JobMetrics.Participant, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Proplet(_message.Message):
        __slots__ = ("proplet_id", "status", "updates", "rejected", "failed", "samples", "bytes", "duration_seconds", "metrics", "last_update", "other_fields")
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
        STATUS_FIELD_NUMBER: _ClassVar[int]
        UPDATES_FIELD_NUMBER: _ClassVar[int]
        REJECTED_FIELD_NUMBER: _ClassVar[int]
        FAILED_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        LAST_UPDATE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        proplet_id: str
        status: str
        updates: int
        rejected: int
        failed: int
        samples: int
        bytes: int
        duration_seconds: float
        metrics: _containers.ScalarMap[str, float]
        last_update: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, proplet_id: _Optional[str] = ..., status: _Optional[str] = ..., updates: _Optional[int] = ..., rejected: _Optional[int] = ..., failed: _Optional[int] = ..., samples: _Optional[int] = ..., bytes: _Optional[int] = ..., duration_seconds: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ..., last_update: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    CURRENT_ROUND_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    MODEL_REF_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    PROPLETS_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    phase: str
    algorithm: str
    current_round: int
    completed_rounds: int
    total_rounds: int
    model_ref: str
    rounds: _containers.RepeatedCompositeFieldContainer[JobMetrics.Round]
    proplets: _containers.RepeatedCompositeFieldContainer[JobMetrics.Proplet]
    privacy: _value_pb2.Value
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., phase: _Optional[str] = ..., algorithm: _Optional[str] = ..., current_round: _Optional[int] = ..., completed_rounds: _Optional[int] = ..., total_rounds: _Optional[int] = ..., model_ref: _Optional[str] = ..., rounds: _Optional[_Iterable[_Union[JobMetrics.Round, _Mapping]]] = ..., proplets: _Optional[_Iterable[_Union[JobMetrics.Proplet, _Mapping]]] = ..., privacy: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

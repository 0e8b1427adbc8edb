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

class MPIJob(_message.Message):
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
    spec: MPIJobSpec
    status: MPIJobStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[MPIJobSpec, _Mapping]] = ..., status: _Optional[_Union[MPIJobStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class MPIJobSpec(_message.Message):
    __slots__ = ("slots_per_worker", "run_launcher_as_worker", "run_policy", "mpi_replica_specs", "ssh_auth_mount_path", "launcher_creation_policy", "mpi_implementation", "other_fields")
    class RunPolicy(_message.Message):
        __slots__ = ("clean_pod_policy", "ttl_seconds_after_finished", "active_deadline_seconds", "backoff_limit", "scheduling_policy", "suspend", "managed_by", "other_fields")
        class SchedulingPolicy(_message.Message):
            __slots__ = ("min_available", "queue", "min_resources", "priority_class", "schedule_timeout_seconds", "other_fields")
            class MinResourcesEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            MIN_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
            QUEUE_FIELD_NUMBER: _ClassVar[int]
            MIN_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
            SCHEDULE_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            min_available: int
            queue: str
            min_resources: _containers.MessageMap[str, _value_pb2.Value]
            priority_class: str
            schedule_timeout_seconds: int
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, min_available: _Optional[int] = ..., queue: _Optional[str] = ..., min_resources: _Optional[_Mapping[str, _value_pb2.Value]] = ..., priority_class: _Optional[str] = ..., schedule_timeout_seconds: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        CLEAN_POD_POLICY_FIELD_NUMBER: _ClassVar[int]
        TTL_SECONDS_AFTER_FINISHED_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
        SCHEDULING_POLICY_FIELD_NUMBER: _ClassVar[int]
        SUSPEND_FIELD_NUMBER: _ClassVar[int]
        MANAGED_BY_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        clean_pod_policy: str
        ttl_seconds_after_finished: int
        active_deadline_seconds: int
        backoff_limit: int
        scheduling_policy: MPIJobSpec.RunPolicy.SchedulingPolicy
        suspend: bool
        managed_by: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, clean_pod_policy: _Optional[str] = ..., ttl_seconds_after_finished: _Optional[int] = ..., active_deadline_seconds: _Optional[int] = ..., backoff_limit: _Optional[int] = ..., scheduling_policy: _Optional[_Union[MPIJobSpec.RunPolicy.SchedulingPolicy, _Mapping]] = ..., suspend: _Optional[bool] = ..., managed_by: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class MpiReplicaSpec(_message.Message):
        __slots__ = ("replicas", "restart_policy", "template", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
        TEMPLATE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        replicas: int
        restart_policy: str
        template: _core_pb2.PodTemplateSpec
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, replicas: _Optional[int] = ..., restart_policy: _Optional[str] = ..., template: _Optional[_Union[_core_pb2.PodTemplateSpec, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class MpiReplicaSpecsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: MPIJobSpec.MpiReplicaSpec
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[MPIJobSpec.MpiReplicaSpec, _Mapping]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    SLOTS_PER_WORKER_FIELD_NUMBER: _ClassVar[int]
    RUN_LAUNCHER_AS_WORKER_FIELD_NUMBER: _ClassVar[int]
    RUN_POLICY_FIELD_NUMBER: _ClassVar[int]
    MPI_REPLICA_SPECS_FIELD_NUMBER: _ClassVar[int]
    SSH_AUTH_MOUNT_PATH_FIELD_NUMBER: _ClassVar[int]
    LAUNCHER_CREATION_POLICY_FIELD_NUMBER: _ClassVar[int]
    MPI_IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    slots_per_worker: int
    run_launcher_as_worker: bool
    run_policy: MPIJobSpec.RunPolicy
    mpi_replica_specs: _containers.MessageMap[str, MPIJobSpec.MpiReplicaSpec]
    ssh_auth_mount_path: str
    launcher_creation_policy: str
    mpi_implementation: str
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, slots_per_worker: _Optional[int] = ..., run_launcher_as_worker: _Optional[bool] = ..., run_policy: _Optional[_Union[MPIJobSpec.RunPolicy, _Mapping]] = ..., mpi_replica_specs: _Optional[_Mapping[str, MPIJobSpec.MpiReplicaSpec]] = ..., ssh_auth_mount_path: _Optional[str] = ..., launcher_creation_policy: _Optional[str] = ..., mpi_implementation: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class MPIJobStatus(_message.Message):
    __slots__ = ("conditions", "replica_statuses", "start_time", "completion_time", "last_reconcile_time", "failure", "other_fields")
    class Condition(_message.Message):
        __slots__ = ("type", "status", "reason", "message", "last_update_time", "last_transition_time", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        TYPE_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        LAST_UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
        LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        type: str
        status: str
        reason: str
        message: str
        last_update_time: str
        last_transition_time: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., last_update_time: _Optional[str] = ..., last_transition_time: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ReplicaStatus(_message.Message):
        __slots__ = ("active", "succeeded", "failed", "label_selector", "selector", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ACTIVE_FIELD_NUMBER: _ClassVar[int]
        SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
        FAILED_FIELD_NUMBER: _ClassVar[int]
        LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
        SELECTOR_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        active: int
        succeeded: int
        failed: int
        label_selector: _core_pb2.LabelSelector
        selector: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, active: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., label_selector: _Optional[_Union[_core_pb2.LabelSelector, _Mapping]] = ..., selector: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Failure(_message.Message):
        __slots__ = ("replica", "index", "pod", "node", "reason", "exit_code", "signal", "message", "log_tail", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        REPLICA_FIELD_NUMBER: _ClassVar[int]
        INDEX_FIELD_NUMBER: _ClassVar[int]
        POD_FIELD_NUMBER: _ClassVar[int]
        NODE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        replica: str
        index: int
        pod: str
        node: str
        reason: str
        exit_code: int
        signal: int
        message: str
        log_tail: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, replica: _Optional[str] = ..., index: _Optional[int] = ..., pod: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., log_tail: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ReplicaStatusesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: MPIJobStatus.ReplicaStatus
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[MPIJobStatus.ReplicaStatus, _Mapping]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_STATUSES_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_RECONCILE_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[MPIJobStatus.Condition]
    replica_statuses: _containers.MessageMap[str, MPIJobStatus.ReplicaStatus]
    start_time: str
    completion_time: str
    last_reconcile_time: str
    failure: MPIJobStatus.Failure
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, conditions: _Optional[_Iterable[_Union[MPIJobStatus.Condition, _Mapping]]] = ..., replica_statuses: _Optional[_Mapping[str, MPIJobStatus.ReplicaStatus]] = ..., start_time: _Optional[str] = ..., completion_time: _Optional[str] = ..., last_reconcile_time: _Optional[str] = ..., failure: _Optional[_Union[MPIJobStatus.Failure, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: MPIJob
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[MPIJob, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListMPIJobsRequest(_message.Message):
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

class ListMPIJobsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[MPIJob]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[MPIJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: MPIJob
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[MPIJob, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteMPIJobRequest(_message.Message):
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

class DeleteMPIJobResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ...) -> None: ...

class GetMPIJobStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetMPIJobStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class RestartMPIJobRequest(_message.Message):
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

class RestartMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class SuspendMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class SuspendMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ResumeMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class ResumeMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ScaleMPIJobRequest(_message.Message):
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

class ScaleMPIJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: MPIJob
    etag: str
    def __init__(self, object: _Optional[_Union[MPIJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ExplainMPIJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainMPIJobResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListMPIJobEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListMPIJobEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchMPIJobStatusRequest(_message.Message):
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

class WatchMPIJobStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: MPIJob
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[MPIJob, _Mapping]] = ...) -> None: ...

class GetMPIJobLogsRequest(_message.Message):
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

class GetMPIJobLogsResponse(_message.Message):
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

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

class SpotInstanceJob(_message.Message):
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
    spec: SpotInstanceJobSpec
    status: SpotInstanceJobStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[SpotInstanceJobSpec, _Mapping]] = ..., status: _Optional[_Union[SpotInstanceJobStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class SpotInstanceJobSpec(_message.Message):
    __slots__ = ("replicas", "job_template", "checkpoint_config", "spot_instance_vm_ref", "alternative_vm_refs", "gcp_credentials_secret_ref", "credentials_secret_ref", "placement", "suspend", "other_fields")
    class CheckpointConfig(_message.Message):
        __slots__ = ("checkpoint_image_repo", "checkpoint_interval", "checkpoint_repo_credential_ref", "checkpoint_storage", "engine", "directory", "timeout_seconds", "keep", "other_fields")
        class CheckpointRepoCredentialRef(_message.Message):
            __slots__ = ("name", "namespace", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            NAME_FIELD_NUMBER: _ClassVar[int]
            NAMESPACE_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            name: str
            namespace: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class CheckpointStorage(_message.Message):
            __slots__ = ("type", "bucket", "path_prefix", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            TYPE_FIELD_NUMBER: _ClassVar[int]
            BUCKET_FIELD_NUMBER: _ClassVar[int]
            PATH_PREFIX_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            type: str
            bucket: str
            path_prefix: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, type: _Optional[str] = ..., bucket: _Optional[str] = ..., path_prefix: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        CHECKPOINT_IMAGE_REPO_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_REPO_CREDENTIAL_REF_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_STORAGE_FIELD_NUMBER: _ClassVar[int]
        ENGINE_FIELD_NUMBER: _ClassVar[int]
        DIRECTORY_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
        KEEP_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        checkpoint_image_repo: str
        checkpoint_interval: str
        checkpoint_repo_credential_ref: SpotInstanceJobSpec.CheckpointConfig.CheckpointRepoCredentialRef
        checkpoint_storage: SpotInstanceJobSpec.CheckpointConfig.CheckpointStorage
        engine: str
        directory: str
        timeout_seconds: int
        keep: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, checkpoint_image_repo: _Optional[str] = ..., checkpoint_interval: _Optional[str] = ..., checkpoint_repo_credential_ref: _Optional[_Union[SpotInstanceJobSpec.CheckpointConfig.CheckpointRepoCredentialRef, _Mapping]] = ..., checkpoint_storage: _Optional[_Union[SpotInstanceJobSpec.CheckpointConfig.CheckpointStorage, _Mapping]] = ..., engine: _Optional[str] = ..., directory: _Optional[str] = ..., timeout_seconds: _Optional[int] = ..., keep: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class SpotInstanceVMRef(_message.Message):
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
    class AlternativeVMRef(_message.Message):
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
    class GcpCredentialsSecretRef(_message.Message):
        __slots__ = ("name", "namespace", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        NAME_FIELD_NUMBER: _ClassVar[int]
        NAMESPACE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        name: str
        namespace: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class CredentialsSecretRef(_message.Message):
        __slots__ = ("name", "namespace", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        NAME_FIELD_NUMBER: _ClassVar[int]
        NAMESPACE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        name: str
        namespace: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Placement(_message.Message):
        __slots__ = ("deadline", "on_demand", "provisioner", "expected_seconds", "checkpoint_gi_b", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        DEADLINE_FIELD_NUMBER: _ClassVar[int]
        ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
        PROVISIONER_FIELD_NUMBER: _ClassVar[int]
        EXPECTED_SECONDS_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_GI_B_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        deadline: str
        on_demand: str
        provisioner: str
        expected_seconds: int
        checkpoint_gi_b: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, deadline: _Optional[str] = ..., on_demand: _Optional[str] = ..., provisioner: _Optional[str] = ..., expected_seconds: _Optional[int] = ..., checkpoint_gi_b: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    JOB_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SPOT_INSTANCE_VM_REF_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVE_VM_REFS_FIELD_NUMBER: _ClassVar[int]
    GCP_CREDENTIALS_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    job_template: _value_pb2.Value
    checkpoint_config: SpotInstanceJobSpec.CheckpointConfig
    spot_instance_vm_ref: SpotInstanceJobSpec.SpotInstanceVMRef
    alternative_vm_refs: _containers.RepeatedCompositeFieldContainer[SpotInstanceJobSpec.AlternativeVMRef]
    gcp_credentials_secret_ref: SpotInstanceJobSpec.GcpCredentialsSecretRef
    credentials_secret_ref: SpotInstanceJobSpec.CredentialsSecretRef
    placement: SpotInstanceJobSpec.Placement
    suspend: bool
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, replicas: _Optional[int] = ..., job_template: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., checkpoint_config: _Optional[_Union[SpotInstanceJobSpec.CheckpointConfig, _Mapping]] = ..., spot_instance_vm_ref: _Optional[_Union[SpotInstanceJobSpec.SpotInstanceVMRef, _Mapping]] = ..., alternative_vm_refs: _Optional[_Iterable[_Union[SpotInstanceJobSpec.AlternativeVMRef, _Mapping]]] = ..., gcp_credentials_secret_ref: _Optional[_Union[SpotInstanceJobSpec.GcpCredentialsSecretRef, _Mapping]] = ..., credentials_secret_ref: _Optional[_Union[SpotInstanceJobSpec.CredentialsSecretRef, _Mapping]] = ..., placement: _Optional[_Union[SpotInstanceJobSpec.Placement, _Mapping]] = ..., suspend: _Optional[bool] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class SpotInstanceJobStatus(_message.Message):
    __slots__ = ("conditions", "phase", "message", "observed_generation", "active_replicas", "selector", "start_time", "completion_time", "last_checkpoint_time", "last_checkpoint_image", "checkpoint_interval_seconds", "job_statuses", "placements", "cost", "machines", "attempt", "failures", "checkpoint_request", "progress", "other_fields")
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
    class JobStatus(_message.Message):
        __slots__ = ("name", "node_name", "phase", "last_checkpoint_image", "replica", "attempt", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        NAME_FIELD_NUMBER: _ClassVar[int]
        NODE_NAME_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        LAST_CHECKPOINT_IMAGE_FIELD_NUMBER: _ClassVar[int]
        REPLICA_FIELD_NUMBER: _ClassVar[int]
        ATTEMPT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        name: str
        node_name: str
        phase: str
        last_checkpoint_image: str
        replica: int
        attempt: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, name: _Optional[str] = ..., node_name: _Optional[str] = ..., phase: _Optional[str] = ..., last_checkpoint_image: _Optional[str] = ..., replica: _Optional[int] = ..., attempt: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Placement(_message.Message):
        __slots__ = ("instance", "vm", "replica", "cloud", "region", "zone", "machine_type", "provisioning_model", "start_time", "ready_time", "node_name", "end_time", "end_reason", "price_per_hour", "cost", "lost_work_seconds", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        INSTANCE_FIELD_NUMBER: _ClassVar[int]
        VM_FIELD_NUMBER: _ClassVar[int]
        REPLICA_FIELD_NUMBER: _ClassVar[int]
        CLOUD_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        PROVISIONING_MODEL_FIELD_NUMBER: _ClassVar[int]
        START_TIME_FIELD_NUMBER: _ClassVar[int]
        READY_TIME_FIELD_NUMBER: _ClassVar[int]
        NODE_NAME_FIELD_NUMBER: _ClassVar[int]
        END_TIME_FIELD_NUMBER: _ClassVar[int]
        END_REASON_FIELD_NUMBER: _ClassVar[int]
        PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
        COST_FIELD_NUMBER: _ClassVar[int]
        LOST_WORK_SECONDS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        instance: str
        vm: str
        replica: int
        cloud: str
        region: str
        zone: str
        machine_type: str
        provisioning_model: str
        start_time: str
        ready_time: str
        node_name: str
        end_time: str
        end_reason: str
        price_per_hour: float
        cost: float
        lost_work_seconds: float
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, instance: _Optional[str] = ..., vm: _Optional[str] = ..., replica: _Optional[int] = ..., cloud: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., provisioning_model: _Optional[str] = ..., start_time: _Optional[str] = ..., ready_time: _Optional[str] = ..., node_name: _Optional[str] = ..., end_time: _Optional[str] = ..., end_reason: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., cost: _Optional[float] = ..., lost_work_seconds: _Optional[float] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Cost(_message.Message):
        __slots__ = ("spot", "on_demand", "transfers", "total", "machine_seconds", "lost_work_seconds", "losses", "starts", "on_demand_equivalent", "saving_percent", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        SPOT_FIELD_NUMBER: _ClassVar[int]
        ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
        TRANSFERS_FIELD_NUMBER: _ClassVar[int]
        TOTAL_FIELD_NUMBER: _ClassVar[int]
        MACHINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        LOST_WORK_SECONDS_FIELD_NUMBER: _ClassVar[int]
        LOSSES_FIELD_NUMBER: _ClassVar[int]
        STARTS_FIELD_NUMBER: _ClassVar[int]
        ON_DEMAND_EQUIVALENT_FIELD_NUMBER: _ClassVar[int]
        SAVING_PERCENT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        spot: float
        on_demand: float
        transfers: float
        total: float
        machine_seconds: float
        lost_work_seconds: float
        losses: int
        starts: int
        on_demand_equivalent: float
        saving_percent: float
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, spot: _Optional[float] = ..., on_demand: _Optional[float] = ..., transfers: _Optional[float] = ..., total: _Optional[float] = ..., machine_seconds: _Optional[float] = ..., lost_work_seconds: _Optional[float] = ..., losses: _Optional[int] = ..., starts: _Optional[int] = ..., on_demand_equivalent: _Optional[float] = ..., saving_percent: _Optional[float] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class CheckpointRequest(_message.Message):
        __slots__ = ("id", "replica", "time", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ID_FIELD_NUMBER: _ClassVar[int]
        REPLICA_FIELD_NUMBER: _ClassVar[int]
        TIME_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        id: str
        replica: int
        time: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, id: _Optional[str] = ..., replica: _Optional[int] = ..., time: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Progress(_message.Message):
        __slots__ = ("step", "total_steps", "percent", "saved_percent", "updated_at", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        STEP_FIELD_NUMBER: _ClassVar[int]
        TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
        PERCENT_FIELD_NUMBER: _ClassVar[int]
        SAVED_PERCENT_FIELD_NUMBER: _ClassVar[int]
        UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        step: int
        total_steps: int
        percent: float
        saved_percent: float
        updated_at: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., percent: _Optional[float] = ..., saved_percent: _Optional[float] = ..., updated_at: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_CHECKPOINT_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_CHECKPOINT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOB_STATUSES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[SpotInstanceJobStatus.Condition]
    phase: str
    message: str
    observed_generation: int
    active_replicas: int
    selector: str
    start_time: str
    completion_time: str
    last_checkpoint_time: str
    last_checkpoint_image: str
    checkpoint_interval_seconds: float
    job_statuses: _containers.RepeatedCompositeFieldContainer[SpotInstanceJobStatus.JobStatus]
    placements: _containers.RepeatedCompositeFieldContainer[SpotInstanceJobStatus.Placement]
    cost: SpotInstanceJobStatus.Cost
    machines: int
    attempt: int
    failures: int
    checkpoint_request: SpotInstanceJobStatus.CheckpointRequest
    progress: SpotInstanceJobStatus.Progress
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, conditions: _Optional[_Iterable[_Union[SpotInstanceJobStatus.Condition, _Mapping]]] = ..., phase: _Optional[str] = ..., message: _Optional[str] = ..., observed_generation: _Optional[int] = ..., active_replicas: _Optional[int] = ..., selector: _Optional[str] = ..., start_time: _Optional[str] = ..., completion_time: _Optional[str] = ..., last_checkpoint_time: _Optional[str] = ..., last_checkpoint_image: _Optional[str] = ..., checkpoint_interval_seconds: _Optional[float] = ..., job_statuses: _Optional[_Iterable[_Union[SpotInstanceJobStatus.JobStatus, _Mapping]]] = ..., placements: _Optional[_Iterable[_Union[SpotInstanceJobStatus.Placement, _Mapping]]] = ..., cost: _Optional[_Union[SpotInstanceJobStatus.Cost, _Mapping]] = ..., machines: _Optional[int] = ..., attempt: _Optional[int] = ..., failures: _Optional[int] = ..., checkpoint_request: _Optional[_Union[SpotInstanceJobStatus.CheckpointRequest, _Mapping]] = ..., progress: _Optional[_Union[SpotInstanceJobStatus.Progress, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: SpotInstanceJob
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListSpotInstanceJobsRequest(_message.Message):
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

class ListSpotInstanceJobsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[SpotInstanceJob]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[SpotInstanceJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: SpotInstanceJob
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteSpotInstanceJobRequest(_message.Message):
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

class DeleteSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ...) -> None: ...

class GetSpotInstanceJobStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetSpotInstanceJobStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class RestartSpotInstanceJobRequest(_message.Message):
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

class RestartSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class SuspendSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class SuspendSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ResumeSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class ResumeSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ScaleSpotInstanceJobRequest(_message.Message):
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

class ScaleSpotInstanceJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceJob
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ExplainSpotInstanceJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainSpotInstanceJobResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListSpotInstanceJobEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListSpotInstanceJobEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchSpotInstanceJobStatusRequest(_message.Message):
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

class WatchSpotInstanceJobStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: SpotInstanceJob
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceJob, _Mapping]] = ...) -> None: ...

class GetSpotInstanceJobLogsRequest(_message.Message):
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

class GetSpotInstanceJobLogsResponse(_message.Message):
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

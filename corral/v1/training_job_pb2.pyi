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

class TrainingJob(_message.Message):
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
    spec: TrainingJobSpec
    status: TrainingJobStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[TrainingJobSpec, _Mapping]] = ..., status: _Optional[_Union[TrainingJobStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class TrainingJobSpec(_message.Message):
    __slots__ = ("framework", "replicas", "procs_per_replica", "template", "image", "command", "args", "env", "resources", "elastic", "run_policy", "checkpoint", "scheduling", "network", "service_account", "other_fields")
    class Elastic(_message.Message):
        __slots__ = ("min_replicas", "max_replicas", "metrics", "other_fields")
        class Metric(_message.Message):
            __slots__ = ("type", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            TYPE_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            type: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, type: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
        MAX_REPLICAS_FIELD_NUMBER: _ClassVar[int]
        METRICS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        min_replicas: int
        max_replicas: int
        metrics: _containers.RepeatedCompositeFieldContainer[TrainingJobSpec.Elastic.Metric]
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, min_replicas: _Optional[int] = ..., max_replicas: _Optional[int] = ..., metrics: _Optional[_Iterable[_Union[TrainingJobSpec.Elastic.Metric, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class RunPolicy(_message.Message):
        __slots__ = ("suspend", "backoff_limit", "active_deadline_seconds", "ttl_seconds_after_finished", "clean_pod_policy", "restart_scope", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        SUSPEND_FIELD_NUMBER: _ClassVar[int]
        BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        TTL_SECONDS_AFTER_FINISHED_FIELD_NUMBER: _ClassVar[int]
        CLEAN_POD_POLICY_FIELD_NUMBER: _ClassVar[int]
        RESTART_SCOPE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        suspend: bool
        backoff_limit: int
        active_deadline_seconds: int
        ttl_seconds_after_finished: int
        clean_pod_policy: str
        restart_scope: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, suspend: _Optional[bool] = ..., backoff_limit: _Optional[int] = ..., active_deadline_seconds: _Optional[int] = ..., ttl_seconds_after_finished: _Optional[int] = ..., clean_pod_policy: _Optional[str] = ..., restart_scope: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Checkpoint(_message.Message):
        __slots__ = ("interval", "mount_path", "storage", "retention", "restore", "other_fields")
        class Storage(_message.Message):
            __slots__ = ("pvc", "s3", "gcs", "azure", "local", "other_fields")
            class Pvc(_message.Message):
                __slots__ = ("size", "storage_class_name", "access_modes", "other_fields")
                class OtherFieldsEntry(_message.Message):
                    __slots__ = ("key", "value")
                    KEY_FIELD_NUMBER: _ClassVar[int]
                    VALUE_FIELD_NUMBER: _ClassVar[int]
                    key: str
                    value: _value_pb2.Value
                    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
                SIZE_FIELD_NUMBER: _ClassVar[int]
                STORAGE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
                ACCESS_MODES_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                size: _value_pb2.Value
                storage_class_name: str
                access_modes: _containers.RepeatedScalarFieldContainer[str]
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, size: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., storage_class_name: _Optional[str] = ..., access_modes: _Optional[_Iterable[str]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class S3(_message.Message):
                __slots__ = ("bucket", "prefix", "endpoint", "secret_ref", "region", "other_fields")
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
                BUCKET_FIELD_NUMBER: _ClassVar[int]
                PREFIX_FIELD_NUMBER: _ClassVar[int]
                ENDPOINT_FIELD_NUMBER: _ClassVar[int]
                SECRET_REF_FIELD_NUMBER: _ClassVar[int]
                REGION_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                bucket: str
                prefix: str
                endpoint: str
                secret_ref: TrainingJobSpec.Checkpoint.Storage.S3.SecretRef
                region: str
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, bucket: _Optional[str] = ..., prefix: _Optional[str] = ..., endpoint: _Optional[str] = ..., secret_ref: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.S3.SecretRef, _Mapping]] = ..., region: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class Gcs(_message.Message):
                __slots__ = ("bucket", "prefix", "endpoint", "secret_ref", "other_fields")
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
                BUCKET_FIELD_NUMBER: _ClassVar[int]
                PREFIX_FIELD_NUMBER: _ClassVar[int]
                ENDPOINT_FIELD_NUMBER: _ClassVar[int]
                SECRET_REF_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                bucket: str
                prefix: str
                endpoint: str
                secret_ref: TrainingJobSpec.Checkpoint.Storage.Gcs.SecretRef
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, bucket: _Optional[str] = ..., prefix: _Optional[str] = ..., endpoint: _Optional[str] = ..., secret_ref: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Gcs.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class Azure(_message.Message):
                __slots__ = ("account", "container", "prefix", "endpoint", "secret_ref", "other_fields")
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
                ACCOUNT_FIELD_NUMBER: _ClassVar[int]
                CONTAINER_FIELD_NUMBER: _ClassVar[int]
                PREFIX_FIELD_NUMBER: _ClassVar[int]
                ENDPOINT_FIELD_NUMBER: _ClassVar[int]
                SECRET_REF_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                account: str
                container: str
                prefix: str
                endpoint: str
                secret_ref: TrainingJobSpec.Checkpoint.Storage.Azure.SecretRef
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, account: _Optional[str] = ..., container: _Optional[str] = ..., prefix: _Optional[str] = ..., endpoint: _Optional[str] = ..., secret_ref: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Azure.SecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class Local(_message.Message):
                __slots__ = ("path", "other_fields")
                class OtherFieldsEntry(_message.Message):
                    __slots__ = ("key", "value")
                    KEY_FIELD_NUMBER: _ClassVar[int]
                    VALUE_FIELD_NUMBER: _ClassVar[int]
                    key: str
                    value: _value_pb2.Value
                    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
                PATH_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                path: str
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, path: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            PVC_FIELD_NUMBER: _ClassVar[int]
            S3_FIELD_NUMBER: _ClassVar[int]
            GCS_FIELD_NUMBER: _ClassVar[int]
            AZURE_FIELD_NUMBER: _ClassVar[int]
            LOCAL_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            pvc: TrainingJobSpec.Checkpoint.Storage.Pvc
            s3: TrainingJobSpec.Checkpoint.Storage.S3
            gcs: TrainingJobSpec.Checkpoint.Storage.Gcs
            azure: TrainingJobSpec.Checkpoint.Storage.Azure
            local: TrainingJobSpec.Checkpoint.Storage.Local
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, pvc: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Pvc, _Mapping]] = ..., s3: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.S3, _Mapping]] = ..., gcs: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Gcs, _Mapping]] = ..., azure: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Azure, _Mapping]] = ..., local: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage.Local, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class Retention(_message.Message):
            __slots__ = ("keep_last", "keep_every", "keep_best", "max_age", "other_fields")
            class KeepBest(_message.Message):
                __slots__ = ("metric", "mode", "other_fields")
                class OtherFieldsEntry(_message.Message):
                    __slots__ = ("key", "value")
                    KEY_FIELD_NUMBER: _ClassVar[int]
                    VALUE_FIELD_NUMBER: _ClassVar[int]
                    key: str
                    value: _value_pb2.Value
                    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
                METRIC_FIELD_NUMBER: _ClassVar[int]
                MODE_FIELD_NUMBER: _ClassVar[int]
                OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
                metric: str
                mode: str
                other_fields: _containers.MessageMap[str, _value_pb2.Value]
                def __init__(self, metric: _Optional[str] = ..., mode: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            KEEP_LAST_FIELD_NUMBER: _ClassVar[int]
            KEEP_EVERY_FIELD_NUMBER: _ClassVar[int]
            KEEP_BEST_FIELD_NUMBER: _ClassVar[int]
            MAX_AGE_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            keep_last: int
            keep_every: int
            keep_best: TrainingJobSpec.Checkpoint.Retention.KeepBest
            max_age: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, keep_last: _Optional[int] = ..., keep_every: _Optional[int] = ..., keep_best: _Optional[_Union[TrainingJobSpec.Checkpoint.Retention.KeepBest, _Mapping]] = ..., max_age: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class Restore(_message.Message):
            __slots__ = ("other_fields",)
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            FROM_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ..., **kwargs) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        INTERVAL_FIELD_NUMBER: _ClassVar[int]
        MOUNT_PATH_FIELD_NUMBER: _ClassVar[int]
        STORAGE_FIELD_NUMBER: _ClassVar[int]
        RETENTION_FIELD_NUMBER: _ClassVar[int]
        RESTORE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        interval: str
        mount_path: str
        storage: TrainingJobSpec.Checkpoint.Storage
        retention: TrainingJobSpec.Checkpoint.Retention
        restore: TrainingJobSpec.Checkpoint.Restore
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, interval: _Optional[str] = ..., mount_path: _Optional[str] = ..., storage: _Optional[_Union[TrainingJobSpec.Checkpoint.Storage, _Mapping]] = ..., retention: _Optional[_Union[TrainingJobSpec.Checkpoint.Retention, _Mapping]] = ..., restore: _Optional[_Union[TrainingJobSpec.Checkpoint.Restore, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Scheduling(_message.Message):
        __slots__ = ("queue", "priority_class_name", "gang", "topology", "gpu", "other_fields")
        class Topology(_message.Message):
            __slots__ = ("key", "mode", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            KEY_FIELD_NUMBER: _ClassVar[int]
            MODE_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            key: str
            mode: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, key: _Optional[str] = ..., mode: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class Gpu(_message.Message):
            __slots__ = ("model", "mig", "other_fields")
            class OtherFieldsEntry(_message.Message):
                __slots__ = ("key", "value")
                KEY_FIELD_NUMBER: _ClassVar[int]
                VALUE_FIELD_NUMBER: _ClassVar[int]
                key: str
                value: _value_pb2.Value
                def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
            MODEL_FIELD_NUMBER: _ClassVar[int]
            MIG_FIELD_NUMBER: _ClassVar[int]
            OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
            model: str
            mig: str
            other_fields: _containers.MessageMap[str, _value_pb2.Value]
            def __init__(self, model: _Optional[str] = ..., mig: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        QUEUE_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
        GANG_FIELD_NUMBER: _ClassVar[int]
        TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
        GPU_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        queue: str
        priority_class_name: str
        gang: bool
        topology: TrainingJobSpec.Scheduling.Topology
        gpu: TrainingJobSpec.Scheduling.Gpu
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, queue: _Optional[str] = ..., priority_class_name: _Optional[str] = ..., gang: _Optional[bool] = ..., topology: _Optional[_Union[TrainingJobSpec.Scheduling.Topology, _Mapping]] = ..., gpu: _Optional[_Union[TrainingJobSpec.Scheduling.Gpu, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Network(_message.Message):
        __slots__ = ("policy", "mesh", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        POLICY_FIELD_NUMBER: _ClassVar[int]
        MESH_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        policy: str
        mesh: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, policy: _Optional[str] = ..., mesh: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ServiceAccount(_message.Message):
        __slots__ = ("create", "annotations", "other_fields")
        class AnnotationsEntry(_message.Message):
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
        CREATE_FIELD_NUMBER: _ClassVar[int]
        ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        create: bool
        annotations: _containers.ScalarMap[str, str]
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, create: _Optional[bool] = ..., annotations: _Optional[_Mapping[str, str]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PROCS_PER_REPLICA_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_FIELD_NUMBER: _ClassVar[int]
    RUN_POLICY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    framework: str
    replicas: int
    procs_per_replica: _value_pb2.Value
    template: _core_pb2.PodTemplateSpec
    image: str
    command: _containers.RepeatedScalarFieldContainer[str]
    args: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.RepeatedCompositeFieldContainer[_core_pb2.EnvVar]
    resources: _core_pb2.ResourceRequirements
    elastic: TrainingJobSpec.Elastic
    run_policy: TrainingJobSpec.RunPolicy
    checkpoint: TrainingJobSpec.Checkpoint
    scheduling: TrainingJobSpec.Scheduling
    network: TrainingJobSpec.Network
    service_account: TrainingJobSpec.ServiceAccount
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, framework: _Optional[str] = ..., replicas: _Optional[int] = ..., procs_per_replica: _Optional[_Union[_value_pb2.Value, _Mapping]] = ..., template: _Optional[_Union[_core_pb2.PodTemplateSpec, _Mapping]] = ..., image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., args: _Optional[_Iterable[str]] = ..., env: _Optional[_Iterable[_Union[_core_pb2.EnvVar, _Mapping]]] = ..., resources: _Optional[_Union[_core_pb2.ResourceRequirements, _Mapping]] = ..., elastic: _Optional[_Union[TrainingJobSpec.Elastic, _Mapping]] = ..., run_policy: _Optional[_Union[TrainingJobSpec.RunPolicy, _Mapping]] = ..., checkpoint: _Optional[_Union[TrainingJobSpec.Checkpoint, _Mapping]] = ..., scheduling: _Optional[_Union[TrainingJobSpec.Scheduling, _Mapping]] = ..., network: _Optional[_Union[TrainingJobSpec.Network, _Mapping]] = ..., service_account: _Optional[_Union[TrainingJobSpec.ServiceAccount, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class TrainingJobStatus(_message.Message):
    __slots__ = ("phase", "conditions", "observed_generation", "start_time", "completion_time", "next_attempt_time", "suspended_seconds", "selector", "attempt", "world_size", "replica_attempts", "launched_attempt", "completed_replicas", "replicas", "progress", "checkpoint", "failure", "cost", "other_fields")
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
    class Replicas(_message.Message):
        __slots__ = ("desired", "active", "ready", "succeeded", "failed", "restarts", "disruptions", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        DESIRED_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_FIELD_NUMBER: _ClassVar[int]
        READY_FIELD_NUMBER: _ClassVar[int]
        SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
        FAILED_FIELD_NUMBER: _ClassVar[int]
        RESTARTS_FIELD_NUMBER: _ClassVar[int]
        DISRUPTIONS_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        desired: int
        active: int
        ready: int
        succeeded: int
        failed: int
        restarts: int
        disruptions: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, desired: _Optional[int] = ..., active: _Optional[int] = ..., ready: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., restarts: _Optional[int] = ..., disruptions: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
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
    class Checkpoint(_message.Message):
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
    class Failure(_message.Message):
        __slots__ = ("replica", "pod", "node", "reason", "exit_code", "signal", "message", "log_tail", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        REPLICA_FIELD_NUMBER: _ClassVar[int]
        POD_FIELD_NUMBER: _ClassVar[int]
        NODE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        replica: int
        pod: str
        node: str
        reason: str
        exit_code: int
        signal: int
        message: str
        log_tail: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, replica: _Optional[int] = ..., pod: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., log_tail: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
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
    class ReplicaAttemptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    conditions: _containers.RepeatedCompositeFieldContainer[TrainingJobStatus.Condition]
    observed_generation: int
    start_time: str
    completion_time: str
    next_attempt_time: str
    suspended_seconds: int
    selector: str
    attempt: int
    world_size: int
    replica_attempts: _containers.ScalarMap[str, int]
    launched_attempt: int
    completed_replicas: str
    replicas: TrainingJobStatus.Replicas
    progress: TrainingJobStatus.Progress
    checkpoint: TrainingJobStatus.Checkpoint
    failure: TrainingJobStatus.Failure
    cost: TrainingJobStatus.Cost
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, phase: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[TrainingJobStatus.Condition, _Mapping]]] = ..., observed_generation: _Optional[int] = ..., start_time: _Optional[str] = ..., completion_time: _Optional[str] = ..., next_attempt_time: _Optional[str] = ..., suspended_seconds: _Optional[int] = ..., selector: _Optional[str] = ..., attempt: _Optional[int] = ..., world_size: _Optional[int] = ..., replica_attempts: _Optional[_Mapping[str, int]] = ..., launched_attempt: _Optional[int] = ..., completed_replicas: _Optional[str] = ..., replicas: _Optional[_Union[TrainingJobStatus.Replicas, _Mapping]] = ..., progress: _Optional[_Union[TrainingJobStatus.Progress, _Mapping]] = ..., checkpoint: _Optional[_Union[TrainingJobStatus.Checkpoint, _Mapping]] = ..., failure: _Optional[_Union[TrainingJobStatus.Failure, _Mapping]] = ..., cost: _Optional[_Union[TrainingJobStatus.Cost, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: TrainingJob
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[TrainingJob, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListTrainingJobsRequest(_message.Message):
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

class ListTrainingJobsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[TrainingJob]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[TrainingJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: TrainingJob
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[TrainingJob, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteTrainingJobRequest(_message.Message):
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

class DeleteTrainingJobResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ...) -> None: ...

class GetTrainingJobStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetTrainingJobStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class RestartTrainingJobRequest(_message.Message):
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

class RestartTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class SuspendTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class SuspendTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ResumeTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "name", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., if_match: _Optional[str] = ...) -> None: ...

class ResumeTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ScaleTrainingJobRequest(_message.Message):
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

class ScaleTrainingJobResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: TrainingJob
    etag: str
    def __init__(self, object: _Optional[_Union[TrainingJob, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ExplainTrainingJobRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainTrainingJobResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListTrainingJobEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListTrainingJobEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchTrainingJobStatusRequest(_message.Message):
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

class WatchTrainingJobStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: TrainingJob
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[TrainingJob, _Mapping]] = ...) -> None: ...

class GetTrainingJobLogsRequest(_message.Message):
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

class GetTrainingJobLogsResponse(_message.Message):
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

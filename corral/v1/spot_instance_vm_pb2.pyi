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

class SpotInstanceVM(_message.Message):
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
    spec: SpotInstanceVMSpec
    status: SpotInstanceVMStatus
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., metadata: _Optional[_Union[_core_pb2.ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[SpotInstanceVMSpec, _Mapping]] = ..., status: _Optional[_Union[SpotInstanceVMStatus, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class SpotInstanceVMSpec(_message.Message):
    __slots__ = ("vm_image", "gpu", "gcp", "aws", "azure", "local", "startup_script", "kubeadm_join_config", "ssh", "other_fields")
    class Gpu(_message.Message):
        __slots__ = ("type", "count", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        TYPE_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        type: str
        count: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, type: _Optional[str] = ..., count: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Gcp(_message.Message):
        __slots__ = ("zones", "machine_types", "image", "disk_size_gb", "external_ip", "project", "zone", "region", "machine_type", "disk_type", "network_tags", "service_account", "network", "subnetwork", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ZONES_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPES_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        DISK_SIZE_GB_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        PROJECT_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        DISK_TYPE_FIELD_NUMBER: _ClassVar[int]
        NETWORK_TAGS_FIELD_NUMBER: _ClassVar[int]
        SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
        NETWORK_FIELD_NUMBER: _ClassVar[int]
        SUBNETWORK_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        zones: _containers.RepeatedScalarFieldContainer[str]
        machine_types: _containers.RepeatedScalarFieldContainer[str]
        image: str
        disk_size_gb: int
        external_ip: bool
        project: str
        zone: str
        region: str
        machine_type: str
        disk_type: str
        network_tags: _containers.RepeatedScalarFieldContainer[str]
        service_account: str
        network: str
        subnetwork: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, zones: _Optional[_Iterable[str]] = ..., machine_types: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., disk_size_gb: _Optional[int] = ..., external_ip: _Optional[bool] = ..., project: _Optional[str] = ..., zone: _Optional[str] = ..., region: _Optional[str] = ..., machine_type: _Optional[str] = ..., disk_type: _Optional[str] = ..., network_tags: _Optional[_Iterable[str]] = ..., service_account: _Optional[str] = ..., network: _Optional[str] = ..., subnetwork: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Aws(_message.Message):
        __slots__ = ("zones", "machine_types", "image", "disk_size_gb", "external_ip", "region", "zone", "machine_type", "disk_type", "subnets", "security_groups", "key_name", "instance_profile", "other_fields")
        class SubnetsEntry(_message.Message):
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
        ZONES_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPES_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        DISK_SIZE_GB_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        DISK_TYPE_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        SECURITY_GROUPS_FIELD_NUMBER: _ClassVar[int]
        KEY_NAME_FIELD_NUMBER: _ClassVar[int]
        INSTANCE_PROFILE_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        zones: _containers.RepeatedScalarFieldContainer[str]
        machine_types: _containers.RepeatedScalarFieldContainer[str]
        image: str
        disk_size_gb: int
        external_ip: bool
        region: str
        zone: str
        machine_type: str
        disk_type: str
        subnets: _containers.ScalarMap[str, str]
        security_groups: _containers.RepeatedScalarFieldContainer[str]
        key_name: str
        instance_profile: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, zones: _Optional[_Iterable[str]] = ..., machine_types: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., disk_size_gb: _Optional[int] = ..., external_ip: _Optional[bool] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., disk_type: _Optional[str] = ..., subnets: _Optional[_Mapping[str, str]] = ..., security_groups: _Optional[_Iterable[str]] = ..., key_name: _Optional[str] = ..., instance_profile: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Azure(_message.Message):
        __slots__ = ("zones", "machine_types", "image", "disk_size_gb", "external_ip", "subscription", "resource_group", "region", "zone", "machine_type", "disk_type", "subnet_id", "security_group_id", "identity", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        ZONES_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPES_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        DISK_SIZE_GB_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
        RESOURCE_GROUP_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        DISK_TYPE_FIELD_NUMBER: _ClassVar[int]
        SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
        SECURITY_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        zones: _containers.RepeatedScalarFieldContainer[str]
        machine_types: _containers.RepeatedScalarFieldContainer[str]
        image: str
        disk_size_gb: int
        external_ip: bool
        subscription: str
        resource_group: str
        region: str
        zone: str
        machine_type: str
        disk_type: str
        subnet_id: str
        security_group_id: str
        identity: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, zones: _Optional[_Iterable[str]] = ..., machine_types: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., disk_size_gb: _Optional[int] = ..., external_ip: _Optional[bool] = ..., subscription: _Optional[str] = ..., resource_group: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., disk_type: _Optional[str] = ..., subnet_id: _Optional[str] = ..., security_group_id: _Optional[str] = ..., identity: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Local(_message.Message):
        __slots__ = ("zones", "machine_types", "image", "disk_size_gb", "external_ip", "zone", "machine_type", "notice_seconds", "capacity", "other_fields")
        class CapacityEntry(_message.Message):
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
        ZONES_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPES_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        DISK_SIZE_GB_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        NOTICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
        CAPACITY_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        zones: _containers.RepeatedScalarFieldContainer[str]
        machine_types: _containers.RepeatedScalarFieldContainer[str]
        image: str
        disk_size_gb: int
        external_ip: bool
        zone: str
        machine_type: str
        notice_seconds: int
        capacity: _containers.ScalarMap[str, int]
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, zones: _Optional[_Iterable[str]] = ..., machine_types: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., disk_size_gb: _Optional[int] = ..., external_ip: _Optional[bool] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., notice_seconds: _Optional[int] = ..., capacity: _Optional[_Mapping[str, int]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class KubeadmJoinConfig(_message.Message):
        __slots__ = ("token_secret_ref", "ca_cert_hash", "control_plane_endpoint", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        TOKEN_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
        CA_CERT_HASH_FIELD_NUMBER: _ClassVar[int]
        CONTROL_PLANE_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        token_secret_ref: str
        ca_cert_hash: str
        control_plane_endpoint: str
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, token_secret_ref: _Optional[str] = ..., ca_cert_hash: _Optional[str] = ..., control_plane_endpoint: _Optional[str] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class Ssh(_message.Message):
        __slots__ = ("user", "private_key_secret_ref", "port", "other_fields")
        class PrivateKeySecretRef(_message.Message):
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
        USER_FIELD_NUMBER: _ClassVar[int]
        PRIVATE_KEY_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
        PORT_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        user: str
        private_key_secret_ref: SpotInstanceVMSpec.Ssh.PrivateKeySecretRef
        port: int
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, user: _Optional[str] = ..., private_key_secret_ref: _Optional[_Union[SpotInstanceVMSpec.Ssh.PrivateKeySecretRef, _Mapping]] = ..., port: _Optional[int] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    VM_IMAGE_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    GCP_FIELD_NUMBER: _ClassVar[int]
    AWS_FIELD_NUMBER: _ClassVar[int]
    AZURE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    STARTUP_SCRIPT_FIELD_NUMBER: _ClassVar[int]
    KUBEADM_JOIN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SSH_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    vm_image: str
    gpu: SpotInstanceVMSpec.Gpu
    gcp: SpotInstanceVMSpec.Gcp
    aws: SpotInstanceVMSpec.Aws
    azure: SpotInstanceVMSpec.Azure
    local: SpotInstanceVMSpec.Local
    startup_script: str
    kubeadm_join_config: SpotInstanceVMSpec.KubeadmJoinConfig
    ssh: SpotInstanceVMSpec.Ssh
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, vm_image: _Optional[str] = ..., gpu: _Optional[_Union[SpotInstanceVMSpec.Gpu, _Mapping]] = ..., gcp: _Optional[_Union[SpotInstanceVMSpec.Gcp, _Mapping]] = ..., aws: _Optional[_Union[SpotInstanceVMSpec.Aws, _Mapping]] = ..., azure: _Optional[_Union[SpotInstanceVMSpec.Azure, _Mapping]] = ..., local: _Optional[_Union[SpotInstanceVMSpec.Local, _Mapping]] = ..., startup_script: _Optional[str] = ..., kubeadm_join_config: _Optional[_Union[SpotInstanceVMSpec.KubeadmJoinConfig, _Mapping]] = ..., ssh: _Optional[_Union[SpotInstanceVMSpec.Ssh, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class SpotInstanceVMStatus(_message.Message):
    __slots__ = ("conditions", "phase", "observed_generation", "offers", "provisioned_instances", "other_fields")
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
    class Offer(_message.Message):
        __slots__ = ("cloud", "region", "zone", "machine_type", "provisioning_model", "price_per_hour", "hazard_per_hour", "other_fields")
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        CLOUD_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        PROVISIONING_MODEL_FIELD_NUMBER: _ClassVar[int]
        PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
        HAZARD_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        cloud: str
        region: str
        zone: str
        machine_type: str
        provisioning_model: str
        price_per_hour: float
        hazard_per_hour: float
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, cloud: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., provisioning_model: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., hazard_per_hour: _Optional[float] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class ProvisionedInstance(_message.Message):
        __slots__ = ("name", "instance_id", "internal_ip", "external_ip", "state", "joined_cluster", "node_name", "creation_time", "job", "request_id", "cloud", "region", "zone", "machine_type", "provisioning_model", "price_per_hour", "preemption_notice", "preemption_deadline", "reason", "message", "end_time", "credentials_secret_ref", "other_fields")
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
        class OtherFieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _value_pb2.Value
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
        NAME_FIELD_NUMBER: _ClassVar[int]
        INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
        INTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        JOINED_CLUSTER_FIELD_NUMBER: _ClassVar[int]
        NODE_NAME_FIELD_NUMBER: _ClassVar[int]
        CREATION_TIME_FIELD_NUMBER: _ClassVar[int]
        JOB_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        CLOUD_FIELD_NUMBER: _ClassVar[int]
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
        PROVISIONING_MODEL_FIELD_NUMBER: _ClassVar[int]
        PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
        PREEMPTION_NOTICE_FIELD_NUMBER: _ClassVar[int]
        PREEMPTION_DEADLINE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        END_TIME_FIELD_NUMBER: _ClassVar[int]
        CREDENTIALS_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
        OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
        name: str
        instance_id: str
        internal_ip: str
        external_ip: str
        state: str
        joined_cluster: bool
        node_name: str
        creation_time: str
        job: str
        request_id: str
        cloud: str
        region: str
        zone: str
        machine_type: str
        provisioning_model: str
        price_per_hour: float
        preemption_notice: str
        preemption_deadline: str
        reason: str
        message: str
        end_time: str
        credentials_secret_ref: SpotInstanceVMStatus.ProvisionedInstance.CredentialsSecretRef
        other_fields: _containers.MessageMap[str, _value_pb2.Value]
        def __init__(self, name: _Optional[str] = ..., instance_id: _Optional[str] = ..., internal_ip: _Optional[str] = ..., external_ip: _Optional[str] = ..., state: _Optional[str] = ..., joined_cluster: _Optional[bool] = ..., node_name: _Optional[str] = ..., creation_time: _Optional[str] = ..., job: _Optional[str] = ..., request_id: _Optional[str] = ..., cloud: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., provisioning_model: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., preemption_notice: _Optional[str] = ..., preemption_deadline: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., end_time: _Optional[str] = ..., credentials_secret_ref: _Optional[_Union[SpotInstanceVMStatus.ProvisionedInstance.CredentialsSecretRef, _Mapping]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...
    class OtherFieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _value_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_value_pb2.Value, _Mapping]] = ...) -> None: ...
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    PROVISIONED_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[SpotInstanceVMStatus.Condition]
    phase: str
    observed_generation: int
    offers: _containers.RepeatedCompositeFieldContainer[SpotInstanceVMStatus.Offer]
    provisioned_instances: _containers.RepeatedCompositeFieldContainer[SpotInstanceVMStatus.ProvisionedInstance]
    other_fields: _containers.MessageMap[str, _value_pb2.Value]
    def __init__(self, conditions: _Optional[_Iterable[_Union[SpotInstanceVMStatus.Condition, _Mapping]]] = ..., phase: _Optional[str] = ..., observed_generation: _Optional[int] = ..., offers: _Optional[_Iterable[_Union[SpotInstanceVMStatus.Offer, _Mapping]]] = ..., provisioned_instances: _Optional[_Iterable[_Union[SpotInstanceVMStatus.ProvisionedInstance, _Mapping]]] = ..., other_fields: _Optional[_Mapping[str, _value_pb2.Value]] = ...) -> None: ...

class CreateSpotInstanceVMRequest(_message.Message):
    __slots__ = ("namespace", "object", "idempotency_key", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    object: SpotInstanceVM
    idempotency_key: str
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateSpotInstanceVMResponse(_message.Message):
    __slots__ = ("object", "etag", "already_created")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALREADY_CREATED_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceVM
    etag: str
    already_created: bool
    def __init__(self, object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ..., etag: _Optional[str] = ..., already_created: _Optional[bool] = ...) -> None: ...

class GetSpotInstanceVMRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetSpotInstanceVMResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceVM
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class ListSpotInstanceVMsRequest(_message.Message):
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

class ListSpotInstanceVMsResponse(_message.Message):
    __slots__ = ("objects", "next_page_token", "total")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[SpotInstanceVM]
    next_page_token: str
    total: int
    def __init__(self, objects: _Optional[_Iterable[_Union[SpotInstanceVM, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class ReplaceSpotInstanceVMRequest(_message.Message):
    __slots__ = ("namespace", "name", "object", "if_match")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    object: SpotInstanceVM
    if_match: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ..., if_match: _Optional[str] = ...) -> None: ...

class ReplaceSpotInstanceVMResponse(_message.Message):
    __slots__ = ("object", "etag")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceVM
    etag: str
    def __init__(self, object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteSpotInstanceVMRequest(_message.Message):
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

class DeleteSpotInstanceVMResponse(_message.Message):
    __slots__ = ("object",)
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    object: SpotInstanceVM
    def __init__(self, object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ...) -> None: ...

class GetSpotInstanceVMStatusRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetSpotInstanceVMStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.JobStatus
    def __init__(self, status: _Optional[_Union[_status_pb2.JobStatus, _Mapping]] = ...) -> None: ...

class ExplainSpotInstanceVMRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ExplainSpotInstanceVMResponse(_message.Message):
    __slots__ = ("explanation",)
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    explanation: _status_pb2.Explanation
    def __init__(self, explanation: _Optional[_Union[_status_pb2.Explanation, _Mapping]] = ...) -> None: ...

class ListSpotInstanceVMEventsRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListSpotInstanceVMEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    def __init__(self, events: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ...) -> None: ...

class WatchSpotInstanceVMStatusRequest(_message.Message):
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

class WatchSpotInstanceVMStatusResponse(_message.Message):
    __slots__ = ("type", "phase", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: _jobs_pb2.ChangeType
    phase: str
    object: SpotInstanceVM
    def __init__(self, type: _Optional[_Union[_jobs_pb2.ChangeType, str]] = ..., phase: _Optional[str] = ..., object: _Optional[_Union[SpotInstanceVM, _Mapping]] = ...) -> None: ...

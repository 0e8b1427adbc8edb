"""What a controller needs: local copies of collections, queues, reconciles, leadership, events.

Start with `Manager` (`manager`): it runs informers and controllers in order. A controller is a
queue, workers and a reconciler (`controller`); an informer is a store that keeps itself up to date
(`informer`). Queue, limiters, conditions, consistency, correlation and election are pure: they
take a clock and do no I/O. Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.runtime.children import ChildWriter, NameTaken, merge_diff, write_status
    from corral.runtime.conditions import (
        find_condition,
        has_condition,
        is_condition_false,
        is_condition_true,
        remove_condition,
        set_condition,
    )
    from corral.runtime.controller import (
        CacheSyncTimeout,
        Controller,
        Reconciler,
        Result,
        TerminalError,
    )
    from corral.runtime.events.correlation import CorrelationSettings, EventCorrelator
    from corral.runtime.events.recorder import EventRecorder
    from corral.runtime.finalizers import (
        add_finalizer,
        has_finalizer,
        is_being_deleted,
        remove_finalizer,
    )
    from corral.runtime.informers.backoff import Backoff, BackoffSettings
    from corral.runtime.informers.consistency import ConsistencyStore, NotYetConsistent
    from corral.runtime.informers.handlers import (
        Mapper,
        all_of,
        any_of,
        generation_changed,
        ignore_creates,
        mapped,
        metadata_changed,
        owner_by_uid,
        owner_of,
        same_object,
        spec_changed,
        spec_or_metadata_changed,
    )
    from corral.runtime.informers.informer import Change, Handler, Informer, strip_managed_fields
    from corral.runtime.informers.reflector import ReflectorSettings, Scope
    from corral.runtime.informers.store import IndexFunction, Store
    from corral.runtime.keys import (
        compare_versions,
        format_micro_time,
        format_time,
        join_key,
        key_of,
        split_key,
        uid_of,
        version_of,
    )
    from corral.runtime.leadership.election import Election, ElectionSettings, LeaseRecord
    from corral.runtime.leadership.leader import LeaderElector, LeadershipLost
    from corral.runtime.logcontext import (
        JsonFormatter,
        LogFormat,
        ReconcileContext,
        ReconcileFields,
        TextFormatter,
        configure_logging,
        current_reconcile,
        reconciling,
    )
    from corral.runtime.manager import Manager, ManagerSettings
    from corral.runtime.metering import MeteredClient
    from corral.runtime.metrics import RuntimeMetrics
    from corral.runtime.operator import Operator, OperatorSettings, Served
    from corral.runtime.owners import (
        CONTROLLER_UID_INDEX,
        UID_INDEX,
        AlreadyOwned,
        OwnershipError,
        controller_of,
        index_by_controller_uid,
        index_by_uid,
        is_controlled_by,
        owner_reference,
        set_controller,
        set_owner,
    )
    from corral.runtime.queues.limiters import (
        BucketLimiter,
        ExponentialLimiter,
        MaxLimiter,
        RateLimiter,
        default_limiter,
    )
    from corral.runtime.queues.workqueue import LOW_PRIORITY, QueueShutDown, WorkQueue
    from corral.runtime.serving.endpoints import Probe, health_app, serving

_HOMES = {
    "informers.backoff": "Backoff BackoffSettings",
    "children": "ChildWriter NameTaken merge_diff write_status",
    "conditions": (
        "find_condition has_condition is_condition_false is_condition_true "
        "remove_condition set_condition"
    ),
    "informers.consistency": "ConsistencyStore NotYetConsistent",
    "controller": "CacheSyncTimeout Controller Reconciler Result TerminalError",
    "events.correlation": "CorrelationSettings EventCorrelator",
    "leadership.election": "Election ElectionSettings LeaseRecord",
    "serving.endpoints": "Probe health_app serving",
    "finalizers": "add_finalizer has_finalizer is_being_deleted remove_finalizer",
    "informers.handlers": (
        "Mapper all_of any_of generation_changed ignore_creates mapped metadata_changed "
        "owner_by_uid owner_of same_object spec_changed spec_or_metadata_changed"
    ),
    "informers.informer": "Change Handler Informer strip_managed_fields",
    "keys": (
        "compare_versions format_micro_time format_time join_key key_of split_key uid_of version_of"
    ),
    "leadership.leader": "LeaderElector LeadershipLost",
    "queues.limiters": "BucketLimiter ExponentialLimiter MaxLimiter RateLimiter default_limiter",
    "logcontext": (
        "JsonFormatter LogFormat ReconcileContext ReconcileFields TextFormatter "
        "configure_logging current_reconcile reconciling"
    ),
    "manager": "Manager ManagerSettings",
    "metering": "MeteredClient",
    "metrics": "RuntimeMetrics",
    "operator": "Operator OperatorSettings Served",
    "owners": (
        "CONTROLLER_UID_INDEX UID_INDEX AlreadyOwned OwnershipError controller_of "
        "index_by_controller_uid index_by_uid is_controlled_by owner_reference "
        "set_controller set_owner"
    ),
    "events.recorder": "EventRecorder",
    "informers.reflector": "ReflectorSettings Scope",
    "informers.store": "IndexFunction Store",
    "queues.workqueue": "LOW_PRIORITY QueueShutDown WorkQueue",
}

__all__ = [
    "CONTROLLER_UID_INDEX",
    "LOW_PRIORITY",
    "UID_INDEX",
    "AlreadyOwned",
    "Backoff",
    "BackoffSettings",
    "BucketLimiter",
    "CacheSyncTimeout",
    "Change",
    "ChildWriter",
    "ConsistencyStore",
    "Controller",
    "CorrelationSettings",
    "Election",
    "ElectionSettings",
    "EventCorrelator",
    "EventRecorder",
    "ExponentialLimiter",
    "Handler",
    "IndexFunction",
    "Informer",
    "JsonFormatter",
    "LeaderElector",
    "LeadershipLost",
    "LeaseRecord",
    "LogFormat",
    "Manager",
    "ManagerSettings",
    "Mapper",
    "MaxLimiter",
    "MeteredClient",
    "NameTaken",
    "NotYetConsistent",
    "Operator",
    "OperatorSettings",
    "OwnershipError",
    "Probe",
    "QueueShutDown",
    "RateLimiter",
    "ReconcileContext",
    "ReconcileFields",
    "Reconciler",
    "ReflectorSettings",
    "Result",
    "RuntimeMetrics",
    "Scope",
    "Served",
    "Store",
    "TerminalError",
    "TextFormatter",
    "WorkQueue",
    "add_finalizer",
    "all_of",
    "any_of",
    "compare_versions",
    "configure_logging",
    "controller_of",
    "current_reconcile",
    "default_limiter",
    "find_condition",
    "format_micro_time",
    "format_time",
    "generation_changed",
    "has_condition",
    "has_finalizer",
    "health_app",
    "ignore_creates",
    "index_by_controller_uid",
    "index_by_uid",
    "is_being_deleted",
    "is_condition_false",
    "is_condition_true",
    "is_controlled_by",
    "join_key",
    "key_of",
    "mapped",
    "merge_diff",
    "metadata_changed",
    "owner_by_uid",
    "owner_of",
    "owner_reference",
    "reconciling",
    "remove_condition",
    "remove_finalizer",
    "same_object",
    "serving",
    "set_condition",
    "set_controller",
    "set_owner",
    "spec_changed",
    "spec_or_metadata_changed",
    "split_key",
    "strip_managed_fields",
    "uid_of",
    "version_of",
    "write_status",
]

__getattr__ = lazily(__name__, _HOMES)

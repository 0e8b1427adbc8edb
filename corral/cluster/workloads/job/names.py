"""The words of the Job API: annotations, finalizer, condition types, reasons and messages."""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "batch/v1"
KIND: Final = "Job"
CONTROLLER_NAME: Final = "kubernetes.io/job-controller"

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Both an annotation and a label."""
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
COMPLETION_INDEX_ENV: Final = "JOB_COMPLETION_INDEX"

SUSPENDED: Final = "Suspended"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"

COMPLETIONS_REACHED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF_LIMIT_EXCEEDED: Final = (
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
)
DEADLINE_EXCEEDED: Final = ("DeadlineExceeded", "Job was active longer than specified deadline")
MAX_FAILED_INDEXES_EXCEEDED: Final = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
FAILED_INDEXES: Final = ("FailedIndexes", "Job has failed indexes")
JOB_SUSPENDED: Final = ("JobSuspended", "Job suspended")
JOB_RESUMED: Final = ("JobResumed", "Job resumed")
POD_FAILURE_POLICY: Final = "PodFailurePolicy"
SUCCESS_POLICY: Final = "SuccessPolicy"

MAX_UNCOUNTED_PODS: Final = 500
"""How many pods one status may carry as uncounted: keeps the status under about 20 KB."""
MAX_PODS_PER_SYNC: Final = 500
"""How many pods one pass creates or deletes."""
BATCH_PERIOD_S: Final = 1.0
"""Pod events and retries of one job are gathered for this long."""
POD_BACKOFF_S: Final = 10.0
MAX_POD_BACKOFF_S: Final = 600.0

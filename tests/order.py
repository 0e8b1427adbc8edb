"""The order of test files: the longest first, so that nobody is left alone with one at the end.

Only files that take ten seconds or more are named; what they take may change without harm.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = (
    "cluster/training/test_digits_training.py",
    "cluster/spot_faults/test_spot_faults.py",
    "cluster/jobs/test_job_stories.py",
    "cluster/kafkaml_jobs/test_kafkaml_workflow.py",
    "cluster/services/test_quota_usage.py",
    "cluster/mpi_runs/test_mpi_rsh_pods.py",
    "cluster/test_durability.py",
    "cluster/trainingjob_checkpoints/test_checkpoint_retention_stores.py",
    "e2e/test_up.py",
    "e2e/test_operator_up.py",
    "cluster/trainingjob_checkpoints/test_checkpoint_uploads.py",
    "cluster/trainingjob_faults/test_training_two_operators.py",
    "cluster/trainingjob_faults/test_training_faults.py",
    "cluster/federated_clients/test_federated_digits.py",
    "cluster/federated_clients/test_federated_faults.py",
    "cluster/claims/",
    "cluster/kubectl/test_kubectl_apply.py",
    "cluster/trainingjob/test_trainingjob_lifecycle.py",
    "cluster/mpijob/test_mpijob_lifecycle.py",
    "cluster/jobs/",
    "cluster/helm/",
    "cluster/kubectl/",
    "cluster/pods/",
    "e2e/",
    "cluster/trainingjob",
    "cluster/mpi",
    "cluster/apps/",
    "clouds/test_aws_apart.py",
    "unit/clouds/local/",
    "cluster/",
    "stores/",
)
"""Beginnings of paths below ``tests``."""


def rank(path: str) -> int:
    """A file's place; the same for all that are not named."""
    for place, beginning in enumerate(LONGEST):
        if path.startswith(beginning):
            return place
    return len(LONGEST)

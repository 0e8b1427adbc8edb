"""Where the checkpoints of a spot job lie in a bucket, and whose keys open it. No I/O.

A job in a bucket has the folder ``<prefix>/<namespace>/<job>/<uid>`` with one folder for each copy
in it. The rules about keys are those of TrainingJobs (`corral.checkpoints.places`).
"""

from __future__ import annotations

from typing import Final

from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.location import Location, from_storage, parse
from corral.checkpoints.places import Place, PlaceRefused, StoreRules, check_place
from corral.families.spot.jobs.storage import storage_type
from corral.kube.types import Obj

__all__ = ["copy_folder", "spot_place"]

REMOTE: Final = ("gcs", "s3", "azure")


def spot_place(job: Obj, rules: StoreRules) -> Place | None:
    """The folder of all copies; None for claims and folders, which pods open themselves.

    Raises:
        PlaceRefused: the storage cannot be used; the message is for the job's author.
    """
    kind = storage_type(job)
    if kind not in REMOTE:
        return None
    metadata = job["metadata"]
    base = _base(kind, job["spec"]["checkpointConfig"].get("checkpointStorage") or {})
    location = base.below(metadata["namespace"], metadata["name"], metadata["uid"])
    place = Place(location, _secret(job))
    check_place(place, rules, metadata["namespace"])
    return place


def copy_folder(replica: int) -> str:
    """The folder of one copy below that of the job."""
    return f"replica-{replica}"


def _base(kind: str, storage: Obj) -> Location:
    """The bucket by its name, or as an address with the server and the region."""
    bucket, prefix = str(storage.get("bucket") or ""), str(storage.get("pathPrefix") or "")
    try:
        if "://" not in bucket:
            return from_storage({kind: {"bucket": bucket, "prefix": prefix}})
        return parse(bucket).below(prefix)
    except CheckpointError as error:
        raise PlaceRefused(f"spec.checkpointConfig.checkpointStorage: {error}") from error


def _secret(job: Obj) -> str | None:
    """The Secret with the cloud's keys, where pods' authors could have written it."""
    spec = job["spec"]
    reference = spec.get("credentialsSecretRef") or spec.get("gcpCredentialsSecretRef") or {}
    namespace = reference.get("namespace") or job["metadata"]["namespace"]
    if not reference.get("name"):
        return None
    if namespace != job["metadata"]["namespace"]:
        raise PlaceRefused(
            "spec.credentialsSecretRef: checkpoints are stored with a Secret of the job's own "
            "namespace only"
        )
    return str(reference["name"])

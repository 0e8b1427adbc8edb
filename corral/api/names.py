"""What every program must know about our kinds: names, phases, labels of pods, fields of verbs.

Importing this is cheap: there is no schema in it. `corral.api.kind.Kind.names` of a kind is its
entry here, and so is what clients know about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["Names"]

Path = tuple[str, ...]
_SUSPEND: Final = ("spec", "suspend")
_RUN_POLICY: Final = ("spec", "runPolicy", "suspend")
_REPLICAS: Final = ("spec", "replicas")
_OVER: Final = ("Succeeded", "Failed")
_COMPLETED: Final = ("Completed", "Failed")
_RUN: Final = ("Pending", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
_RECORD: Final = ("Pending", "Ready", "Failed")


@dataclass(frozen=True, slots=True)
class Names:
    """How a kind is called, and where its parts are."""

    group: str
    version: str
    kind: str
    plural: str
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("corral",)
    namespaced: bool = True
    phases: tuple[str, ...] = ()
    """Every phase that an object can be in, in the order of a life."""
    final: tuple[str, ...] = ()
    """The phases that are never left."""
    pod_label: str = ""
    """On the pods of an object: its name; empty where pods are found otherwise or not at all."""
    suspend: Path = ()
    """The field that suspends an object; empty where nothing does."""
    replicas: Path = ()
    """The field that scales it; empty where nothing does."""

    @property
    def resource(self) -> Resource:
        """What a client needs to reach objects of this kind."""
        return Resource(self.group, self.version, self.plural, self.namespaced, self.kind)

    def as_object(self) -> Obj:
        """The names in a CustomResourceDefinition."""
        out: Obj = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
            "categories": list(self.categories),
        }
        return {**out, "shortNames": list(self.short)} if self.short else out


# --- training.corral.dev -------------------------------------------------------------------------

TRAINING_GROUP: Final = "training.corral.dev"
TRAINING_VERSION: Final = "v1alpha1"
TRAINING_JOB_LABEL: Final = "trainingjob"
"""On every object of a TrainingJob: the job's name."""
TRAINING_REPLICA_LABEL: Final = "replica-id"
"""On the pods of a TrainingJob: the index of the replica."""

TRAININGJOB: Final = Names(
    TRAINING_GROUP, TRAINING_VERSION, "TrainingJob", "trainingjobs", ("tj",), ("corral", "all"),
    phases=_RUN, final=_OVER, pod_label=TRAINING_JOB_LABEL, suspend=_RUN_POLICY,
    replicas=_REPLICAS,
)  # fmt: skip
CHECKPOINT: Final = Names(
    TRAINING_GROUP, TRAINING_VERSION, "Checkpoint", "checkpoints", ("ckpt",),
    phases=("Pending", "Writing", "Ready", "Failed", "Deleted"),
    final=("Ready", "Failed", "Deleted"),
)  # fmt: skip

# --- kubeflow.org --------------------------------------------------------------------------------

MPI_GROUP: Final = "kubeflow.org"
MPI_VERSION: Final = "v2beta1"
MPI_JOB_LABEL: Final = "training.kubeflow.org/job-name"
MPI_ROLE_LABEL: Final = "training.kubeflow.org/job-role"

MPIJOB: Final = Names(
    MPI_GROUP, MPI_VERSION, "MPIJob", "mpijobs", (), (),
    phases=("Pending", "Created", *_RUN[1:]), final=_OVER, pod_label=MPI_JOB_LABEL,
    suspend=_RUN_POLICY, replicas=("spec", "mpiReplicaSpecs", "Worker", "replicas"),
)  # fmt: skip

# --- dcnlab.com ----------------------------------------------------------------------------------

SPOT_GROUP: Final = "training.training.dcnlab.com"
SPOT_MIGRATION_GROUP: Final = "migration.dcnlab.com"
SPOT_VERSION: Final = "v1alpha1"
SPOT_JOB_LABEL: Final = "training.dcnlab.com/spot-instance-job"
"""On Jobs, their pods and backups: the SpotInstanceJob."""
SPOT_REPLICA_LABEL: Final = "training.dcnlab.com/job-replica"
"""On Jobs and their pods: which replica."""

SPOTINSTANCEJOB: Final = Names(
    SPOT_GROUP, SPOT_VERSION, "SpotInstanceJob", "spotinstancejobs", ("sij", "spot"),
    phases=_RUN, final=_OVER, pod_label=SPOT_JOB_LABEL, suspend=_SUSPEND, replicas=_REPLICAS,
)  # fmt: skip
SPOTINSTANCEVM: Final = Names(
    SPOT_GROUP, SPOT_VERSION, "SpotInstanceVM", "spotinstancevms", ("sivm",),
    phases=("Pending", "Provisioning", "Running", "Terminated", "Failed"),
    final=("Terminated", "Failed"),
)  # fmt: skip
CHECKPOINTBACKUP: Final = Names(
    SPOT_MIGRATION_GROUP, SPOT_VERSION, "CheckpointBackup", "checkpointbackups", ("cb",),
    phases=(
        "Pending", "Checkpointing", "Checkpointed", "ImageBuilding", "ImageBuilt", "ImagePushing",
        "ImagePushed", "Completed", "CompletedPodDeleted", "CompletedWithError", "Failed",
    ),
    final=("Completed", "CompletedPodDeleted", "CompletedWithError", "Failed"),
)  # fmt: skip

# --- propeller.absmach.io ------------------------------------------------------------------------

PROPELLER_GROUP: Final = "propeller.absmach.io"
PROPELLER_VERSION: Final = "v1alpha1"

FEDERATEDJOB: Final = Names(
    PROPELLER_GROUP, PROPELLER_VERSION, "FederatedJob", "federatedjobs", ("fj",),
    phases=("Pending", "Running", "Completed", "Failed"), final=_COMPLETED, suspend=_SUSPEND,
)  # fmt: skip
TRAININGROUND: Final = Names(
    PROPELLER_GROUP, PROPELLER_VERSION, "TrainingRound", "trainingrounds", ("round",),
    phases=("Pending", "Running", "Aggregating", "Completed", "Failed"), final=_COMPLETED,
)  # fmt: skip
WASMTASK: Final = Names(
    PROPELLER_GROUP, PROPELLER_VERSION, "WasmTask", "wasmtasks", ("wt", "wasm"),
    phases=("Pending", "Scheduled", "Running", "Completed", "Failed"), final=_COMPLETED,
)  # fmt: skip
PROPLETGROUP: Final = Names(
    PROPELLER_GROUP, PROPELLER_VERSION, "PropletGroup", "propletgroups", ("pg",),
    phases=("Pending", "Ready", "Empty"),
)  # fmt: skip
MODELCHECKPOINT: Final = Names(
    PROPELLER_GROUP, PROPELLER_VERSION, "ModelCheckpoint", "modelcheckpoints", ("mc",),
    phases=("Pending", "Uploading", "Ready", "Failed"), final=("Ready", "Failed"),
)  # fmt: skip

# --- kafkaml.corral.dev --------------------------------------------------------------------------

KAFKAML_GROUP: Final = "kafkaml.corral.dev"
KAFKAML_VERSION: Final = "v1alpha1"
DEPLOYMENT_LABEL: Final = "kafkaml.corral.dev/deployment"
INFERENCE_LABEL: Final = "kafkaml.corral.dev/inference"
KAFKAML_ROLE_LABEL: Final = "kafkaml.corral.dev/role"
KAFKAML_INDEX_LABEL: Final = "kafkaml.corral.dev/index"

MLMODEL: Final = Names(
    KAFKAML_GROUP, KAFKAML_VERSION, "MLModel", "mlmodels", ("mlm",), phases=_RECORD
)
MLCONFIGURATION: Final = Names(
    KAFKAML_GROUP, KAFKAML_VERSION, "MLConfiguration", "mlconfigurations", ("mlc",),
    phases=_RECORD,
)  # fmt: skip
DATASOURCE: Final = Names(
    KAFKAML_GROUP, KAFKAML_VERSION, "Datasource", "datasources", ("dsrc",), phases=_RECORD
)
FEDERATEDDEPLOYMENT: Final = Names(
    KAFKAML_GROUP, KAFKAML_VERSION, "FederatedDeployment", "federateddeployments", ("fd",),
    phases=("Pending", "Running", "Suspended", "Completed", "Failed"), final=_COMPLETED,
    pod_label=DEPLOYMENT_LABEL,
)  # fmt: skip
INFERENCE: Final = Names(
    KAFKAML_GROUP, KAFKAML_VERSION, "Inference", "inferences", ("inf",),
    phases=("Pending", "Running", "Stopped", "Failed"), final=("Stopped", "Failed"),
    pod_label=INFERENCE_LABEL, replicas=_REPLICAS,
)  # fmt: skip

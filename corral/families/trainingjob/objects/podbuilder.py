"""PodBuilder: the pod of a replica, from a job's spec. No I/O.

    pod = (
        PodBuilder("mnist", "team-a", 0)
        .with_spec(spec)
        .with_generation(Generation(attempt=1, world=4))
        .with_labels({"team": "vision"})
        .build()
    )

The template of the job, with its shorthand, is the beginning. What the author wrote stays: an
environment variable, a mount, a security context, an annotation of the template wins over ours, and
none is there twice. Labels, host name and subdomain are ours, for the job is found by them. The
API's defaults need not be filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from corral.api.training.template import merged_template
from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.names import pod_labels, pod_name, service_name
from corral.families.trainingjob.objects.builders import needs_account
from corral.families.trainingjob.objects.gangs import Gang
from corral.families.trainingjob.objects.mesh import apply_mesh
from corral.families.trainingjob.objects.placement import (
    add_topology,
    demand_model,
    leave_dead_nodes,
    use_mig,
)
from corral.families.trainingjob.objects.rendezvous import Replica, procs_of, rendezvous_env
from corral.families.trainingjob.objects.security import harden
from corral.families.trainingjob.objects.storage import (
    add_volume,
    checkpoint_env,
    checkpoint_volume,
    mount_path,
)
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube.types import Obj
from corral.runtime.pods.reports import TOKEN_FILE, TOKEN_FOLDER, token_volume

__all__ = ["PodBuilder"]


class PodBuilder:
    """Each method says one thing about the pod; `build` puts it together."""

    def __init__(self, job_name: str, namespace: str, replica_id: int) -> None:
        self._job = job_name
        self._namespace = namespace
        self._index = replica_id
        self._spec: Obj = {}
        self._uid = ""
        self._labels: dict[str, str] = {}
        self._generation = Generation(attempt=0, world=replica_id + 1)
        self._settings = TrainingSettings()
        self._policy: Obj = {}
        self._nodes: Iterable[Obj] = ()
        self._gang: Gang | None = None

    def with_spec(self, spec: Obj) -> Self:
        """The spec of the TrainingJob; it is not changed."""
        self._spec = spec
        return self

    def with_labels(self, labels: Mapping[str, str]) -> Self:
        """More labels for the pod; they win over those of the template."""
        self._labels.update(labels)
        return self

    def with_identity(self, uid: str) -> Self:
        """The UID of the TrainingJob."""
        self._uid = uid
        return self

    def with_generation(self, generation: Generation) -> Self:
        """The attempt, how many replicas it has, and what it starts from."""
        self._generation = generation
        return self

    def with_settings(self, settings: TrainingSettings) -> Self:
        """Where to report, which user to be in restricted namespaces, where local storage is."""
        self._settings = settings
        return self

    def with_policy(self, namespace: Obj) -> Self:
        """The metadata of the namespace, which says how restricted pods are."""
        self._policy = namespace
        return self

    def with_nodes(self, nodes: Iterable[Obj]) -> Self:
        """The nodes there are, whose labels tell which GPUs they have."""
        self._nodes = nodes
        return self

    def with_gang(self, gang: Gang | None) -> Self:
        """The kind of PodGroup that the pod is a member of; None: of none."""
        self._gang = gang
        return self

    # --- putting it together ---------------------------------------------------------------------

    def build(self) -> Obj:
        """The pod; without an owner reference, which its writer sets.

        Raises:
            NoLocalStorage: the job wants a folder of the machine, and the cluster has none.
        """
        template = merged_template(self._spec)
        spec: Obj = template.get("spec") or {}
        pod: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(template.get("metadata") or {}),
            "spec": spec,
        }
        self._identify(spec)
        self._place(spec)
        self._tell(spec)
        self._mount(spec)
        harden(spec, self._policy, user=self._settings.restricted_user)
        if self._gang is not None:
            self._gang.mark(pod, self._job)
        return pod

    def _metadata(self, template: Obj) -> Obj:
        kept = {key: template[key] for key in ("annotations", "finalizers") if template.get(key)}
        own = pod_labels(
            self._job,
            self._index,
            attempt=self._generation.attempt,
            world=self._generation.world,
        )
        metadata: Obj = {
            "name": pod_name(self._job, self._index),
            "namespace": self._namespace,
            **kept,
            "labels": {**(template.get("labels") or {}), **self._labels, **own},
        }
        apply_mesh(metadata, self._spec)
        return metadata

    def _identify(self, spec: Obj) -> None:
        spec["hostname"] = pod_name(self._job, self._index)
        spec["subdomain"] = service_name(self._job)
        # The operator restarts: a replica that begins anew by itself is not awaited by the others.
        spec.setdefault("restartPolicy", "Never")
        if spec.get("hostNetwork"):
            spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")  # or names are not found
        if needs_account(self._spec):
            spec["serviceAccountName"] = self._job
        priority = (self._spec.get("scheduling") or {}).get("priorityClassName")
        if priority:
            spec.setdefault("priorityClassName", priority)

    def _place(self, spec: Obj) -> None:
        use_mig(spec, self._spec)
        demand_model(spec, self._spec, self._nodes)
        add_topology(spec, self._spec, self._job)
        leave_dead_nodes(spec)

    def _tell(self, spec: Obj) -> None:
        replica = Replica(
            self._job,
            self._namespace,
            self._uid,
            self._index,
            self._generation,
            procs=procs_of(self._spec, spec),
            elastic=bool(self._spec.get("elastic")),
        )
        framework = self._spec.get("framework", "custom")
        env = self._env(framework) | rendezvous_env(framework, replica, pod=spec)
        env["CORRAL_GRACE_SECONDS"] = str(spec.get("terminationGracePeriodSeconds", 30))
        for container in spec.get("containers") or ():
            container["env"] = _merged(env, container.get("env") or [])

    def _env(self, framework: str) -> dict[str, str]:
        env = {
            "CORRAL_JOB": self._job,
            "CORRAL_NAMESPACE": self._namespace,
            "CORRAL_JOB_UID": self._uid,
            "CORRAL_REPLICA": str(self._index),
            "CORRAL_REPLICAS": str(self._generation.world),
            "CORRAL_ATTEMPT": str(self._generation.shared_attempt),
            "CORRAL_REPLICA_ATTEMPT": str(self._generation.attempt),
            "CORRAL_FRAMEWORK": framework,
        }
        base = self._settings.report_url
        if base:
            path = f"v1/namespaces/{self._namespace}/trainingjobs/{self._job}"
            env["CORRAL_REPORT_URL"] = f"{base.rstrip('/')}/{path}"
            env["CORRAL_REPORT_TOKEN_FILE"] = TOKEN_FILE
            if self._settings.report_ca:
                env["CORRAL_REPORT_CA"] = self._settings.report_ca
        return env | checkpoint_env(self._spec, self._generation.restore_from)

    def _mount(self, spec: Obj) -> None:
        if self._settings.report_url:
            volume = token_volume(self._settings.report_audience)
            add_volume(spec, volume, TOKEN_FOLDER, read_only=True)
        metadata = {"name": self._job, "namespace": self._namespace, "uid": self._uid}
        job: Obj = {"metadata": metadata, "spec": self._spec}
        checkpoints = checkpoint_volume(job, local_root=self._settings.local_root)
        if checkpoints is not None:
            add_volume(spec, checkpoints, mount_path(self._spec))


def _merged(ours: Mapping[str, str], theirs: list[Obj]) -> list[Obj]:
    """Ours first, so that theirs may refer to them; a name that they have is not set by us."""
    taken = {variable.get("name") for variable in theirs}
    added = [{"name": name, "value": value} for name, value in ours.items() if name not in taken]
    return [*added, *theirs]

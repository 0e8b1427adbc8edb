"""Whatever an MPIJob is like, it is judged; and what is let pass can be built and created.

The long run is `pytest -m soak`; the short one is a part of all runs.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.api.mpi.kinds import MPIJob
from corral.cluster.apiserver.builtin.defaults import apply_defaults
from corral.cluster.apiserver.builtin.validation.registry import validate_create
from corral.families.mpijob.objects.builders import children
from corral.families.mpijob.objects.ssh import KeyPair
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.validation import Context, judge
from tests.unit.families.mpijob.mpijob_cases import job

Obj = dict[str, Any]
KEYS = KeyPair(b"a", b"b")
SETTINGS = [
    ObjectSettings(),
    ObjectSettings(gang_scheduler="volcano", cluster_domain="cluster.local"),
    ObjectSettings(gang_scheduler="gang", remote_agent="/bin/rsh"),
]
CONTEXTS = [
    Context(),
    Context(
        policy="restricted",
        required_labels=("team",),
        quotas=[{"metadata": {"name": "q"}, "status": {"hard": {"pods": 3, "requests.cpu": 2}}}],
        priorities={"high": 1},
        gang_scheduler="volcano",
    ),
]

texts = st.sampled_from(["", "a", "b", "worker", "x" * 64, "A b", "/a", "1", "-n", "ünï", "None"])
numbers = st.sampled_from([-1, 0, 1, 2, 3, 2.0, 1.5, 2**31 - 1, 2**31, 2**70])
amounts = st.sampled_from([0, 1, "1", "500m", "2Gi", "-1", "1e1.5", "x", "", 1.5, "1e3"])
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Obj]:
    """An object with some of the fields, most of them as they should be."""
    return st.fixed_dictionaries({}, optional=fields)


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Now and then something else altogether."""
    return st.integers(0, 24).flatmap(lambda roll: anything if roll == 24 else good)


names = st.sampled_from(["a", "b", "ssh-auth", "mpi-job-config", "A", ""])
paths = st.sampled_from(["/a", "/b", "/etc/mpi", "/root/.ssh", "/home/mpi/.ssh", ""])
resource_names = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "gpu"])
resources = some(
    limits=mostly(st.dictionaries(resource_names, amounts, max_size=3)),
    requests=mostly(st.dictionaries(resource_names, amounts, max_size=3)),
)
container = st.fixed_dictionaries(
    {
        "name": mostly(st.sampled_from(["a", "b", "c", "d"])),
        "image": mostly(st.just("mpi:1")),
    },
    optional={
        "command": mostly(st.lists(texts, max_size=3)),
        "args": mostly(st.lists(texts, max_size=3)),
        "env": mostly(
            st.lists(some(name=st.sampled_from(["A", "B", ""]), value=texts), max_size=2)
        ),
        "resources": mostly(resources),
        "volumeMounts": mostly(st.lists(some(name=names, mountPath=paths), max_size=2)),
        "ports": mostly(st.lists(some(containerPort=numbers, hostPort=numbers), max_size=2)),
        "imagePullPolicy": mostly(st.sampled_from(["Always", "Never", "Often"])),
        "securityContext": mostly(
            some(
                runAsUser=numbers,
                runAsNonRoot=st.booleans(),
                privileged=st.booleans(),
                allowPrivilegeEscalation=st.booleans(),
                capabilities=some(add=st.lists(texts, max_size=1), drop=st.just(["ALL"])),
            )
        ),
    },
)
pod = st.fixed_dictionaries(
    {"containers": mostly(st.lists(container, min_size=1, max_size=2))},
    optional={
        "initContainers": mostly(st.lists(container, max_size=1)),
        "volumes": mostly(
            st.lists(st.fixed_dictionaries({"name": names, "emptyDir": st.just({})}), max_size=2)
        ),
        "restartPolicy": mostly(st.sampled_from(["Always", "Never"])),
        "hostNetwork": mostly(st.booleans()),
        "hostPID": mostly(st.booleans()),
        "dnsPolicy": mostly(st.sampled_from(["ClusterFirst", "Default", "None", "Mine"])),
        "dnsConfig": mostly(
            some(
                searches=st.lists(st.sampled_from(["corp", "a.b", "!"])),
                nameservers=st.just(["10.0.0.1"]),
            )
        ),
        "priorityClassName": mostly(st.sampled_from(["high", "low", "Too High"])),
        "nodeSelector": mostly(st.dictionaries(st.sampled_from(["a", "b c"]), texts, max_size=1)),
        "schedulingGates": mostly(st.lists(some(name=names), max_size=2)),
        "securityContext": mostly(some(runAsUser=numbers, fsGroup=numbers)),
    },
)
labels = st.dictionaries(
    st.sampled_from(["a", "b c", "x.y/z", "/", "training.kubeflow.org/job-role"]), texts, max_size=2
)
template = st.fixed_dictionaries(
    {"spec": mostly(pod)},
    optional={"metadata": mostly(some(labels=mostly(labels), annotations=mostly(labels)))},
)
launcher = st.fixed_dictionaries(
    {"template": mostly(template)},
    optional={
        "replicas": mostly(st.just(1)),
        "restartPolicy": mostly(st.sampled_from(["Never", "OnFailure", ""])),
    },
)
worker = st.fixed_dictionaries(
    {"template": mostly(template), "replicas": mostly(st.integers(1, 4))},
    optional={"restartPolicy": mostly(st.sampled_from(["Never", "OnFailure", "Always"]))},
)
scheduling = some(
    minAvailable=mostly(st.integers(-1, 6)),
    queue=texts,
    priorityClass=texts,
    minResources=mostly(st.dictionaries(resource_names, amounts, max_size=2)),
    scheduleTimeoutSeconds=mostly(st.integers(-1, 60)),
)
run_policy = some(
    cleanPodPolicy=mostly(st.sampled_from(["None", "All", "Running", "Some"])),
    ttlSecondsAfterFinished=mostly(st.integers(-1, 9)),
    activeDeadlineSeconds=mostly(st.integers(-1, 9)),
    backoffLimit=mostly(st.integers(-1, 9)),
    suspend=mostly(st.booleans()),
    managedBy=mostly(st.sampled_from(["kubeflow.org/mpi-operator", "x"])),
    schedulingPolicy=mostly(scheduling),
)
specs = st.fixed_dictionaries(
    {
        "mpiReplicaSpecs": mostly(
            st.fixed_dictionaries(
                {"Launcher": mostly(launcher)},
                optional={"Worker": mostly(worker), "Chief": anything},
            )
        )
    },
    optional={
        "slotsPerWorker": mostly(st.integers(-1, 4)),
        "runLauncherAsWorker": mostly(st.booleans()),
        "sshAuthMountPath": mostly(paths),
        "mpiImplementation": mostly(
            st.sampled_from(["OpenMPI", "Intel", "IntelMPI", "MPICH", "Other"])
        ),
        "launcherCreationPolicy": mostly(st.sampled_from(["AtStartup", "WaitForWorkersReady", ""])),
        "runPolicy": mostly(run_policy),
        "more": anything,
    },
)
olds = st.sampled_from(
    [job()["spec"], {}, None, {"runPolicy": {"suspend": True}, "mpiReplicaSpecs": {"Worker": 1}}]
)
GENTLE = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def judged(spec: Any, old: Any) -> bool:
    """Whether a job passes; every question about it is asked."""
    obj, before = {**job(), "spec": spec}, {**job(), "spec": old}
    for context in CONTEXTS:
        judge(obj, old=before, context=context)
    judgement = judge(obj, context=CONTEXTS[0])
    # What the kind itself says, with or without a webhook, is a part of it.
    own = {(p.type, p.field) for p in MPIJob.validate(obj)}
    assert own <= {(p.type, p.field) for p in judgement.errors}
    MPIJob.warnings(obj)
    return judgement.accepted


def built(spec: Any) -> None:
    """Everything can be made, and an API server takes the pods."""
    for chosen in SETTINGS:
        made = children({**job(), "spec": spec}, chosen, KEYS, priorities={"high": 1})
        template = made.launcher["spec"]["template"]
        launcher = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": "foo-launcher", "namespace": "bar"},
            "spec": template["spec"],
        }
        for obj in (*made.workers[:1], launcher):
            apply_defaults("", "v1", "Pod", obj)
            assert validate_create("", "v1", "Pod", obj) == []


@settings(max_examples=150, **GENTLE)
@given(specs, olds)
def test_what_passes_can_be_built(spec: Any, old: Any) -> None:
    if judged(spec, old):
        built(spec)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=2000, **GENTLE)
@given(specs, olds)
def test_what_passes_can_be_built_at_length(spec: Any, old: Any) -> None:
    if judged(spec, old):
        built(spec)


@settings(max_examples=60, **GENTLE)
@given(anything, anything, anything)
def test_anything_at_all_is_judged(obj: Any, metadata: Any, old: Any) -> None:
    for wrong in ({**job(), "spec": obj}, {**job(), "metadata": metadata, "spec": old}):
        judge(wrong, old={**job(), "spec": old}, context=CONTEXTS[1])
    if isinstance(obj, dict):
        judge(obj, old=old if isinstance(old, dict) else None)

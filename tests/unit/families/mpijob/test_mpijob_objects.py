"""What is made for an MPIJob, field by field."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from corral.families.mpijob import names
from corral.families.mpijob.objects.builders import Children, children, service_agrees
from corral.families.mpijob.objects.launcher import follow_directives, launcher_template
from corral.families.mpijob.objects.ssh import KeyPair, generate_keys, has_keys
from corral.families.mpijob.objects.workers import WorkerBuilder
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from tests.unit.families.mpijob.mpijob_cases import container, edited, job

Obj = dict[str, Any]
KEYS = KeyPair(b"private", b"public\n")
PLAIN = ObjectSettings()
OWNER = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "name": "foo",
    "uid": "u-1",
    "controller": True,
    "blockOwnerDeletion": True,
}
BOTH = {
    "training.kubeflow.org/operator-name": "mpi-operator",
    "training.kubeflow.org/job-name": "foo",
}


def least(**spec: Any) -> Obj:
    """A job with as little in it as can be."""
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "foo", "namespace": "bar", "uid": "u-1"},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}},
                "Worker": {
                    "replicas": 2,
                    "template": {"spec": {"containers": [{"name": "w", "image": "i"}]}},
                },
            },
            **spec,
        },
    }


def made(obj: Obj, settings: ObjectSettings = PLAIN, **more: Any) -> Children:
    return children(obj, settings, KEYS, **more)


def env(pod: Obj) -> dict[str, str]:
    return {v["name"]: v.get("value", "") for v in pod["containers"][0].get("env", ())}


def metadata(name: str) -> Obj:
    labels = {"app": "foo"}
    return {"name": name, "namespace": "bar", "labels": labels, "ownerReferences": [OWNER]}


SSH_VOLUME = {
    "name": "ssh-auth",
    "secret": {
        "secretName": "foo-ssh",
        "items": [
            {"key": "ssh-privatekey", "path": "id_rsa"},
            {"key": "ssh-publickey", "path": "id_rsa.pub"},
            {"key": "ssh-publickey", "path": "authorized_keys"},
        ],
        "defaultMode": 0o600,
    },
}
CONFIG_VOLUME = {
    "name": "mpi-job-config",
    "configMap": {
        "name": "foo-config",
        "items": [
            {"key": "hostfile", "path": "hostfile", "mode": 0o444},
            {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
        ],
    },
}


def test_the_least_job() -> None:
    found = made(least())
    assert found.service == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata("foo"),
        "spec": {"clusterIP": "None", "selector": BOTH},
    }
    assert found.config_map == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata("foo-config"),
        "data": {
            "hostfile": "foo-worker-0.foo.bar.svc slots=1\nfoo-worker-1.foo.bar.svc slots=1\n",
            "discover_hosts.sh": "#!/bin/sh\n",
        },
    }
    assert found.secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata("foo-ssh"),
        "type": "kubernetes.io/ssh-auth",
        "data": {"ssh-privatekey": "cHJpdmF0ZQ==", "ssh-publickey": "cHVibGljCg=="},
    }
    assert found.pod_group is None and found.network_policy is None
    assert [obj["metadata"]["name"] for obj in found.all()] == [
        "foo", "foo-config", "foo-ssh", "foo-worker-0", "foo-worker-1", "foo-launcher",
    ]  # fmt: skip


def test_the_worker_of_the_least_job() -> None:
    worker = made(least()).workers[1]
    assert worker == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "foo-worker-1",
            "namespace": "bar",
            "labels": {
                **BOTH,
                "training.kubeflow.org/job-role": "worker",
                "training.kubeflow.org/replica-index": "1",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "hostname": "foo-worker-1",
            "subdomain": "foo",
            "restartPolicy": "Never",
            "dnsConfig": {"searches": ["foo.bar.svc.cluster.local"]},
            "containers": [
                {
                    "name": "w",
                    "image": "i",
                    "command": ["/usr/sbin/sshd", "-De"],
                    "env": [{"name": "K_MPI_JOB_ROLE", "value": "worker"}],
                    "volumeMounts": [{"name": "ssh-auth", "mountPath": "/root/.ssh"}],
                }
            ],
            "volumes": [SSH_VOLUME],
        },
    }


def test_the_launcher_of_the_least_job() -> None:
    launcher = made(least()).launcher
    variables = launcher["spec"]["template"]["spec"]["containers"][0].pop("env")
    assert launcher == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("foo-launcher"),
        "spec": {
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {
                    "labels": {**BOTH, "training.kubeflow.org/job-role": "launcher"},
                    "ownerReferences": [OWNER],
                },
                "spec": {
                    "hostname": "foo-launcher",
                    "subdomain": "foo",
                    "restartPolicy": "OnFailure",
                    "containers": [
                        {
                            "name": "l",
                            "image": "i",
                            "volumeMounts": [
                                {"name": "ssh-auth", "mountPath": "/root/.ssh"},
                                {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
                            ],
                        }
                    ],
                    "volumes": [SSH_VOLUME, CONFIG_VOLUME],
                },
            },
        },
    }
    assert variables == [
        {"name": "K_MPI_JOB_ROLE", "value": "launcher"},
        {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
        {"name": "OMPI_MCA_orte_default_hostfile", "value": "/etc/mpi/hostfile"},
        {"name": "OMPI_MCA_plm_rsh_args", "value": "-o ConnectionAttempts=10"},
        {"name": "OMPI_MCA_orte_set_default_slots", "value": "1"},
        {"name": "PRTE_MCA_prte_default_hostfile", "value": "/etc/mpi/hostfile"},
        {"name": "PRTE_MCA_prte_keep_fqdn_hostnames", "value": "true"},
        {"name": "PRTE_MCA_prte_set_default_slots", "value": "1"},
        {"name": "PRTE_MCA_plm_ssh_args", "value": "-o ConnectionAttempts=10"},
        {"name": "NVIDIA_VISIBLE_DEVICES"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES"},
    ]


@pytest.mark.parametrize(
    "implementation,variables",
    [
        (
            "Intel",
            {
                "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
                "I_MPI_PERHOST": "4",
            },
        ),
        (
            "MPICH",
            {
                "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
            },
        ),
    ],
)
def test_other_implementations(implementation: str, variables: dict[str, str]) -> None:
    found = made(least(mpiImplementation=implementation, slotsPerWorker=4))
    assert env(found.launcher["spec"]["template"]["spec"]) == {
        "K_MPI_JOB_ROLE": "launcher",
        **variables,
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    lines = "foo-worker-0.foo.bar.svc:4\nfoo-worker-1.foo.bar.svc:4\n"
    assert found.config_map["data"]["hostfile"] == lines


def test_the_seeds_spelling_of_intel() -> None:
    assert made(least(mpiImplementation="IntelMPI")) == made(least(mpiImplementation="Intel"))


def test_a_launcher_alone() -> None:
    obj = least()
    del obj["spec"]["mpiReplicaSpecs"]["Worker"]
    found = made(obj)
    assert found.workers == [] and found.config_map["data"]["hostfile"] == ""
    with pytest.raises(ValueError, match="bar/foo has no workers"):
        WorkerBuilder(JobView.of(obj), PLAIN)


def test_the_launcher_as_a_worker() -> None:
    found = made(least(runLauncherAsWorker=True), running=["foo-worker-1"])
    index = "training.kubeflow.org/replica-index"
    template = found.launcher["spec"]["template"]
    assert template["metadata"]["labels"][index] == "0"
    assert [pod["metadata"]["labels"][index] for pod in found.workers] == ["1", "2"]
    assert not any(name.startswith("NVIDIA") for name in env(template["spec"]))
    assert found.service["spec"]["publishNotReadyAddresses"] is True
    assert found.config_map["data"] == {
        "hostfile": "foo-launcher.foo.bar.svc slots=1\nfoo-worker-0.foo.bar.svc slots=1\n"
        "foo-worker-1.foo.bar.svc slots=1\n",
        "discover_hosts.sh": "#!/bin/sh\necho foo-launcher.foo.bar.svc\n"
        "echo foo-worker-1.foo.bar.svc\n",
    }


def test_the_hosts_that_run_come_by_name() -> None:
    obj = edited(least(), {"W|replicas": 12})
    running = [f"foo-worker-{i}" for i in (2, 10, 0)]
    script = made(obj, running=running).config_map["data"]["discover_hosts.sh"]
    assert [line.partition(".")[0] for line in script.splitlines()[1:]] == [
        "echo foo-worker-0", "echo foo-worker-10", "echo foo-worker-2",
    ]  # fmt: skip


def test_a_cluster_domain() -> None:
    found = made(least(), ObjectSettings(cluster_domain="my.org"), running=["foo-worker-0"])
    assert "foo-worker-1.foo.bar.svc.my.org slots=1\n" in found.config_map["data"]["hostfile"]
    assert found.config_map["data"]["discover_hosts.sh"].endswith(
        "echo foo-worker-0.foo.bar.svc.my.org\n"
    )
    # As with Kubeflow, whose workers know this one domain.
    searches = found.workers[0]["spec"]["dnsConfig"]["searches"]
    assert searches == ["foo.bar.svc.cluster.local"]


def test_another_place_for_keys_has_the_default_mode() -> None:
    found = made(least(sshAuthMountPath="/home/me/.ssh"))
    for pod in (found.workers[0]["spec"], found.launcher["spec"]["template"]["spec"]):
        assert "defaultMode" not in pod["volumes"][0]["secret"]
        assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/home/me/.ssh"


def test_host_network() -> None:
    found = made(edited(least(), {"WP|hostNetwork": True, "LP|hostNetwork": True}))
    for pod in (found.workers[0]["spec"], found.launcher["spec"]["template"]["spec"]):
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "dnsPolicy" not in made(least()).workers[0]["spec"]


@pytest.mark.parametrize(
    "edits,command",
    [
        ({}, ["/usr/sbin/sshd", "-De"]),
        ({"WC|command": ["x"]}, ["x"]),
        ({"WC|args": ["x"]}, None),
        ({"WC|command": []}, ["/usr/sbin/sshd", "-De"]),
    ],
)
def test_the_command_of_workers(edits: Obj, command: list[str] | None) -> None:
    assert (
        made(edited(least(), edits)).workers[0]["spec"]["containers"][0].get("command") == command
    )


def test_nulls_are_as_good_as_absent() -> None:
    obj = least()
    worker = obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker |= {"command": None, "args": ["serve"], "livenessProbe": None}
    found = made(obj).workers[0]["spec"]["containers"][0]
    assert "command" not in found and "livenessProbe" not in found


def test_what_the_user_wrote_is_kept_and_comes_first() -> None:
    obj = edited(
        least(),
        {
            "WP|volumes": [{"name": "data", "emptyDir": {}}],
            "WP|containers": [
                container(
                    "w",
                    env=[{"name": "A", "value": "1"}],
                    volumeMounts=[{"name": "data", "mountPath": "/data"}],
                ),
                {"name": "side", "image": "s"},
            ],
            "WP|dnsConfig": {"searches": ["corp"], "options": [{"name": "ndots"}]},
            "WP|restartPolicy": "Always",
            "W|template|metadata": {
                "labels": {"team": "a", "training.kubeflow.org/job-role": "mine"},
                "annotations": {"note": "x"},
                "name": "ignored",
            },
        },
    )
    worker = made(obj).workers[0]
    assert worker["metadata"]["labels"]["team"] == "a"
    assert worker["metadata"]["labels"]["training.kubeflow.org/job-role"] == "worker"
    assert worker["metadata"]["annotations"] == {"note": "x"}
    assert worker["metadata"]["name"] == "foo-worker-0"
    pod = worker["spec"]
    assert [v["name"] for v in pod["volumes"]] == ["data", "ssh-auth"]
    assert [v["name"] for v in pod["containers"][0]["env"]] == ["A", "K_MPI_JOB_ROLE"]
    mounts = [m["name"] for m in pod["containers"][0]["volumeMounts"]]
    assert mounts == ["data", "ssh-auth"]
    assert pod["containers"][1] == {"name": "side", "image": "s"}
    assert pod["dnsConfig"] == {
        "searches": ["corp", "foo.bar.svc.cluster.local"],
        "options": [{"name": "ndots"}],
    }
    assert pod["restartPolicy"] == "Never"


def test_the_run_policy_of_the_launcher() -> None:
    policy = {"ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 9.0, "backoffLimit": 3}
    spec = made(least(runPolicy={**policy, "suspend": True})).launcher["spec"]
    assert {key: spec[key] for key in policy} == policy and spec["suspend"] is True
    assert isinstance(spec["activeDeadlineSeconds"], int)
    assert not {"suspend", "backoffLimit", "parallelism"} & set(made(least()).launcher["spec"])


def test_another_way_to_start_processes() -> None:
    settings = ObjectSettings(remote_agent="/bin/rsh", worker_command=("wait",))
    found = made(least(), settings)
    variables = env(found.launcher["spec"]["template"]["spec"])
    assert variables["OMPI_MCA_plm_rsh_agent"] == "/bin/rsh"
    assert variables["PRTE_MCA_plm_ssh_agent"] == "/bin/rsh"
    assert found.workers[0]["spec"]["containers"][0]["command"] == ["wait"]
    intel = made(least(mpiImplementation="Intel"), settings).launcher["spec"]["template"]["spec"]
    assert env(intel)["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "/bin/rsh"


def test_workers_are_independent_where_they_differ() -> None:
    found = made(least()).workers
    found[0]["metadata"]["labels"]["x"] = "y"
    found[0]["spec"]["hostname"] = "z"
    assert "x" not in found[1]["metadata"]["labels"]
    assert found[1]["spec"]["hostname"] == "foo-worker-1"


def test_building_leaves_the_job_alone() -> None:
    obj = edited(job(), {"WC|env": [{"name": "A"}]})
    before = repr(obj)
    made(obj, ObjectSettings(gang_scheduler="volcano"))
    assert repr(obj) == before


def test_directives_on_resume() -> None:
    suspended = made(least(runPolicy={"suspend": True})).launcher
    suspended["spec"]["template"]["spec"]["tolerations"] = [{"key": "old"}]
    suspended["spec"]["template"]["metadata"]["labels"]["controller-uid"] = "1"
    wanted = edited(
        least(),
        {
            "LC|image": "other",
            "LP|nodeSelector": {"zone": "a"},
            "LP|schedulingGates": [{"name": "g"}],
            "L|template|metadata": {"labels": {"new": "l"}, "annotations": {"new": "a"}},
        },
    )
    resumed = follow_directives(suspended, launcher_template(JobView.of(wanted), PLAIN))
    template = resumed["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"zone": "a"}
    assert template["spec"]["schedulingGates"] == [{"name": "g"}]
    assert "tolerations" not in template["spec"]
    assert template["spec"]["containers"][0]["image"] == "i"
    assert template["metadata"]["labels"].items() >= {"new": "l", "controller-uid": "1"}.items()
    assert template["metadata"]["annotations"] == {"new": "a"}
    assert suspended["spec"]["template"]["spec"]["tolerations"] == [{"key": "old"}]


def test_services_that_agree() -> None:
    wanted = made(least()).service
    served = {**wanted, "spec": {**wanted["spec"], "ports": [], "publishNotReadyAddresses": False}}
    assert service_agrees(served, wanted)
    assert not service_agrees({"spec": {"selector": {"a": "b"}}}, wanted)
    assert not service_agrees(served, made(least(runLauncherAsWorker=True)).service)


def test_keys_are_real() -> None:
    keys = generate_keys()
    assert keys.private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    private = load_pem_private_key(keys.private, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp521r1"
    public = load_ssh_public_key(keys.public.strip())
    assert public == private.public_key()
    assert keys.public.startswith(b"ecdsa-sha2-nistp521 ") and keys.public.endswith(b"\n")
    assert generate_keys() != keys


def test_which_secrets_are_kept() -> None:
    secret = made(least()).secret
    assert has_keys(secret)
    assert base64.b64decode(secret["data"]["ssh-publickey"]) == b"public\n"
    assert not has_keys({"data": {"ssh-privatekey": ""}})
    assert not has_keys({"data": {**secret["data"], "more": ""}}) and not has_keys({})


@pytest.mark.parametrize(
    "pod,index",
    [
        ("foo-worker-0", 0),
        ("foo-worker-12", 12),
        ("foo-worker-01", None),
        ("foo-launcher", None),
        ("foo-worker-", None),
        ("foo-bar-worker-1", None),
        ("foo-worker-²", None),
    ],
)
def test_the_index_in_a_name(pod: str, index: int | None) -> None:
    assert names.worker_index("foo", pod) == index


# --- network policies ----------------------------------------------------------------------------


def annotated(policy: str) -> Obj:
    return edited(least(), {"metadata|annotations": {"corral.dev/network-policy": policy}})


def test_no_network_policy_unless_asked_for() -> None:
    assert made(annotated("None")).network_policy is None


def test_isolation() -> None:
    own = {"podSelector": {"matchLabels": BOTH}}
    assert made(annotated("Isolated")).network_policy == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata("foo"),
        "spec": {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]},
    }


def test_restriction() -> None:
    found = made(annotated("Restricted")).network_policy
    assert found is not None
    own = {"podSelector": {"matchLabels": BOTH}}
    ports = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert found["spec"]["egress"] == [{"to": [own]}, {"ports": ports}]

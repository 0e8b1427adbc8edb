"""Implementation, network and run policy, case by case."""

from __future__ import annotations

from typing import Any

from corral.families.mpijob.validation import Context
from tests.unit.families.mpijob.mpijob_cases import at, container

__all__ = ["IMPLEMENTATION", "NETWORK", "RUN"]
Obj = dict[str, Any]
RESTRICTED = Context(policy="restricted")
NET = "metadata.annotations[corral.dev/network-policy]"
POLICY_ANNOTATION = {"corral.dev/network-policy": "Isolated"}


IMPLEMENTATION = at(
    "implementation",
    {
        "Open MPI": ({"spec|mpiImplementation": "OpenMPI"},),
        "Intel": ({"spec|mpiImplementation": "Intel"},),
        "MPICH": ({"spec|mpiImplementation": "MPICH"},),
        "IntelMPI": ({"spec|mpiImplementation": "IntelMPI"},),
        "empty is the default": ({"spec|mpiImplementation": ""},),
        "unknown": (
            {"spec|mpiImplementation": "MVAPICH"},
            (
                'E spec.mpiImplementation: Unsupported value: "MVAPICH": supported values: '
                '"Intel", "MPICH", "OpenMPI"',
            ),
        ),
        "case matters": (
            {"spec|mpiImplementation": "openmpi"},
            ('E spec.mpiImplementation: Unsupported value: "openmpi"',),
        ),
        "of a wrong type": (
            {"spec|mpiImplementation": 4},
            ('E spec.mpiImplementation: Invalid value: "integer"',),
        ),
        "no path is the default": (
            {"spec|sshAuthMountPath": ""},
            ("A spec.sshAuthMountPath: only root can read keys",),
        ),
        "a colon in the path": (
            {"spec|sshAuthMountPath": "/a:b"},
            ("E spec.sshAuthMountPath: Invalid value: \"/a:b\": must not contain ':'",),
        ),
        "a relative path": (
            {"spec|sshAuthMountPath": "keys"},
            ("A spec.sshAuthMountPath: a path that is not absolute",),
        ),
        "the place of the hostfile": (
            {"spec|sshAuthMountPath": "/etc/mpi/"},
            ('E spec.sshAuthMountPath: Invalid value: "/etc/mpi/": must not be where the hostf',),
        ),
        "a place that is taken": (
            {
                "WP|volumes": [{"name": "v", "emptyDir": {}}],
                "WC|volumeMounts": [{"name": "v", "mountPath": "/home/mpi/.ssh"}],
            },
            (
                'E spec.sshAuthMountPath: Invalid value: "/home/mpi/.ssh": must be unique: the '
                "first container of the Worker",
            ),
        ),
        "taken in a sidecar": (
            {
                "WP|containers": [
                    container("worker"),
                    container(
                        "side", volumeMounts=[{"name": "ssh-auth", "mountPath": "/home/mpi/.ssh"}]
                    ),
                ]
            },
        ),
        "at startup": ({"spec|launcherCreationPolicy": "AtStartup"},),
        "when ready": ({"spec|launcherCreationPolicy": "WaitForWorkersReady"},),
        "whenever": (
            {"spec|launcherCreationPolicy": "Later"},
            ('A spec.launcherCreationPolicy: "Later" is taken for WaitForWorkersReady',),
        ),
        "no workers": (
            {"W": None},
            (
                "A LC.args: 2 processes are asked for, and there is room for 0",
                "A spec.mpiReplicaSpecs: without workers the hostfile is empty",
            ),
        ),
        "the launcher alone works": (
            {"W": None, "spec|runLauncherAsWorker": True, "LC|args": ["-n", "1"]},
        ),
        "a variable of ours": (
            {
                "LC|env": [
                    {"name": "A", "value": "1"},
                    {"name": "PRTE_MCA_prte_default_hostfile", "value": "x"},
                ]
            },
            ("A LC.env[1].name: PRTE_MCA_prte_default_hostfile is set by the job",),
        ),
        "a variable of another": ({"LC|env": [{"name": "HYDRA_HOST_FILE", "value": "x"}]},),
        "a variable of Intel": (
            {"spec|mpiImplementation": "Intel", "LC|env": [{"name": "I_MPI_PERHOST"}]},
            ("A LC.env[0].name: I_MPI_PERHOST is set by the job",),
        ),
    },
)

NETWORK = at(
    "network policy",
    {
        "isolated": ({"metadata|annotations": POLICY_ANNOTATION},),
        "restricted": ({"metadata|annotations": {"corral.dev/network-policy": "Restricted"}},),
        "none": ({"metadata|annotations": {"corral.dev/network-policy": "None"}},),
        "unknown": (
            {"metadata|annotations": {"corral.dev/network-policy": "isolated"}},
            (
                f'E {NET}: Unsupported value: "isolated": supported values: "Isolated", "None", '
                '"Restricted"',
            ),
        ),
        "needed": ({}, (f"P {NET}: Required value: must be Isolated or Restricted",), RESTRICTED),
        "needed and refused": (
            {"metadata|annotations": {"corral.dev/network-policy": "None"}},
            (f"P {NET}: Required value",),
            RESTRICTED,
        ),
        "needed and there": ({"metadata|annotations": POLICY_ANNOTATION}, (), RESTRICTED),
        "host network": (
            {"WP|hostNetwork": True},
            ("P WP.hostNetwork: Forbidden: no NetworkPolicy applies",),
        ),
        "host network of the launcher": (
            {"LP|hostNetwork": True},
            ("P LP.hostNetwork: Forbidden",),
        ),
        "host network said to be off": ({"WP|hostNetwork": False},),
        "host port": (
            {"WC|ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2222}]},
            ("P WC.ports[1].hostPort: Forbidden: ports of the node",),
        ),
        "a host port unlike the port": (
            {"WP|hostNetwork": True, "WC|ports": [{"containerPort": 1, "hostPort": 2}]},
            (
                "P WP.hostNetwork: Forbidden",
                "P WC.ports[0].hostPort: Forbidden",
                "E WC.ports[0].hostPort: Invalid value: 2: must match `containerPort`",
            ),
        ),
        "a host port that is none": (
            {"WC|ports": [{"containerPort": 1, "hostPort": -1}]},
            (
                "P WC.ports[0].hostPort: Forbidden",
                "E WC.ports[0].hostPort: Invalid value: -1: must be between 1 and 65535",
            ),
        ),
        "an empty policy is the default": ({"WP|dnsPolicy": ""},),
        "domains": ({"WP|dnsConfig": {"searches": ["corp.", "a_b"]}},),
        "no room for another domain": (
            {"WP|dnsConfig": {"searches": ["corp"] * 32}},
            ("E WP.dnsConfig.searches: Too many: 32: must have at most 31 items",),
        ),
        "the launcher is given none": ({"LP|dnsConfig": {"searches": ["corp"] * 32}},),
        "long domains": (
            {"WP|dnsConfig": {"searches": ["x" * 60 + ".org"] * 30}},
            ("E WP.dnsConfig.searches: Too long: may not be more than 1792 bytes",),
        ),
        "a domain that is none": (
            {"WP|dnsConfig": {"searches": ["a!"]}},
            ('E WP.dnsConfig.searches[0]: Invalid value: "a!": a lowercase RFC 1123',),
        ),
        "no host port": ({"WC|ports": [{"containerPort": 2222}]},),
        "names of the cluster": ({"WP|dnsPolicy": "ClusterFirst"},),
        "names of the node": (
            {"WP|dnsPolicy": "Default"},
            ("A WP.dnsPolicy: with Default, pods do not find the hosts",),
        ),
        "no names": (
            {"LP|dnsPolicy": "None"},
            ("E LP.dnsConfig.nameservers: Required value: must provide at least one DNS",),
        ),
        "names of one's own": (
            {"LP|dnsPolicy": "None", "LP|dnsConfig": {"nameservers": ["10.0.0.1"]}},
        ),
        "names of nobody": (
            {"LP|dnsPolicy": "Mine"},
            ('E LP.dnsPolicy: Unsupported value: "Mine"',),
        ),
    },
)

RUN = at(
    "run policy",
    {
        "clean all": ({"run|cleanPodPolicy": "All"},),
        "clean running": ({"run|cleanPodPolicy": "Running"},),
        "clean none": ({"run|cleanPodPolicy": "None"},),
        "clean unknown": (
            {"run|cleanPodPolicy": "Some"},
            (
                'E run.cleanPodPolicy: Unsupported value: "Some": supported values: "All", "None", '
                '"Running"',
            ),
        ),
        "clean empty": (
            {"run|cleanPodPolicy": ""},
            ('E run.cleanPodPolicy: Unsupported value: ""',),
        ),
        "negative ttl": (
            {"run|ttlSecondsAfterFinished": -1},
            ("E run.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal",),
        ),
        "no ttl": (
            {"run|ttlSecondsAfterFinished": 0},
            ("A run.ttlSecondsAfterFinished: 0 deletes the job",),
        ),
        "negative deadline": (
            {"run|activeDeadlineSeconds": -5},
            ("E run.activeDeadlineSeconds: Invalid value: -5: must be greater",),
        ),
        "no deadline": (
            {"run|activeDeadlineSeconds": 0},
            ("A run.activeDeadlineSeconds: 0 fails the job",),
        ),
        "endless deadline": (
            {"run|activeDeadlineSeconds": 2**63},
            ("E run.activeDeadlineSeconds: Invalid value: 9223372036854775808: must be less",),
        ),
        "negative backoff": (
            {"run|backoffLimit": -1},
            ("E run.backoffLimit: Invalid value: -1: must be greater",),
        ),
        "no backoff": ({"run|backoffLimit": 0},),
        "ours": ({"run|managedBy": "kubeflow.org/mpi-operator"},),
        "Kueue's": ({"run|managedBy": "kueue.x-k8s.io/multikueue"},),
        "nobody's": (
            {"run|managedBy": "acme.dev/operator"},
            (
                'E run.managedBy: Unsupported value: "acme.dev/operator": supported values: '
                '"kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"',
            ),
        ),
        "suspended": ({"run|suspend": True},),
        "suspend of a wrong type": (
            {"run|suspend": "yes"},
            ('E run.suspend: Invalid value: "string": spec.runPolicy.suspend in body must be',),
        ),
        "no run policy": ({"spec|runPolicy": {}},),
        "run policy of a wrong type": (
            {"spec|runPolicy": []},
            ('E spec.runPolicy: Invalid value: "array"',),
        ),
        "restart always": (
            {"W|restartPolicy": "Always"},
            (
                'E W.restartPolicy: Unsupported value: "Always": supported values: "Never", '
                '"OnFailure"',
            ),
        ),
        "restart by exit code": (
            {"L|restartPolicy": "ExitCode"},
            ('E L.restartPolicy: Unsupported value: "ExitCode"',),
        ),
        "restart never": ({"L|restartPolicy": "Never"},),
        "restart on failure": ({"W|restartPolicy": "OnFailure"},),
        "restart empty is the default": ({"W|restartPolicy": ""},),
        "another manager": (
            {"run|managedBy": "kueue.x-k8s.io/multikueue"},
            ('E run.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": field is immutable',),
            Context(),
            {},
        ),
        "no manager any more": (
            {},
            ("E run.managedBy: Invalid value: null: field is immutable",),
            Context(),
            {"run|managedBy": "kueue.x-k8s.io/multikueue"},
        ),
        "the same manager by name": (
            {"run|managedBy": "kubeflow.org/mpi-operator"},
            (),
            Context(),
            {},
        ),
        "another image": (
            {"WC|image": "mpi:2"},
            ("A W.template: pods that exist already do not follow the change",),
            Context(),
            {},
        ),
        "another image while suspended": (
            {"WC|image": "mpi:2"},
            (),
            Context(),
            {"run|suspend": True},
        ),
        "more workers": ({"W|replicas": 5}, (), Context(), {}),
    },
)

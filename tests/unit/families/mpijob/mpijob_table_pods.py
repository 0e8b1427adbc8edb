"""Containers, security contexts and labels, case by case."""

from __future__ import annotations

from typing import Any

from corral.families.mpijob.validation import Context
from tests.unit.families.mpijob.mpijob_cases import at, container

__all__ = ["CONTAINERS", "LABELS", "SECURITY"]
Obj = dict[str, Any]

TWO = [container("worker"), container("worker")]
CONTAINERS = at(
    "container spec",
    {
        "a sidecar": ({"WP|containers": [container("worker"), container("side")]},),
        "no specs": (
            {"spec|mpiReplicaSpecs": None},
            ("E spec.mpiReplicaSpecs: Required value: must have replica specs",),
        ),
        "no launcher": (
            {"L": None},
            ("E L: Required value: must have Launcher replica spec",),
        ),
        "other roles are ignored": ({"spec|mpiReplicaSpecs|Chief": {"replicas": 7}},),
        "no containers": (
            {"WP|containers": []},
            ("E WP.containers: Required value: must define at least one container",),
        ),
        "no pod": (
            {"WP": None},
            ("E WP.containers: Required value: must define at least one container",),
        ),
        "no template": (
            {"L|template": None},
            ("E LP.containers: Required value: must define at least one container",),
        ),
        "no name": ({"WC|name": None}, ("E WC.name: Required value",)),
        "an empty name": ({"WC|name": ""}, ("E WC.name: Required value",)),
        "a wrong name": (
            {"LC|name": "My_Launcher"},
            ('E LC.name: Invalid value: "My_Launcher": a lowercase RFC 1123 label',),
        ),
        "a long name": (
            {"LC|name": "x" * 64},
            (f'E LC.name: Invalid value: "{"x" * 64}": must be no more than 63 bytes',),
        ),
        "two of one name": (
            {"WP|containers": TWO},
            ('E WP.containers[1].name: Duplicate value: "worker"',),
        ),
        "an init container of the same name": (
            {"WP|initContainers": [container("worker")]},
            ('E WP.initContainers[0].name: Duplicate value: "worker"',),
        ),
        "no image": ({"WC|image": None}, ("E WC.image: Required value",)),
        "no image to begin with": (
            {"LP|initContainers": [container("first", image="")]},
            ("E LP.initContainers[0].image: Required value",),
        ),
        "an image with blanks": (
            {"WC|image": " mpi"},
            ('E WC.image: Invalid value: " mpi": must not have leading or trailing whitespace',),
        ),
        "pull policy": ({"WC|imagePullPolicy": "IfNotPresent"},),
        "unknown pull policy": (
            {"WC|imagePullPolicy": "Often"},
            ('E WC.imagePullPolicy: Unsupported value: "Often": supported values: "Always"',),
        ),
        "a variable without a name": (
            {"WC|env": [{"name": "A"}, {"value": "1"}]},
            ("E WC.env[1].name: Required value",),
        ),
        "a variable of a wrong name": (
            {"WC|env": [{"name": "a=b"}]},
            ('E WC.env[0].name: Invalid value: "a=b": a valid environment variable name',),
        ),
        "a port": ({"WC|ports": [{"containerPort": 22}]},),
        "a port without a number": (
            {"WC|ports": [{"name": "ssh"}]},
            ("E WC.ports[0].containerPort: Required value",),
        ),
        "a port that is none": (
            {"WC|ports": [{"containerPort": 65536}]},
            ("E WC.ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535",),
        ),
        "a variable of two sources": (
            {"WC|env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]},
            ('E WC.env[0].valueFrom: Invalid value: "": may not be specified when `value`',),
        ),
        "a volume of ours": (
            {"WP|volumes": [{"name": "ssh-auth", "emptyDir": {}}]},
            ('E WP.volumes[0].name: Invalid value: "ssh-auth": is the name of a volume that',),
        ),
        "the launcher's volume": (
            {"LP|volumes": [{"name": "mpi-job-config", "emptyDir": {}}]},
            ('E LP.volumes[0].name: Invalid value: "mpi-job-config": is the name of a volume',),
        ),
        "not the worker's": ({"WP|volumes": [{"name": "mpi-job-config", "emptyDir": {}}]},),
        "volumes of one name": (
            {"WP|volumes": [{"name": "a"}, {"name": "a"}]},
            ('E WP.volumes[1].name: Duplicate value: "a"',),
        ),
        "a volume without a name": (
            {"WP|volumes": [{"emptyDir": {}}]},
            ("E WP.volumes[0].name: Required value",),
        ),
        "a volume of a wrong name": (
            {"WP|volumes": [{"name": "a/b"}]},
            ('E WP.volumes[0].name: Invalid value: "a/b": a lowercase RFC 1123 label',),
        ),
        "a mount of nothing": (
            {"WC|volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            ('E WC.volumeMounts[0].name: Not found: "a"',),
        ),
        "a mount without a name": (
            {"WC|volumeMounts": [{"mountPath": "/a"}]},
            ("E WC.volumeMounts[0].name: Required value",),
        ),
        "a mount without a path": (
            {"WC|volumeMounts": [{"name": "ssh-auth"}]},
            ("E WC.volumeMounts[0].mountPath: Required value",),
        ),
        "two mounts at one path": (
            {
                "WP|volumes": [{"name": "a"}, {"name": "b"}],
                "WC|volumeMounts": [
                    {"name": "a", "mountPath": "/x"},
                    {"name": "b", "mountPath": "/x"},
                ],
            },
            ('E WC.volumeMounts[1].mountPath: Invalid value: "/x": must be unique',),
        ),
        "a mount over the hostfile": (
            {
                "LP|volumes": [{"name": "a"}],
                "LC|volumeMounts": [{"name": "a", "mountPath": "/etc/mpi"}],
            },
            ('E LC.volumeMounts[0].mountPath: Invalid value: "/etc/mpi": must be unique',),
        ),
        "a restart policy of no effect": (
            {"LP|restartPolicy": "Always"},
            ("A LP.restartPolicy: is replaced by spec.mpiReplicaSpecs[Launcher].restartPolicy",),
        ),
        "a host name of no effect": (
            {"WP|hostname": "me", "WP|subdomain": "us"},
            ("A WP.hostname: is replaced", "A WP.subdomain: is replaced"),
        ),
        "a command that is null": ({"WC|args": ["x"], "WC|command": []},),
        "a command of a wrong type": (
            {"WC|command": "sshd"},
            (
                "E spec.mpiReplicaSpecs.Worker.template.spec.containers[0].command: Invalid value: "
                '"string"',
            ),
        ),
        "containers of a wrong type": (
            {"WP|containers": {}},
            ('E spec.mpiReplicaSpecs.Worker.template.spec.containers: Invalid value: "object"',),
        ),
    },
)


SECURITY = at(
    "security context",
    {
        "nothing said": (
            {"WP|securityContext": None, "WC|securityContext": None},
            (
                "P WC.securityContext.runAsNonRoot: Required value",
                "P WC.securityContext.allowPrivilegeEscalation: Required value: must be false",
                "P WC.securityContext.capabilities.drop: Required value: must have ALL",
                "P WC.securityContext.seccompProfile.type: Required value",
            ),
        ),
        "a user is enough": ({"WP|securityContext|runAsNonRoot": None},),
        "non-root is enough": ({"WP|securityContext|runAsUser": None},),
        "root": (
            {"WP|securityContext|runAsUser": 0},
            ("P WP.securityContext.runAsUser: Invalid value: 0: must not be root",),
        ),
        "root in a container": (
            {"WC|securityContext|runAsUser": 0},
            ("P WC.securityContext.runAsUser: Invalid value: 0: must not be root",),
        ),
        "may be root": (
            {"LC|securityContext|runAsNonRoot": False},
            ("P LC.securityContext.runAsNonRoot: Invalid value: false: must be true",),
        ),
        "the container says so itself": (
            {
                "LP|securityContext": {"seccompProfile": {"type": "Localhost"}},
                "LC|securityContext|runAsNonRoot": True,
            },
        ),
        "no such user": (
            {"WP|securityContext|runAsUser": -1},
            ("E WP.securityContext.runAsUser: Invalid value: -1: must be between 0 and",),
        ),
        "no such group": (
            {"LP|securityContext|fsGroup": -1},
            ("E LP.securityContext.fsGroup: Invalid value: -1: must be between 0 and",),
        ),
        "a user of a wrong type": (
            {"WP|securityContext|runAsUser": "root"},
            (
                "E spec.mpiReplicaSpecs.Worker.template.spec.securityContext.runAsUser: Invalid "
                'value: "string"',
            ),
        ),
        "privileged": (
            {
                "WC|securityContext|privileged": True,
                "WC|securityContext|allowPrivilegeEscalation": True,
            },
            (
                "P WC.securityContext.privileged: Forbidden: must be false",
                "P WC.securityContext.allowPrivilegeEscalation: Invalid value: true: must be false",
            ),
        ),
        "privileged without escalation": (
            {"WC|securityContext|privileged": True},
            (
                "P WC.securityContext.privileged: Forbidden",
                'E WC.securityContext: Invalid value: "worker": cannot set',
            ),
        ),
        "escalation": (
            {"WC|securityContext|allowPrivilegeEscalation": True},
            ("P WC.securityContext.allowPrivilegeEscalation: Invalid value: true: must be",),
        ),
        "escalation unsaid": (
            {"WC|securityContext|allowPrivilegeEscalation": None},
            ("P WC.securityContext.allowPrivilegeEscalation: Required value",),
        ),
        "capabilities": (
            {"WC|securityContext|capabilities|add": ["NET_BIND_SERVICE", "SYS_PTRACE"]},
            ('P WC.securityContext.capabilities.add[1]: Unsupported value: "SYS_PTRACE"',),
        ),
        "capabilities kept": (
            {"WC|securityContext|capabilities|drop": ["NET_RAW"]},
            ("P WC.securityContext.capabilities.drop: Required value: must have ALL",),
        ),
        "an init container counts": (
            {"LP|initContainers": [container("first", securityContext={"privileged": False})]},
            (
                "P LP.initContainers[0].securityContext.allowPrivilegeEscalation: Required",
                "P LP.initContainers[0].securityContext.capabilities.drop: Required",
            ),
        ),
        "unconfined": (
            {"LC|securityContext|seccompProfile": {"type": "Unconfined"}},
            ('P LC.securityContext.seccompProfile.type: Unsupported value: "Unconfined"',),
        ),
        "no profile": (
            {"LP|securityContext|seccompProfile": None},
            ("P LC.securityContext.seccompProfile.type: Required value",),
        ),
        "processes of the node": (
            {"WP|hostPID": True},
            ("P WP.hostPID: Forbidden: pods must not share",),
        ),
        "memory of the node": ({"WP|hostIPC": True}, ("P WP.hostIPC: Forbidden",)),
        "files of the node": (
            {"WP|volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}]},
            ("P WP.volumes[1].hostPath: Forbidden: pods must not share",),
        ),
        "keys that only root can read": (
            {"spec|sshAuthMountPath": "/root/.ssh"},
            ("A spec.sshAuthMountPath: only root can read keys in /root/.ssh",),
        ),
    },
)

LT, WT = "L.template.metadata", "W.template.metadata"
LABELS = at(
    "labels",
    {
        "a digit first": (
            {"metadata|name": "1-foo"},
            (
                'E metadata.name: Invalid value: "1-foo": will not able to create pod and service '
                'with invalid DNS label "1-foo-worker-1": a DNS-1035 label must consist',
            ),
        ),
        "a dot": (
            {"metadata|name": "a.b"},
            ('E metadata.name: Invalid value: "a.b": will not able',),
        ),
        "too long with its workers": (
            {"metadata|name": "x" * 55},
            (
                f'E metadata.name: Invalid value: "{"x" * 55}": will not able to create pod and '
                f'service with invalid DNS label "{"x" * 55}-worker-1": must be no more than 63',
            ),
        ),
        "as long as can be": ({"metadata|name": "x" * 54},),
        "too long by its hundredth worker": (
            {"metadata|name": "x" * 54, "W|replicas": 11},
            (f'E metadata.name: Invalid value: "{"x" * 54}": will not able',),
        ),
        "a name to come": ({"metadata|name": None, "metadata|generateName": "pi-"},),
        "labels": ({"W|template|metadata": {"labels": {"a": "b", "c.d/e": ""}}},),
        "a key of no label": (
            {"W|template|metadata": {"labels": {"a b": "c"}}},
            (f'E {WT}.labels: Invalid value: "a b": name part must consist',),
        ),
        "a key without a name": (
            {"W|template|metadata": {"labels": {"a.b/": "c"}}},
            (
                f'E {WT}.labels: Invalid value: "a.b/": name part must be non-empty',
                f'E {WT}.labels: Invalid value: "a.b/": name part must consist',
            ),
        ),
        "a key without a prefix": (
            {"W|template|metadata": {"labels": {"/a": "c"}}},
            (f'E {WT}.labels: Invalid value: "/a": prefix part must be non-empty',),
        ),
        "a key of a wrong prefix": (
            {"L|template|metadata": {"labels": {"A_B/c": "c"}}},
            (f'E {LT}.labels: Invalid value: "A_B/c": prefix part a lowercase RFC 1123',),
        ),
        "a value of no label": (
            {"W|template|metadata": {"labels": {"a": "b c"}}},
            (f'E {WT}.labels: Invalid value: "b c": a valid label must be',),
        ),
        "a long value": (
            {"W|template|metadata": {"labels": {"a": "b" * 64}}},
            (f'E {WT}.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes',),
        ),
        "a label of a wrong type": (
            {"W|template|metadata": {"labels": {"a": 1}}},
            ('E spec.mpiReplicaSpecs.Worker.template.metadata.labels.a: Invalid value: "integer"',),
        ),
        "a key of no annotation": (
            {"L|template|metadata": {"annotations": {"a b": "c"}}},
            (f'E {LT}.annotations: Invalid value: "a b": name part must consist',),
        ),
        "annotations may be of any case": (
            {"L|template|metadata": {"annotations": {"Acme.dev/x": "any thing"}}},
        ),
        "too many annotations": (
            {"L|template|metadata": {"annotations": {"a": "x" * 2**18}}},
            (f"E {LT}.annotations: Too long: may not be more than 262144 bytes",),
        ),
        "a label of ours": (
            {"W|template|metadata": {"labels": {"training.kubeflow.org/replica-index": "7"}}},
            (f"A {WT}.labels[training.kubeflow.org/replica-index]: is replaced",),
        ),
        "another label of ours": (
            {"L|template|metadata": {"labels": {"training.kubeflow.org/job-role": "x"}}},
            (f"A {LT}.labels[training.kubeflow.org/job-role]: is replaced",),
        ),
        "a mesh": (
            {"L|template|metadata": {"annotations": {"sidecar.istio.io/inject": "true"}}},
            (f"A {LT}.annotations[sidecar.istio.io/inject]: the launcher does not end",),
        ),
        "no mesh": (
            {"L|template|metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}},
        ),
        "a label that is needed": (
            {},
            ("P metadata.labels[team]: Required value: every job of the namespace",),
            Context(required_labels=("team",)),
        ),
        "needed and there": (
            {"metadata|labels": {"team": "a"}},
            (),
            Context(required_labels=("team",)),
        ),
        "needed and empty": (
            {"metadata|labels": {"team": ""}},
            ("P metadata.labels[team]: Required value",),
            Context(required_labels=("team",)),
        ),
    },
)

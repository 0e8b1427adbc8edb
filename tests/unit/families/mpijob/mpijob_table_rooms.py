"""Resources, slots, scheduling and quotas, case by case."""

from __future__ import annotations

from typing import Any

from corral.families.mpijob.validation import Context
from tests.unit.families.mpijob.mpijob_cases import GPU, at, container, resources

__all__ = ["QUOTA", "RESOURCES", "SCHEDULING", "SLOTS"]
Obj = dict[str, Any]

RESOURCES = at(
    "resources",
    {
        "all well": ({},),
        "no limits": (
            {"WC|resources": None},
            (
                "P WC.resources.limits[cpu]: Required value",
                "P WC.resources.limits[memory]: Required value",
            ),
        ),
        "no cpu limit": (
            {"LC|resources|limits|cpu": None},
            ("P LC.resources.limits[cpu]: Required value: every container must have a limit",),
        ),
        "no memory limit": (
            {"LC|resources|limits|memory": None},
            ("P LC.resources.limits[memory]: Required value",),
        ),
        "a sidecar without": (
            {"WP|containers": [container("worker"), container("side", resources={})]},
            (
                "P WP.containers[1].resources.limits[cpu]: Required",
                "P WP.containers[1].resources.limits[memory]: Required",
            ),
        ),
        "an init container needs none": (
            {"WP|initContainers": [container("first", resources={})]},
        ),
        "negative limit": (
            {"WC|resources|limits|memory": "-1Gi"},
            ('E WC.resources.limits[memory]: Invalid value: "-1Gi": must be greater than or',),
        ),
        "negative request": (
            {"WC|resources|requests": {"cpu": "-1"}},
            ('E WC.resources.requests[cpu]: Invalid value: "-1": must be greater',),
        ),
        "request above limit": (
            {"WC|resources|requests": {"cpu": 3}},
            ('E WC.resources.requests: Invalid value: "3": must be less than or equal to cpu',),
        ),
        "request at limit": ({"WC|resources|requests": {"cpu": "2000m"}},),
        "memory above limit": (
            {"LC|resources|requests": {"memory": "2Gi"}},
            ('E LC.resources.requests: Invalid value: "2Gi": must be less than or equal to mem',),
        ),
        "half a GPU": (
            {"WC|resources": resources({GPU: "500m"})},
            (f'E WC.resources.limits[{GPU}]: Invalid value: "500m": must be an integer',),
        ),
        "a GPU": ({"WC|resources": resources({GPU: 1})},),
        "GPU request without limit": (
            {"WC|resources": resources(requests={GPU: 1})},
            ("E WC.resources.limits: Required value: Limit must be set for non overcommitable",),
        ),
        "GPU request unlike limit": (
            {"WC|resources": resources({GPU: 1}, {GPU: 2})},
            (f'E WC.resources.requests: Invalid value: "2": must be equal to {GPU} limit of 1',),
        ),
        "GPU for the launcher": (
            {"LC|resources": resources({GPU: 1})},
            (f"A LC.resources.limits[{GPU}]: the launcher does not see GPUs",),
        ),
        "GPU for a launcher that works": (
            {"LC|resources": resources({GPU: 1}), "spec|runLauncherAsWorker": True},
        ),
        "a name of no resource": (
            {"WC|resources": resources({"gpu": 1})},
            ('E WC.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource',),
        ),
        "a name that is none": (
            {"WC|resources": resources({"a.b/_": 1})},
            ('E WC.resources.limits[a.b/_]: Invalid value: "a.b/_": name part must consist',),
        ),
        "huge pages": ({"WC|resources": resources({"hugepages-2Mi": "64Mi"})},),
        "huge pages requested alone": (
            {"WC|resources": resources(requests={"hugepages-2Mi": "64Mi"})},
            ("E WC.resources.limits: Required value",),
        ),
        "huge pages and nothing else": (
            {"WC|resources": {"limits": {"hugepages-2Mi": "64Mi"}}},
            (
                "E WC.resources: Forbidden: HugePages require cpu or memory",
                "P WC.resources.limits[cpu]: Required value",
                "P WC.resources.limits[memory]: Required value",
            ),
        ),
        "a name as in quotas": (
            {"WC|resources": resources({"requests.acme.dev/x": 1})},
            ('E WC.resources.limits[requests.acme.dev/x]: Invalid value: "requests.acme.dev/x"',),
        ),
        "ephemeral storage": ({"WC|resources": resources({"ephemeral-storage": "1Gi"})},),
        "no quantity": (
            {"WC|resources|limits|cpu": "1e1.5"},
            ('E WC.resources.limits[cpu]: Invalid value: "1e1.5": must be a quantity',),
        ),
    },
)

SLOTS = at(
    "slots",
    {
        "two": ({"spec|slotsPerWorker": 2},),
        "none": (
            {"spec|slotsPerWorker": 0},
            (
                "A LC.args: 2 processes are asked for, and there is room for 0",
                "A spec.slotsPerWorker: 0 leaves no room",
            ),
        ),
        "negative": (
            {"spec|slotsPerWorker": -1},
            ("E spec.slotsPerWorker: Invalid value: -1: must be greater than or equal to 0",),
        ),
        "more than cpus": (
            {"spec|slotsPerWorker": 3},
            ("P spec.slotsPerWorker: Invalid value: 3: must not exceed the cpu limit of a",),
        ),
        "fraction of a cpu": (
            {"WC|resources|limits|cpu": "500m"},
            (
                "P spec.slotsPerWorker: Invalid value: 1: must not exceed the cpu limit of a "
                "worker, 500m",
            ),
        ),
        "unlike GPUs": (
            {"spec|slotsPerWorker": 2, "WC|resources": resources({GPU: 1})},
            (f"A spec.slotsPerWorker: 2 processes share 1 {GPU}",),
        ),
        "like GPUs": ({"spec|slotsPerWorker": 2, "WC|resources": resources({GPU: 2})},),
        "too many processes": (
            {"LC|args": ["-np", "3", "a"]},
            ("A LC.args: 3 processes are asked for, and there is room for 2",),
        ),
        "too many in the command": (
            {"LC|command": ["mpirun", "--np", "9"]},
            ("A LC.command: 9 processes are asked for, and there is room for 2",),
        ),
        "the launcher has room too": ({"LC|args": ["-n", "3"], "spec|runLauncherAsWorker": True},),
        "a number that is none": ({"LC|args": ["-n", "many"]},),
        "a flag at the end": ({"LC|args": ["-n"]},),
        "no replicas": (
            {"W|replicas": None},
            ("E W.replicas: Invalid value: 0: must be greater than or equal to 1",),
        ),
        "zero workers": (
            {"W|replicas": 0},
            ("E W.replicas: Invalid value: 0: must be greater than or equal to 1",),
        ),
        "negative workers": (
            {"W|replicas": -3},
            ("E W.replicas: Invalid value: -3: must be greater than or equal to 1",),
        ),
        "two launchers": ({"L|replicas": 2}, ("E L.replicas: Invalid value: 2: must be 1",)),
        "no launchers": ({"L|replicas": 0}, ("E L.replicas: Invalid value: 0: must be 1",)),
        "one launcher": ({"L|replicas": 1},),
        "a whole float": ({"W|replicas": 2.0},),
        "slots of a wrong type": (
            {"spec|slotsPerWorker": "2"},
            ('E spec.slotsPerWorker: Invalid value: "string": spec.slotsPerWorker in body must',),
        ),
        "replicas of a wrong type": (
            {"W|replicas": "2"},
            ('E spec.mpiReplicaSpecs.Worker.replicas: Invalid value: "string"',),
        ),
    },
)

VOLCANO = Context(gang_scheduler="volcano", priorities={"high": 10})
PLUGINS = Context(gang_scheduler="gang")
SCHEDULING = at(
    "scheduling policy",
    {
        "everything for Volcano": (
            {
                "run|schedulingPolicy": {
                    "minAvailable": 3,
                    "queue": "q",
                    "priorityClass": "high",
                    "minResources": {"cpu": 2},
                }
            },
            (),
            VOLCANO,
        ),
        "everything for scheduler-plugins": (
            {"run|schedulingPolicy": {"minAvailable": 2, "scheduleTimeoutSeconds": 60}},
            (),
            PLUGINS,
        ),
        "empty": ({"run|schedulingPolicy": {}},),
        "negative members": (
            {"sched|minAvailable": -1},
            ("E sched.minAvailable: Invalid value: -1: must be greater than or equal to 0",),
            VOLCANO,
        ),
        "no members": ({"sched|minAvailable": 0}, (), VOLCANO),
        "more members than pods": (
            {"sched|minAvailable": 4},
            ("P sched.minAvailable: Invalid value: 4: must not exceed the number of pods, 3",),
            VOLCANO,
        ),
        "negative timeout": (
            {"sched|scheduleTimeoutSeconds": -1},
            ("E sched.scheduleTimeoutSeconds: Invalid value: -1: must be greater",),
            PLUGINS,
        ),
        "timeout for Volcano": (
            {"sched|scheduleTimeoutSeconds": 9},
            ("A sched.scheduleTimeoutSeconds: is not used by volcano",),
            VOLCANO,
        ),
        "queue for scheduler-plugins": (
            {"sched|queue": "q"},
            ("A sched.queue: is not used by gang",),
            PLUGINS,
        ),
        "priority for scheduler-plugins": (
            {"sched|priorityClass": "high"},
            ("A sched.priorityClass: is not used by gang",),
            PLUGINS,
        ),
        "members without gangs": (
            {"sched|minAvailable": 2},
            ("A sched.minAvailable: is not used without gang scheduling",),
        ),
        "resources without gangs": (
            {"sched|minResources": {"cpu": 1}},
            ("A sched.minResources: is not used without gang scheduling",),
        ),
        "negative resources": (
            {"sched|minResources": {"cpu": "-2"}},
            ('E sched.minResources[cpu]: Invalid value: "-2": must be greater',),
            VOLCANO,
        ),
        "resources of no quantity": (
            {"sched|minResources": {"cpu": "2e1.5"}},
            ('E sched.minResources[cpu]: Invalid value: "2e1.5": must be a quantity',),
            VOLCANO,
        ),
        "a queue of no name": (
            {"sched|queue": "Team A"},
            ('P sched.queue: Invalid value: "Team A": a lowercase RFC 1123 subdomain',),
            VOLCANO,
        ),
        "a class of no name": (
            {"sched|priorityClass": "High!"},
            ('P sched.priorityClass: Invalid value: "High!": a lowercase RFC 1123 subdomain',),
            Context(gang_scheduler="volcano"),
        ),
        "a class that is not there": (
            {"sched|priorityClass": "low"},
            ('P sched.priorityClass: Not found: "low"',),
            VOLCANO,
        ),
        "a pod's class that is not there": (
            {"WP|priorityClassName": "low", "LP|priorityClassName": "high"},
            ('P WP.priorityClassName: Not found: "low"',),
            VOLCANO,
        ),
        "a pod's class of no name": (
            {"WP|priorityClassName": "Very High"},
            ('E WP.priorityClassName: Invalid value: "Very High": a lowercase RFC 1123',),
        ),
        "a node selector": ({"WP|nodeSelector": {"zone": "a"}},),
        "a node selector of no label": (
            {"WP|nodeSelector": {"a b": "c d"}},
            (
                'E WP.nodeSelector: Invalid value: "a b": name part must consist',
                'E WP.nodeSelector: Invalid value: "c d": a valid label must be',
            ),
        ),
        "gates": ({"LP|schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]},),
        "a gate without a name": (
            {"LP|schedulingGates": [{}]},
            ("E LP.schedulingGates[0].name: Required value",),
        ),
        "a gate of a wrong name": (
            {"LP|schedulingGates": [{"name": "a b"}]},
            ('E LP.schedulingGates[0]: Invalid value: "a b": name part must consist',),
        ),
        "a gate twice": (
            {"LP|schedulingGates": [{"name": "a"}, {"name": "a"}]},
            ('E LP.schedulingGates[1]: Duplicate value: "a"',),
        ),
        "a class nobody knows about": ({"WP|priorityClassName": "low"},),
        "another scheduler": (
            {"WP|schedulerName": "mine", "LP|schedulerName": "volcano"},
            ("A WP.schedulerName: is replaced by volcano",),
            VOLCANO,
        ),
        "another scheduler without gangs": ({"WP|schedulerName": "mine"},),
        "members of a wrong type": (
            {"sched|minAvailable": "2"},
            ('E sched.minAvailable: Invalid value: "string"',),
        ),
    },
)


def quota(hard: Obj, used: Obj | None = None, **spec: Any) -> Context:
    status = {"hard": hard, "used": used or {}}
    found: Obj = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}
    return Context(quotas=[found])


ALL = "spec.mpiReplicaSpecs"
QUOTA = at(
    "quota",
    {
        "roomy": ({}, (), quota({"requests.cpu": 6, "limits.memory": "3Gi", "pods": 3})),
        "cpu": (
            {},
            (f"P {ALL}: Forbidden: needs 6 requests.cpu, and quota q allows 5 in all",),
            quota({"requests.cpu": 5}),
        ),
        "cpu in short": (
            {},
            (f"P {ALL}: Forbidden: needs 6 cpu, and quota q allows 5",),
            quota({"cpu": 5}),
        ),
        "memory": (
            {},
            (f"P {ALL}: Forbidden: needs 3Gi limits.memory, and quota q allows 2Gi in all",),
            quota({"limits.memory": "2Gi"}),
        ),
        "requests count before limits": (
            {"WC|resources|requests": {"cpu": "500m"}},
            (),
            quota({"requests.cpu": 3}),
        ),
        "pods": (
            {"W|replicas": 10},
            (f"P {ALL}: Forbidden: needs 11 pods, and quota q allows 10",),
            quota({"pods": 10}),
        ),
        "counted pods": (
            {},
            (f"P {ALL}: Forbidden: needs 3 count/pods",),
            quota({"count/pods": 2}),
        ),
        "GPUs": (
            {"WC|resources": resources({GPU: 1})},
            (f"P {ALL}: Forbidden: needs 2 requests.{GPU}, and quota q allows 1",),
            quota({f"requests.{GPU}": 1}),
        ),
        "GPUs are not needed": ({}, (), quota({f"requests.{GPU}": 0})),
        "services": (
            {},
            ("P metadata.name: Forbidden: needs 1 services, and quota q allows 0",),
            quota({"services": 0}),
        ),
        "jobs": (
            {},
            ("P metadata.name: Forbidden: needs 1 count/mpijobs.kubeflow.org",),
            quota({"count/mpijobs.kubeflow.org": 0}),
        ),
        "used up": (
            {},
            (f"P {ALL}: Forbidden: needs 6 requests.cpu, and quota q has 2 of 8 left",),
            quota({"requests.cpu": 8}, {"requests.cpu": 6}),
        ),
        "used by the job itself": (
            {},
            (),
            quota({"requests.cpu": 8}, {"requests.cpu": 6}),
            {},
        ),
        "with a scope": ({}, (), quota({"requests.cpu": 1}, scopes=["BestEffort"])),
        "with a selector": ({}, (), quota({"requests.cpu": 1}, scopeSelector={"a": 1})),
        "what must be said": (
            {"WC|resources|limits|memory": None},
            (
                "P WC.resources.limits[memory]: Required value: every container",
                "P WC.resources.requests[memory]: Required value: quota q counts it",
            ),
            quota({"requests.memory": "9Gi"}),
        ),
        "what need not be said": (
            {"WC|resources|requests": {"memory": "1Gi"}},
            (),
            quota({"memory": "9Gi"}),
        ),
        "things of others": ({}, (), quota({"persistentvolumeclaims": 0})),
        "without a status": (
            {},
            (f"P {ALL}: Forbidden: needs 3 pods",),
            Context(quotas=[{"metadata": {"name": "q"}, "spec": {"hard": {"pods": 1}}}]),
        ),
    },
)

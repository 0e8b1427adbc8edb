"""A small world for the state of spot jobs: a cloud and a cluster that do what is wished."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from corral.api.spot.kinds import JOB_LABEL, SpotInstanceJob, SpotInstanceVM
from corral.families.spot.jobs.actions import Actions, actions
from corral.families.spot.jobs.changes import News, learn
from corral.families.spot.jobs.observation import wished
from corral.families.spot.jobs.replicas import copy_job
from corral.families.spot.jobs.state import Step
from corral.families.spot.jobs.storage import CopyStorage
from corral.families.spot.jobs.view import World
from corral.families.spot.settings import SpotSettings
from corral.runtime.keys import format_time
from corral.runtime.sightings import Sightings
from corral.spot import Memory

Obj = dict[str, Any]
START = 1_800_000_000.0


def job(name: str = "digits", *, spec: Obj | None = None, **template: Any) -> Obj:
    """A SpotInstanceJob as an API server has it."""
    container = {"name": "main", "image": "python:3.12", "command": ["true"]}
    made = {
        "apiVersion": SpotInstanceJob.resource().api_version,
        "kind": "SpotInstanceJob",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicas": 1,
            "jobTemplate": {
                "spec": {"template": {"spec": {"containers": [container]}}, **template}
            },
            "checkpointConfig": {
                "checkpointImageRepo": "registry.example.com/ck",
                "checkpointInterval": "30m",
                "checkpointStorage": {"type": "local"},
            },
            "spotInstanceVMRef": {"name": "here"},
            **(spec or {}),
        },
    }
    SpotInstanceJob.default(made)
    return made


def vm(name: str = "here", **local: Any) -> Obj:
    made = {
        "apiVersion": SpotInstanceVM.resource().api_version,
        "kind": "SpotInstanceVM",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {"local": {"zone": "local-a", **local}},
        "status": {"provisionedInstances": []},
    }
    SpotInstanceVM.default(made)
    return made


class Stage:
    """One job; `look` is one reconcile, the rest is the world around it."""

    def __init__(self, made: Obj, *vms: Obj, settings: SpotSettings | None = None) -> None:
        self.job = made
        self.vms = {each["metadata"]["name"]: each for each in vms or (vm(),)}
        self.jobs: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self.nodes: dict[str, Obj] = {}
        self.backups: list[Obj] = []
        self.memory = Memory()
        self.now = START
        self.settings = settings or SpotSettings()
        self.sightings = Sightings()
        self.reviews: dict[int, float] = {}
        self.news: list[News] = []
        self.last = Actions()

    @property
    def status(self) -> Obj:
        return self.job.get("status") or {}

    @property
    def wishes(self) -> list[Obj]:
        return wished(self.status)

    def entry(self, replica: int = 0) -> Obj:
        return next(e for e in self.status["jobStatuses"] if e["replica"] == replica)

    def placement(self, instance: str) -> Obj:
        return next(p for p in self.status["placements"] if p["instance"] == instance)

    def world(self) -> World:
        return World.of(
            self.job,
            vms=self.vms.values(),
            jobs=self.jobs.values(),
            pods=self.pods.values(),
            nodes=self.nodes,
            backups=self.backups,
        )

    def decide(self) -> Step:
        """A look that is killed before anything of it is written."""
        step = Step(
            self.world(),
            self.memory,
            now=self.now,
            settings=self.settings,
            reviews=self.reviews,
            sightings=self.sightings,
        )
        self.outcome = step.run()
        return step

    def write(self, step: Step) -> None:
        self.job = {**self.job, "status": deepcopy(self.outcome.status)}
        self.reviews = self.outcome.reviews
        self.news += self.outcome.news
        learn(self.memory, self.outcome.news, step.market, now=self.now)

    def look(self, *, killed: bool = False) -> Stage:
        """Reconcile; ``killed``: after the status is written, before anything is done."""
        self.write(self.decide())
        if not killed:
            self.do()
        return self

    def do(self) -> None:
        self.last = actions(self.status, self.world(), now=self.now, settings=self.settings)
        for pod, grace in self.last.pods:
            if grace == 0:
                del self.pods[pod["metadata"]["name"]]
            else:
                pod["metadata"]["deletionTimestamp"] = format_time(self.now + grace)
                pod["metadata"]["deletionGracePeriodSeconds"] = grace
        for entry in self.last.starts:
            made = copy_job(
                self.job,
                entry["replica"],
                entry["attempt"],
                node=entry.get("nodeName") or "",
                storage=CopyStorage({"CORRAL_ATTEMPT": str(entry["attempt"])}),
            )
            assert made["metadata"]["name"] not in self.jobs, "no start is made twice"
            self.jobs[made["metadata"]["name"]] = made
        for each in self.last.jobs:
            name = each["metadata"]["name"]
            self.jobs.pop(name)
            self.pods.pop(f"{name}-x", None)

    # --- the cloud -------------------------------------------------------------------------------

    def instance(self, name: str) -> Obj:
        entries = [e for v in self.vms.values() for e in v["status"]["provisionedInstances"]]
        return next(e for e in entries if e["name"] == name)

    def make(self, *, price: float | None = 0.5) -> list[str]:
        """Every machine that is wished is a node; machines that are not are gone."""
        made = []
        wanted = {p["instance"] for p in self.wishes}
        for placement in self.wishes:
            entries = self.vms[placement["vm"]]["status"]["provisionedInstances"]
            if not any(e["name"] == placement["instance"] for e in entries):
                name = placement["instance"]
                entry = {"name": name, "state": "RUNNING", "joinedCluster": True, "nodeName": name}
                entries.append({**entry, "pricePerHour": price} if price else entry)
                self.nodes[name] = {"metadata": {"name": name}}
                made.append(name)
        for each in self.vms.values():
            for entry in each["status"]["provisionedInstances"]:
                if entry["name"] not in wanted:
                    entry["state"] = "TERMINATED"
                    self.nodes.pop(entry["name"], None)
        return made

    def end(self, name: str, reason: str = "Lost") -> None:
        """A machine is gone, or never came."""
        placement = self.placement(name)
        entries = self.vms[placement["vm"]]["status"]["provisionedInstances"]
        entries[:] = [e for e in entries if e["name"] != name]
        node = self.nodes.pop(name, None)
        entry = {"name": name, "state": "TERMINATED", "reason": reason, "message": "so it is"}
        entries.append({**entry, "nodeName": name} if node else entry)

    def notice(self, name: str, seconds: float) -> None:
        entry = self.instance(name)
        entry["preemptionNotice"] = format_time(self.now)
        entry["preemptionDeadline"] = format_time(self.now + seconds)

    # --- the cluster -----------------------------------------------------------------------------

    def run_pods(self) -> None:
        """Every Job has its pod, and it runs."""
        for name, each in self.jobs.items():
            if (each.get("status") or {}).get("conditions") or f"{name}-x" in self.pods:
                continue
            labels = {**each["metadata"]["labels"], "batch.kubernetes.io/job-name": name}
            self.pods[f"{name}-x"] = {
                "metadata": {"name": f"{name}-x", "namespace": "team", "labels": labels},
                "spec": {"nodeName": self._node(each), "restartPolicy": "Never"},
                "status": {"phase": "Running"},
            }
            each["status"] = {"active": 1}

    def _node(self, made: Obj) -> str:
        affinity = made["spec"]["template"]["spec"].get("affinity") or {}
        required = (affinity.get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        if required is None:
            return "somewhere"
        (field,) = required["nodeSelectorTerms"][0]["matchFields"]
        return str(field["values"][0])

    def pod(self, replica: int = 0) -> Obj:
        return self.pods[f"{self.entry(replica)['name']}-x"]

    def exit(self, code: int = 0, replica: int = 0) -> None:
        """The pod of a copy ends."""
        pod = self.pod(replica)
        ended = {"exitCode": code, "finishedAt": format_time(self.now), "message": "its last words"}
        pod["status"] = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
        }
        kind = "Failed" if code else "Complete"
        condition = {"type": kind, "status": "True", "lastTransitionTime": format_time(self.now)}
        made = self.jobs[self.entry(replica)["name"]]
        made["status"] = {"conditions": [condition]}

    def running(self) -> Stage:
        """Every copy runs."""
        for _ in range(3):
            self.look()
            self.make()
            self.run_pods()
        return self.look()

    def label(self) -> str:
        return f"{JOB_LABEL}={self.job['metadata']['name']}"

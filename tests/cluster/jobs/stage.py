"""A namespace in which a case makes a job, plays the node, and writes down what can be observed.

Nothing runs: a case sets the statuses of pods itself, as a node would. What is written down is
free of uids, times and random parts of names, so that it can be compared between servers.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import ssl
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.backends import Backend

Obj = dict[str, Any]
BATCH = "batch.kubernetes.io/"
TRACKING = f"{BATCH}job-tracking"
NOBODY = "nobody"
"""The scheduler of all pods here: whatever nodes there are, nobody puts a pod on one."""
LIMIT = 40.0
"""Seconds that something may take: back-off and busy machines included."""
AT_REST = 1.3
"""Longer than a controller gathers changes: what is the same for so long stays so."""
_PLURALS = {"jobs": "/apis/batch/v1", "cronjobs": "/apis/batch/v1"}
_MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The server answered with an error."""


class Server:
    """One connection to a backend, kept open."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        host, _, port = backend.server.removeprefix("https://").rpartition(":")
        tls = ssl.create_default_context(cafile=backend.ca_file)
        self._connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=60)

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Obj:
        headers = {"Authorization": f"Bearer {self.backend.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, body=data, headers=headers)
            reply = self._connection.getresponse()
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            self._connection.request(method, path, body=data, headers=headers)
            reply = self._connection.getresponse()
        answer: Obj = json.loads(reply.read())
        if reply.status >= 400:
            raise Refused(f"{reply.status} {answer.get('message')}")
        return answer

    def close(self) -> None:
        self._connection.close()


class Stage:
    """One case: its namespace, its job, and its story so far."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.server = Server(backend)
        self.namespace = f"story-{uuid.uuid4().hex[:8]}"
        self.name = "story"
        self.story: list[Obj] = []

    def open(self) -> None:
        meta = {"metadata": {"name": self.namespace}}
        self.server.send(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **meta}
        )
        self.wait(lambda: self.find("serviceaccounts", "default"))

    def close(self) -> None:
        # Jobs first: one that waits to replace a pod before it frees it would wait for ever in a
        # namespace where nothing can be created, and keep the namespace from going.
        self.server.send("DELETE", self.path("jobs"), {"propagationPolicy": "Background"})
        self.server.send("DELETE", f"/api/v1/namespaces/{self.namespace}")
        self.server.close()

    # --- reading and writing -------------------------------------------------------------------

    def path(self, plural: str, name: str = "", more: str = "") -> str:
        root = _PLURALS.get(plural, "/api/v1")
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "") + more

    def find(self, plural: str, name: str) -> Obj | None:
        try:
            return self.server.send("GET", self.path(plural, name))
        except Refused as refused:
            if str(refused).startswith("404"):
                return None
            raise

    def all(self, plural: str) -> list[Obj]:
        found: list[Obj] = self.server.send("GET", self.path(plural))["items"]
        return found

    def create(self, plural: str, body: Obj) -> Obj:
        return self.server.send("POST", self.path(plural), body)

    def patch(self, plural: str, name: str, patch: Obj, more: str = "") -> Obj:
        return self.server.send("PATCH", self.path(plural, name, more), patch, _MERGE)

    def delete(self, plural: str, name: str, **options: Any) -> None:
        self.server.send("DELETE", self.path(plural, name), options or None)

    # --- the job -------------------------------------------------------------------------------

    def make(self, template: Obj | None = None, *, node: bool = False, **spec: Any) -> Obj:
        """Create the job; ``node`` puts its pods on a node, where deletion takes time."""
        # A node of its own: pods of one that has been missing for long are collected.
        body = job_body(self.name, template, node=self.namespace if node else "", **spec)
        return self.create("jobs", body)

    def change(self, **spec: Any) -> None:
        self.patch("jobs", self.name, {"spec": spec})

    @property
    def job(self) -> Obj | None:
        return self.find("jobs", self.name)

    # --- the node ------------------------------------------------------------------------------

    def pods(self, *phases: str, index: int | None = None) -> list[Obj]:
        """Pods that are not being deleted, in the order of index and name."""
        found = [
            pod
            for pod in self.all("pods")
            if "deletionTimestamp" not in pod["metadata"]
            and (not phases or phase_of(pod) in phases)
            and (index is None or index_of(pod) == str(index))
        ]
        return sorted(found, key=lambda pod: (index_of(pod), pod["metadata"]["name"]))

    def active(self, index: int | None = None) -> list[Obj]:
        return self.pods("Pending", "Running", index=index)

    def run(self, pod: Obj, *, ready: bool = True, restarts: int = 0) -> None:
        """The pod's container runs."""
        state = {"running": {"startedAt": stamp(60)}}
        self._status(pod, "Running", state, ready=ready, restarts=restarts)

    def succeed(self, *pods: Obj) -> None:
        for pod in pods:
            self._status(pod, "Succeeded", {"terminated": ended(0)})

    def fail(self, *pods: Obj, code: int = 1, **options: Any) -> None:
        """Ended an hour ago, so that no back-off is left; ``condition`` adds one."""
        for pod in pods:
            self._status(pod, "Failed", {"terminated": ended(code)}, **options)

    def _status(
        self,
        pod: Obj,
        phase: str,
        state: Obj,
        *,
        ready: bool = False,
        restarts: int = 0,
        condition: Obj | None = None,
        init: bool = False,
    ) -> None:
        stamped = {"lastTransitionTime": stamp(0)}
        conditions = [{"type": "Ready", "status": str(ready), **stamped}]
        conditions += [{**condition, **stamped}] if condition else []
        container = {"ready": ready, "restartCount": restarts, "image": "x", "imageID": ""}
        name = "initContainers" if init else "containers"
        status: Obj = {
            "phase": phase,
            "conditions": conditions,
            ("initContainerStatuses" if init else "containerStatuses"): [
                {**container, "name": pod["spec"][name][0]["name"], "state": state}
            ],
        }
        self.patch("pods", pod["metadata"]["name"], {"status": status}, "/status")

    def remove(self, *pods: Obj) -> None:
        """Ask for the deletion of pods, as a user would."""
        for pod in pods:
            self.delete("pods", pod["metadata"]["name"])

    def stop(self) -> None:
        """What a node does about pods that are to go: end them and let them go."""
        for pod in self.all("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self.delete("pods", pod["metadata"]["name"], gracePeriodSeconds=0)

    # --- waiting -------------------------------------------------------------------------------

    def wait(self, check: Callable[[], Any], what: str = "", limit: float = LIMIT) -> Any:
        end = time.monotonic() + limit
        while True:
            answer = check()
            if answer:
                return answer
            if time.monotonic() > end:
                shown = json.dumps([told_job(self.job), [told_pod(p) for p in self.all("pods")]])
                raise AssertionError(f"did not happen in time: {what}: {shown}")
            time.sleep(0.05)

    def until(self, *conditions: str, pods: int | None = None, **counts: int | str) -> None:
        """Wait for counts of the status (0 = absent too), conditions, and the number of pods."""

        def holds() -> bool:
            job = self.job
            if job is None:
                return False
            status = job.get("status") or {}
            true = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
            return (
                all(status.get(name, type(want)()) == want for name, want in counts.items())
                and true.issuperset(conditions)
                and not any(status.get("uncountedTerminatedPods", {}).values())
                and (pods is None or len(self.all("pods")) == pods)
            )

        self.wait(holds, f"{conditions} {counts} {pods}")

    def quiet(self, seconds: float = 1.2) -> None:
        """Let time pass in which nothing should happen."""
        time.sleep(seconds)

    def gone(self) -> None:
        self.wait(lambda: self.job is None, "the job goes")

    # --- the story -----------------------------------------------------------------------------

    def mark(self, label: str, *, full: bool = False) -> None:
        """Write down the job and its pods once they are at rest; ``full``: whole pods."""
        tell = whole_pod if full else told_pod

        def told() -> Any:
            pods = sorted((tell(pod) for pod in self.all("pods")), key=str)
            return {"job": told_job(self.job), "pods": pods}

        self.mark_other(label, told)

    def mark_other(self, label: str, tell: Callable[[], Any]) -> None:
        """Write down what a function tells, once that is at rest."""
        told = tell()
        for _ in range(20):
            time.sleep(AT_REST)
            before, told = told, tell()
            if told == before:
                break
        else:
            raise AssertionError(f"never at rest: {told}")
        self.story.append({"at": label, **told})

    def events(self) -> dict[str, list[str]]:
        """What was said about jobs and cron jobs, in order."""
        return {kind: self._events_about(kind) for kind in ("Job", "CronJob")}

    def _events_about(self, kind: str) -> list[str]:
        """The same again and again is told once; what is done side by side is sorted."""
        about = [e for e in self.all("events") if e["involvedObject"]["kind"] == kind]
        about.sort(key=lambda event: event["metadata"]["name"].rpartition(".")[2])
        said: list[str] = []
        for event in about:
            line = f"{event['type']} {event['reason']}: {plain(event['message'])}"
            count = event.get("count") or 1
            repeated = event["reason"] in _COUNTLESS
            told = line if count == 1 or repeated else f"{line} (x{count})"
            if not (repeated and told in said):
                said.append(told)
        runs = itertools.groupby(said, key=lambda told: told.split(":")[0])
        return grouped([line for _, run in runs for line in sorted(run)])


_COUNTLESS = frozenset({"FailedCreate", "UnexpectedJob"})
"""Repeated as long as the cause lasts; how often depends on when one looks."""


def job_body(name: str, template: Obj | None = None, *, node: str = "", **spec: Any) -> Obj:
    given = template or {}
    pod_spec = {
        **pod_spec_of_one(),
        **({"nodeName": node} if node else {}),
        **given.get("spec", {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": {**given, "spec": pod_spec}},
    }


def pod_spec_of_one() -> Obj:
    containers = [{"name": "main", "image": "x"}]
    return {"restartPolicy": "Never", "schedulerName": NOBODY, "containers": containers}


def stamp(seconds_ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(code: int) -> Obj:
    return {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": stamp(3700),
        "finishedAt": stamp(3600),
    }


def index_of(pod: Obj) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(f"{BATCH}job-completion-index", ""))


def phase_of(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def plain(text: str) -> str:
    """Without the random endings of names and namespaces."""
    text = re.sub(r"story-[0-9a-f]{8}", "NAMESPACE", text)
    text = re.sub(r"\b((?:[a-z0-9]+-)+)[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1*", text)
    return re.sub(r"(-\d{8})\b", "-MINUTES", text)


def grouped(lines: list[str]) -> list[str]:
    """Equal neighbours as one, with their number."""
    found: list[tuple[str, int]] = []
    for line in lines:
        if found and found[-1][0] == line:
            found[-1] = (line, found[-1][1] + 1)
        else:
            found.append((line, 1))
    return [line if count == 1 else f"{count} times {line}" for line, count in found]


def told_job(job: Obj | None) -> Any:
    if job is None:
        return None
    status = dict(job.get("status") or {})
    told: Obj = {
        name: status[name]
        for name in ("active", "ready", "terminating", "succeeded", "failed")
        if status.get(name) is not None
    }
    for name in ("completedIndexes", "failedIndexes"):
        if name in status:
            told[name] = status[name]
    told["times"] = [name for name in ("startTime", "completionTime") if status.get(name)]
    told["uncounted"] = {k: len(v) for k, v in status.get("uncountedTerminatedPods", {}).items()}
    told["conditions"] = [
        f"{c['type']}={c['status']} {c['reason']}: {plain(c['message'])}"
        for c in status.get("conditions", ())
    ]
    if "deletionTimestamp" in job["metadata"]:
        told["deleting"] = job["metadata"].get("finalizers", [])
    return told


def told_pod(pod: Obj) -> str:
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    words = [plain(meta["name"]), phase_of(pod)]
    if "deletionTimestamp" in meta:
        words.append("deleting")
    words.append(",".join(meta.get("finalizers", ())) or "free")
    words += [f"of {o['kind']} {plain(o['name'])}" for o in meta.get("ownerReferences", ())]
    words += sorted(f"{k.removeprefix(BATCH)}={v}" for k, v in annotations.items())
    return " ".join(words)


def whole_pod(pod: Obj) -> Obj:
    """Everything that the job gives to a pod."""
    meta, spec = pod["metadata"], pod["spec"]
    containers = spec.get("initContainers", []) + spec["containers"]
    owners = meta.get("ownerReferences", ())
    return {
        "name": plain(meta["name"]),
        "generateName": meta.get("generateName"),
        "labels": {k: "UID" if "uid" in k else v for k, v in meta.get("labels", {}).items()},
        "annotations": meta.get("annotations", {}),
        "finalizers": meta.get("finalizers", []),
        "owners": [{k: v for k, v in owner.items() if k != "uid"} for owner in owners],
        "hostname": spec.get("hostname"),
        "subdomain": spec.get("subdomain"),
        "env": {c["name"]: c.get("env", []) for c in containers},
        "restartPolicy": spec["restartPolicy"],
        "phase": phase_of(pod),
    }

"""What becomes of a workload, step by step, beside what kube-controller-manager made of it.

A story is a list of pictures, one for every step of a case: status, replica sets, pods, revisions
and events, without times and random names. The recorded ones are in ``stories``; with
``CORRAL_RECORD_STORIES=1`` on the real backend they are written anew.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster.apps.builders import Apps, names
from tests.cluster.objects import Obj, eventually

FOLDER = Path(__file__).parent / "stories"
_TIMES = ("lastUpdateTime", "lastTransitionTime")
_SETTLING_SECONDS = 2.0


class Story:
    """The pictures of one workload."""

    def __init__(self, apps: Apps, plural: str, name: str) -> None:
        self._apps = apps
        self._plural, self._name = plural, name
        self._hashes: dict[str, str] = {}
        self._pictures: list[Obj] = []
        self._file: Path | None = None
        self._expected: list[Obj] = []

    def open(self, title: str) -> Story:
        self._file = FOLDER / f"{title}.json"
        if not os.environ.get("CORRAL_RECORD_STORIES"):
            self._expected = json.loads(self._file.read_text())
        return self

    def step(self, title: str) -> None:
        """What was done before has come to this."""
        if self._expected:
            self._compare(title, self._expected[len(self._pictures)])
            return
        assert self._apps.objects.backend.name == "real", "stories are recorded there"
        time.sleep(_SETTLING_SECONDS)  # recording: nothing says that all is quiet
        self._pictures.append({"step": title, **self._picture()})

    def close(self) -> None:
        assert self._file is not None
        if not self._expected:
            FOLDER.mkdir(exist_ok=True)
            self._file.write_text(json.dumps(self._pictures, indent=1, sort_keys=True) + "\n")
        assert not self._expected or len(self._pictures) == len(self._expected)

    def _compare(self, title: str, expected: Obj) -> None:
        found: Obj = {}

        def same() -> bool:
            found.clear()
            found.update({"step": title, **self._picture()})
            return found == expected

        try:
            eventually(same, seconds=20)
        except AssertionError:
            texts = [json.dumps(one, indent=1, sort_keys=True).splitlines()
                     for one in (expected, found)]  # fmt: skip
            raise AssertionError("\n".join(difflib.unified_diff(*texts, lineterm=""))) from None
        self._pictures.append(found)

    # --- pictures --------------------------------------------------------------------------------

    def _picture(self) -> Obj:
        self._learn()
        apps = self._apps
        subject = apps.get(self._plural, self._name)
        kind = subject["kind"]
        picture: Obj = {
            "status": _timeless(subject.get("status") or {}),
            "annotations": subject["metadata"].get("annotations") or {},
            "events": self._events(kind, self._name),
            "pods": dict(sorted(Counter(map(self._pod, apps.pods())).items())),
        }
        if kind == "Deployment":
            picture["sets"] = [self._set(one) for one in apps.sets()]
        else:
            picture["revisions"] = sorted(
                one["revision"] for one in apps.items("controllerrevisions")
            )
        plain: Obj = json.loads(self._anonymous(json.dumps(picture)))
        return plain

    def _learn(self) -> None:
        """Gives every hash a number by its first appearance."""
        revisions = sorted(
            self._apps.items("controllerrevisions"),
            key=lambda one: one["metadata"]["creationTimestamp"],
        )
        for one in [*self._apps.sets(), *revisions]:
            short = one["metadata"]["name"].rpartition("-")[2]
            self._hashes.setdefault(short, f"<{len(self._hashes) + 1}>")

    def _anonymous(self, text: str) -> str:
        for short, number in self._hashes.items():
            text = re.sub(rf"-{short}-[0-9a-z]{{5}}\b", f"-{number}-*", text)
            text = text.replace(f"-{short}", f"-{number}")
        return re.sub(r"(Created|Deleted) pod: (\S+)-[0-9a-z]{5}\b", r"\1 pod: \2-*", text)

    def _events(self, kind: str, name: str) -> list[Any]:
        return [list(event) for event in self._apps.events(kind, name)]

    def _set(self, one: Obj) -> Obj:
        annotations = one["metadata"]["annotations"]
        return {
            "name": one["metadata"]["name"],
            "replicas": one["spec"]["replicas"],
            "annotations": annotations,
            "status": _timeless(one.get("status") or {}),
            "events": sorted(self._events("ReplicaSet", one["metadata"]["name"])),
        }

    def _pod(self, pod: Obj) -> str:
        image = pod["spec"]["containers"][0]["image"].rpartition(":")[2]
        ready = "ready" if condition_is(pod, "Ready") else "not ready"
        going = " going" if pod["metadata"].get("deletionTimestamp") else ""
        name = names([pod])[0] if self._plural == "statefulsets" else "pod"
        return f"{name} {image} {pod['status']['phase']} {ready}{going}"


def condition_is(obj: Obj, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _timeless(status: Obj) -> Obj:
    conditions = [
        {key: value for key, value in one.items() if key not in _TIMES}
        for one in status.get("conditions") or ()
    ]
    rest = {key: value for key, value in status.items() if key != "conditions"}
    return {**rest, **({"conditions": conditions} if conditions else {})}

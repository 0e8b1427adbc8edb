"""Operators that are killed while tasks run: each task is run once, and counted once."""

from __future__ import annotations

import random

from tests.backends import Node
from tests.cluster.federated_tasks.tasking import Operator, Tasks
from tests.cluster.objects import Objects, eventually

COUNT = 6


def test_an_operator_that_is_killed_again_and_again(
    objects: Objects, kubeconfig: str, nodes: dict[str, Node], unique: str
) -> None:
    tasks, rng = Tasks(objects), random.Random(4)
    labels = {"proplet-type": f"edge-{unique}"}
    for node in nodes:
        tasks.proplet(f"{unique}-{node}", node, labels)
    tasks.group("few", labels, algorithm="round-robin", maxTasksPerProplet=1)
    names = [f"task-{number}" for number in range(COUNT)]
    for name in names:
        tasks.process(name, "echo '{\"ok\": 1}'", propletGroupRef={"name": "few"})
    lives = 0

    def done() -> bool:
        return all(tasks.status(name).get("phase") == "Completed" for name in names)

    while not done() and lives < 40:
        operator = Operator(kubeconfig).start()
        lives += 1
        try:
            bound = rng.uniform(0.05, 1.0) if lives < 8 else 30.0
            eventually(done, seconds=bound)
        except AssertionError:
            continue
        finally:
            operator.kill()
    assert done() and lives > 1
    for name in names:
        assert tasks.status(name)["results"] == {"ok": 1}
        (pod,) = tasks.pods(name)
        assert pod["spec"]["nodeName"] == tasks.status(name)["nodeName"]

"""Announcements become Datasources through kills and restarts of the operator and the broker."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from corral.families.kafkaml import listening
from corral.families.kafkaml.announcements import ANNOUNCED_LABEL
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.messages import DataControl
from corral.runtime import Manager
from tests.backends import Backend
from tests.cluster.broker.broker_servers import Server
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

pytestmark = pytest.mark.timeout(180)

API = "kafkaml.corral.dev/v1alpha1"
RAW = {"data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10"}
KEPT = 12


class Announcing:
    """A deployment that looks for data, and whoever announces some."""

    def __init__(self, objects: Objects, kafka: Server, unique: str) -> None:
        self.objects = objects
        self.access = Access(kafka.address)
        self.topic, self.data = f"control-{unique}", f"data-{unique}"
        ensure(self.access, [Topic(self.topic, 1_000_000, 3), Topic(self.data)])
        with Sender(self.access) as sender:
            for _ in range(50):
                sender.send(self.data, b"x")
        self.deployment("look")

    def deployment(self, name: str) -> None:
        spec = {"model": "m", "topics": {"dataControl": self.topic}}
        self.objects.create(
            "federateddeployments",
            {
                "apiVersion": API, "kind": "FederatedDeployment", "metadata": {"name": name},
                "spec": spec,
            },
        )  # fmt: skip

    def say(self, *numbers: int) -> None:
        with Sender(self.access) as sender:
            for number in numbers:
                where = f"{self.data}:0:{number}:{number + 1}"
                message = DataControl(where, "RAW", RAW, 1)
                sender.send(self.topic, message.encode(), key=b"\0", partition=number % 3)

    def there(self) -> dict[int, str]:
        """What became of announcements: names by numbers."""
        names = self.objects.names(API, "datasources", f"?labelSelector={quote(ANNOUNCED_LABEL)}")
        found = {n: self.objects.find(API, "datasources", n) for n in names}
        return {
            int(obj["spec"]["topic"].split(":")[2]): name
            for name, obj in found.items()
            if obj is not None
        }

    def heard(self) -> int:
        """Announcements that were read for good."""
        kept = self.objects.find("v1", "configmaps", listening.POSITIONS) or {"data": {}}
        places = [json.loads(text)["next"] for text in kept["data"].values()]
        return sum(number for place in places for number in place.values())

    def until(self, *numbers: int) -> None:
        eventually(lambda: set(self.there()) == set(numbers), seconds=60)


@pytest.fixture
def announcing(objects: Objects, kafka: Server, unique: str) -> Announcing:
    return Announcing(objects, kafka, unique)


@pytest.fixture
def listener(backend: Backend, kafka: Server) -> Iterator[OperatorThread]:
    settings = KafkaMLSettings(kafka=kafka.address, listen=0.1, listen_again=0.3, announced=KEPT)

    def add(manager: Manager) -> None:
        listening.register(manager, settings)

    thread = OperatorThread(str(backend.kubeconfig), add).start()
    yield thread
    thread.kill()


def test_none_is_lost_and_none_of_old_comes_back(
    announcing: Announcing, listener: OperatorThread, kafka: Server
) -> None:
    announcing.say(0, 1, 2, 0)
    announcing.until(0, 1, 2)
    listener.kill()
    announcing.say(3, 4)
    announcing.objects.delete(API, "datasources", announcing.there()[1])
    listener.start()
    announcing.until(0, 2, 3, 4)

    kafka.kill()
    kafka.start()
    announcing.say(5)
    announcing.until(0, 2, 3, 4, 5)

    # of several that look for data, in one namespace, each announcement is one object
    announcing.deployment("another")
    announcing.say(6)
    announcing.until(0, 2, 3, 4, 5, 6)
    # nobody looks for data any more
    for name in ("look", "another"):
        patch = {"status": {"phase": "Completed"}}
        announcing.objects.patch(API, "federateddeployments", name, patch, subresource="status")
    announcing.deployment("later")
    announcing.say(7)
    announcing.until(0, 2, 3, 4, 5, 6, 7)


def test_a_listener_that_is_killed_anywhere_makes_each_once(
    announcing: Announcing, listener: OperatorThread
) -> None:
    chance = random.Random(7)
    for number in range(0, KEPT - 2, 2):
        announcing.say(number, number + 1)
        if chance.random() < 0.7:
            listener.kill()
            listener.start()
    announcing.until(*range(KEPT - 2))


def test_only_so_many_are_kept(announcing: Announcing, listener: OperatorThread) -> None:
    announcing.say(*range(KEPT + 5))
    eventually(lambda: announcing.heard() == KEPT + 5, seconds=60)
    assert len(announcing.there()) == KEPT

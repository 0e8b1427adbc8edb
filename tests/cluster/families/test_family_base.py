"""What the base does for every family: refusals, finalizers, objects that are gone or too old."""

from __future__ import annotations

from typing import Any

import pytest

from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS, RESOURCEQUOTAS
from corral.runtime import Manager, key_of
from corral.runtime.family.decision import Decision
from corral.runtime.family.events import normal
from corral.runtime.finalizers import has_finalizer
from tests.cluster.families.conftest import Rooms
from tests.cluster.families.family_stage import Client, Process, Scene, Story, now
from tests.cluster.families.family_stories import STORIES
from tests.cluster.families.greetings.family import Greetings, Observation
from tests.cluster.families.greetings.kind import GREETINGS, Greeting, GreetingStatus
from tests.cluster.families.greetings.settings import GreetingSettings

GREETING = next(story for story in STORIES if story.name == "greetings")
HELD = "test.example/cards"


def start(served: str, story: Story = GREETING) -> Process:
    client = Client.from_kubeconfig(served)
    client.writes = []
    return Process(client, story)


async def greet(scene: Scene, cards: int = 2) -> None:
    await scene.create(GREETINGS, "hello", {"text": "hello", "cards": cards})


async def reason(scene: Scene) -> str:
    conditions = (await scene.own())["status"]["conditions"]
    return str(conditions[0]["reason"])


async def test_a_name_that_is_somebody_else_s(rooms: Rooms, served: str) -> None:
    scene = Scene(GREETING, rooms.client, await rooms.new())
    theirs = {"metadata": {"name": "hello-1", "namespace": scene.namespace}, "data": {"a": "b"}}
    await rooms.client.create(CONFIGMAPS, theirs)
    await greet(scene)
    process = start(served)
    async with process.client:
        await process.settle(scene.namespace, "hello")
        assert await reason(scene) == "NameTaken"
        found = await rooms.client.get(CONFIGMAPS, "hello-1", namespace=scene.namespace)
        assert found["data"] == {"a": "b"}
        # it is not tried again at once, whoever wakes us
        assert (await process.look(scene.namespace, "hello") or 0.0) > 0.0
        await rooms.client.delete(CONFIGMAPS, "hello-1", namespace=scene.namespace)
        # a changed spec is a new question
        patch = {"spec": {"text": "hi"}}
        await rooms.client.patch(GREETINGS, "hello", namespace=scene.namespace, patch=patch)
        await process.settle(scene.namespace, "hello")
    assert await reason(scene) == "Written"
    assert process.events == [("Normal", "Written")]


async def test_a_quota(rooms: Rooms, served: str) -> None:
    scene = Scene(GREETING, rooms.client, await rooms.new())
    hard = {"hard": {"count/configmaps": "1"}}
    await scene.create(
        RESOURCEQUOTAS, "few", hard, status={**hard, "used": {"count/configmaps": "1"}}
    )
    await greet(scene)
    process = start(served)
    async with process.client:
        await process.settle(scene.namespace, "hello")
    assert await reason(scene) == "QuotaExceeded"
    assert not process.events


class Held(Greetings):
    """Greetings whose cards are looked for before they go."""

    finalizer = HELD

    def __init__(self) -> None:
        super().__init__(GreetingSettings(), wall=now)
        self.ready = False

    async def finalize(self, observed: Observation) -> Decision[GreetingStatus]:
        if not self.ready:
            return Decision(requeue_after=1.0)
        return Decision(finalized=True, events=(normal("Released", "nothing is left"),))


async def test_a_finalizer_is_there_before_the_first_child(rooms: Rooms, served: str) -> None:
    family = Held()
    scene = Scene(GREETING, rooms.client, await rooms.new())
    await greet(scene)
    process = start(served, Story("held", Greeting, lambda manager: family, "hello", ()))
    async with process.client:
        writes = await process.settle(scene.namespace, "hello")
        assert writes[0] == ("patch", "Greeting", "hello")
        assert has_finalizer(await scene.own(), HELD)
        await rooms.client.delete(GREETINGS, "hello", namespace=scene.namespace)
        assert await process.look(scene.namespace, "hello") == 1.0
        assert has_finalizer(await scene.own(), HELD)
        family.ready = True
        assert await process.look(scene.namespace, "hello") is None
        with pytest.raises(NotFound):
            await scene.own()
        assert ("Normal", "Released") in process.events
        assert await process.look(scene.namespace, "hello") is None


async def test_an_object_that_is_older_than_its_schema(rooms: Rooms, served: str) -> None:
    space = await rooms.new()
    process = start(served)
    async with process.client:
        metadata: dict[str, Any] = {"name": "hello", "namespace": space, "uid": "u"}
        old = {"metadata": {**metadata, "resourceVersion": "1"}, "spec": {"cards": "many"}}
        process.reconciler.caches.objects.replaced([old], "1")
        assert await process.reconciler.reconcile(key_of(old)) is None
        assert process.client.writes == []


def test_informers_follow_from_the_declaration(served: str) -> None:
    manager = Manager(Client.from_kubeconfig(served))
    process_caches = Process(manager.client, GREETING).reconciler.caches  # type: ignore[arg-type]
    scopes = {str(each.scope.resource.kind) for each in process_caches._informers.values()}
    assert scopes == {"Greeting", "ConfigMap"}
    assert process_caches.informer(CONFIGMAPS).scope.label_selector

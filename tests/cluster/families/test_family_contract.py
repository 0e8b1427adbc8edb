"""What holds for every family, whatever it is about."""

from __future__ import annotations

import pytest

from corral.api import all_kinds
from corral.kube import KubeClient
from corral.kube.errors import Conflict
from tests.cluster.families.conftest import Rooms
from tests.cluster.families.family_stage import Client, Crash, Process, Scene, Story
from tests.cluster.families.family_stories import STORIES

MOST_WRITES = 40
every_family = pytest.mark.parametrize("story", STORIES, ids=str)


def start(story: Story, kubeconfig: str, *, budget: int | None = None) -> Process:
    client = Client.from_kubeconfig(kubeconfig)
    client.writes, client.budget = [], budget
    return Process(client, story)


async def play(scene: Scene, process: Process, *, until: int | None = None) -> None:
    """Play a story, coming to rest after every step."""
    for step in scene.story.steps[:until]:
        await step(scene)
        await process.settle(scene.namespace, scene.story.obj)


@every_family
async def test_what_is_as_it_should_be_is_left_alone(
    rooms: Rooms, served: str, story: Story
) -> None:
    scene = Scene(story, rooms.client, await rooms.new())
    process = start(story, served)
    async with process.client:
        for step in story.steps:
            await step(scene)
            await process.settle(scene.namespace, story.obj)
            obj = await scene.own()
            seen = await process.family.observe(obj, process.reconciler.caches)
            assert process.family.decide(seen) == process.family.decide(seen)
            events = list(process.events)
            assert await process.settle(scene.namespace, story.obj) == []
            assert process.events == events
        # nor does another process find anything to do, beside applying what it has not applied yet
        other = start(story, served)
        async with other.client:
            writes = await other.settle(scene.namespace, story.obj)
        assert {verb for verb, _, _ in writes} <= {"apply"} and other.events == []


@every_family
async def test_a_process_may_die_after_any_write(rooms: Rooms, served: str, story: Story) -> None:
    scene = Scene(story, rooms.client, await rooms.new())
    whole = start(story, served)
    async with whole.client:
        await play(scene, whole)
    expected = await scene.outcome()
    for budget in range(1, len(whole.client.writes) + 1):
        scene = Scene(story, rooms.client, await rooms.new())
        await _play_with_a_death(scene, served, budget)
        assert await scene.outcome() == expected, f"after {budget} writes"
    assert len(whole.client.writes) <= MOST_WRITES


async def _play_with_a_death(scene: Scene, kubeconfig: str, budget: int) -> None:
    process = start(scene.story, kubeconfig, budget=budget)
    for step in scene.story.steps:
        await step(scene)
        try:
            await process.settle(scene.namespace, scene.story.obj)
        except Crash:
            await process.client.close()
            process = start(scene.story, kubeconfig)
            await process.settle(scene.namespace, scene.story.obj)
    await process.client.close()


@every_family
async def test_no_event_and_no_child_without_the_status(
    rooms: Rooms, served: str, story: Story
) -> None:
    """Somebody else has changed the object: nothing is done by what was read before."""
    scene = Scene(story, rooms.client, await rooms.new())
    process = start(story, served)
    async with process.client:
        for number, step in enumerate(story.steps):
            await step(scene)
            await process.sync(scene.namespace)
            if not await _has(rooms.client, scene):
                continue
            patch = {"metadata": {"annotations": {"test": str(number)}}}
            await rooms.client.patch(
                scene.resource, story.obj, namespace=scene.namespace, patch=patch
            )
            writes, events = len(process.client.writes), list(process.events)
            try:
                await process.look(scene.namespace, story.obj, fresh=False)
            except Conflict:
                assert process.events == events
                assert len(process.client.writes) == writes
            else:
                # its status was as it should be already: there is nothing to tell
                assert process.events == events
            await process.settle(scene.namespace, story.obj)


async def _has(client: KubeClient, scene: Scene) -> bool:
    found = await client.list_all(scene.resource, scene.namespace)
    return any(obj["metadata"]["name"] == scene.story.obj for obj in found["items"])


@every_family
async def test_nothing_is_done_for_what_is_being_deleted(
    rooms: Rooms, served: str, story: Story
) -> None:
    scene = Scene(story, rooms.client, await rooms.new())
    process = start(story, served)
    async with process.client:
        await story.steps[0](scene)
        held = {"metadata": {"finalizers": ["test.example/hold"]}}
        await rooms.client.patch(scene.resource, story.obj, namespace=scene.namespace, patch=held)
        await rooms.client.delete(scene.resource, story.obj, namespace=scene.namespace)
        assert await process.settle(scene.namespace, story.obj) == []
    assert process.events == []
    released = {"metadata": {"finalizers": []}}
    await rooms.client.patch(scene.resource, story.obj, namespace=scene.namespace, patch=released)


@every_family
async def test_statuses_are_kept_as_they_were_meant(
    rooms: Rooms, served: str, story: Story
) -> None:
    """The server takes every status, and leaves nothing out: the definition knows all of it."""
    scene = Scene(story, rooms.client, await rooms.new())
    process = start(story, served)
    async with process.client:
        for step in story.steps:
            await step(scene)
            await process.settle(scene.namespace, story.obj)
            obj = await scene.own()
            seen = await process.family.observe(obj, process.reconciler.caches)
            status = process.family.decide(seen).status
            if status is not None:
                assert obj["status"] == status.model_dump(by_alias=True, exclude_none=True)
            assert process.family.kind.validate(obj) == []


def test_every_declared_family_has_a_story() -> None:
    """`STORIES` is complete: every subclass of `Family` with a kind of ours is in it."""
    from corral.runtime.family.declaration import Family

    def declared(of: type) -> set[type]:
        own = {of} if "kind" in vars(of) else set()
        return own.union(*(declared(sub) for sub in of.__subclasses__()))

    told = {story.kind for story in STORIES}
    kinds = {family.kind for family in declared(Family) if family.kind in all_kinds()}  # type: ignore[attr-defined]
    assert kinds <= told

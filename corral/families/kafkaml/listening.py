"""The controller of announcements: what data control topics tell of becomes Datasources.

A namespace with a deployment that looks for data listens to the deployment's data control topic.
Every announcement becomes one Datasource there, whatever it fits: whoever comes later finds it as
if somebody had applied it. How far a topic was read is kept in a ConfigMap, after the objects are
made: none is lost, and none that was deleted comes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import orjson
from pydantic import ValidationError

from corral.api.kafkaml.kinds import DATASOURCES, FEDERATEDDEPLOYMENTS, FederatedDeployment
from corral.egress.policy import EndpointRefused
from corral.families.kafkaml.announcements import (
    ANNOUNCED_LABEL,
    Where,
    datasource_of,
    is_known,
    outdated,
    position_key,
    positions_of,
    wanted_feeds,
)
from corral.families.kafkaml.family import COMPONENT
from corral.families.kafkaml.logins import NoLogin, login_of
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.errors import AlreadyExists, Invalid, NotFound, RequestEntityTooLarge
from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj
from corral.runtime import Change, Manager, Result, is_being_deleted, uid_of

if TYPE_CHECKING:
    from corral.podtools.kafka.client import Access, Record
    from corral.podtools.kafka.feeds import Feed

__all__ = ["POSITIONS", "AnnouncementReconciler", "register"]

logger = logging.getLogger(__name__)

POSITIONS: Final = "kafkaml-announcements"
"""The ConfigMap of a namespace that says how far its topics were read."""
MOST: Final = 200
"""Announcements that are taken at once."""
_THREADS: Final = 2
"""For brokers that do not answer: nobody else waits for them."""
_PATIENCE: Final = 5.0
_ABSENT: Final = 1.0
T = TypeVar("T")


class AnnouncementReconciler:
    """Looks at the topics of one namespace after another."""

    def __init__(self, manager: Manager, settings: KafkaMLSettings) -> None:
        self._settings = settings
        self._client = manager.client
        self._recorder = manager.recorder(COMPONENT)
        self.deployments = manager.informer(FEDERATEDDEPLOYMENTS)
        self._feeds: dict[tuple[str, Where], Feed] = {}
        self._silent: dict[tuple[str, Where], str] = {}
        """Why nothing is heard; said once."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="announcements")
        self._ending = False

    async def reconcile(self, space: str) -> Result | None:
        """One look at the topics of a namespace."""
        if self._ending:
            return None
        wanted = wanted_feeds(self._deployments(space), self._settings)
        for key in [key for key in self._feeds if key[0] == space and key[1] not in wanted]:
            self._drop(key)
        heard = True
        for where, deployments in sorted(wanted.items(), key=lambda item: item[0]):
            heard = await self._listen(space, where, deployments) and heard
        if not wanted:
            return None
        return Result(self._settings.listen if heard else self._settings.listen_again)

    async def close(self) -> None:
        """Wait for the end, and leave the topics then."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ending = True
            for key in list(self._feeds):
                self._drop(key)
            # what has begun is bounded, and is waited for elsewhere than in the loop
            await asyncio.to_thread(self._threads.shutdown)

    def _deployments(self, space: str) -> list[FederatedDeployment]:
        out = []
        for found in self.deployments.store:
            if found["metadata"]["namespace"] == space and not is_being_deleted(found):
                try:
                    out.append(FederatedDeployment.read(FEDERATEDDEPLOYMENTS.stamp(found)))
                except ValidationError:
                    continue  # the schema refuses such a one; it is older than the schema
        return out

    # -- one topic -------------------------------------------------------------------------------

    async def _listen(
        self, space: str, where: Where, deployments: Sequence[FederatedDeployment]
    ) -> bool:
        """Make Datasources of what has come; whether the topic could be read."""
        from corral.podtools.kafka.client import KafkaError

        key = (space, where)
        try:
            feed = self._feeds.get(key) or await self._open(key)
            if self._ending:
                self._feeds.pop(key, None)
                feed.close()
                return False
            records = feed.take(MOST)
            self._silent.pop(key, None)
            if records:
                reached = dict(feed.positions)
                await self._make(space, where, records, deployments)
                await self._keep(space, where, reached)
        except KafkaError as error:
            self._drop(key)
            if self._silent.get(key) != str(error):
                logger.info("%s: no announcements are heard: %s", space, error)
                self._silent[key] = str(error)
                if isinstance(error.__cause__, EndpointRefused):
                    self._refuse(deployments, f"no announcements are heard: {error}")
            return False
        except BaseException:
            # what was taken is read again, from where it was kept
            self._drop(key)
            raise
        return True

    async def _open(self, key: tuple[str, Where]) -> Feed:
        """Raises KafkaError."""
        from corral.podtools.kafka.feeds import Feed

        space, where = key
        access = await self._access(space, where)
        try:
            kept = (await self._client.get(CONFIGMAPS, POSITIONS, namespace=space)).get("data")
        except NotFound:
            kept = None
        feed = await self._apart(
            lambda: Feed(
                access,
                where.topic,
                positions=positions_of(kept, where),
                patience=_PATIENCE,
                absent=_ABSENT,
            )
        )
        self._feeds[key] = feed
        return feed

    async def _access(self, space: str, where: Where) -> Access:
        """Raises KafkaError."""
        from corral.podtools.kafka.client import Access, KafkaError

        try:
            self._settings.check_servers(where.servers)
            return Access(where.servers, **await login_of(self._client, space, where.secret))
        except (NoLogin, EndpointRefused) as error:
            raise KafkaError(str(error)) from error

    async def _apart(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _drop(self, key: tuple[str, Where]) -> None:
        feed = self._feeds.pop(key, None)
        if feed is not None:
            self._threads.submit(feed.close)

    # -- announcements ---------------------------------------------------------------------------

    async def _make(
        self,
        space: str,
        where: Where,
        records: Sequence[Record],
        deployments: Sequence[FederatedDeployment],
    ) -> None:
        from corral.podtools.kafka.messages import MessageError

        there = (await self._client.list_all(DATASOURCES, space))["items"]
        ids = {
            result.federated_string_id: str(deployment.metadata["name"])
            for deployment in deployments
            for result in (deployment.status.results if deployment.status else None) or ()
        }
        access = await self._access(space, where)
        for record in records:
            try:
                made = datasource_of(space, record.value)
                if is_known(made["spec"], there, ids):
                    continue
                await self._apart(partial(_check, access, made["spec"]))
                there.append(await self._create(made))
            except MessageError as error:
                self._refuse(deployments, f"announcement {record.offset} is left out: {error}")
        live = [str(deployment.metadata["name"]) for deployment in deployments]
        for old in outdated(there, live, most=self._settings.announced):
            await self._forget(old)

    async def _create(self, made: Obj) -> Obj:
        """Raises MessageError where nobody can have such an object."""
        from corral.podtools.kafka.messages import MessageError

        try:
            return await self._client.create(
                DATASOURCES, made, field_manager=self._settings.field_manager
            )
        except AlreadyExists:
            return made
        except (Invalid, RequestEntityTooLarge) as error:
            raise MessageError(f"data control: {error}") from error

    def _refuse(self, deployments: Sequence[FederatedDeployment], why: str) -> None:
        logger.warning("%s", why)
        for deployment in deployments:
            obj = {"metadata": deployment.metadata}
            self._recorder.warning(
                FEDERATEDDEPLOYMENTS.stamp(obj), "AnnouncementRefused", why[:1000]
            )

    async def _forget(self, source: Obj) -> None:
        metadata = source["metadata"]
        try:
            await self._client.delete(
                DATASOURCES,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=uid_of(source),
            )
        except NotFound:
            return

    async def _keep(self, space: str, where: Where, reached: dict[int, int]) -> None:
        said = {"servers": where.servers, "topic": where.topic, "next": reached}
        text = orjson.dumps(said, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS).decode()
        patch = {"data": {position_key(where): text}}
        manager = self._settings.field_manager
        try:
            await self._client.patch(
                CONFIGMAPS, POSITIONS, patch=patch, namespace=space, field_manager=manager
            )
        except NotFound:
            metadata = {"name": POSITIONS, "namespace": space, "labels": {ANNOUNCED_LABEL: "true"}}
            made = {"metadata": metadata, **patch}
            await self._client.create(CONFIGMAPS, made, field_manager=manager)


def _check(access: Access, spec: Obj) -> None:
    """That the data is stored. Raises MessageError where it is not, else KafkaError."""
    from corral.podtools.kafka.client import TopicLost, check
    from corral.podtools.kafka.messages import MessageError
    from corral.podtools.kafka.ranges import parse_ranges

    if spec["incremental"]:
        return
    texts = [text for text in (spec["topic"], spec.get("unsupervisedTopic")) if text]
    try:
        wanted = [found for text in texts for found in parse_ranges(text)]
        check(access, wanted, patience=_PATIENCE)
    except TopicLost as error:
        raise MessageError(f"data control: {error}") from error


def register(manager: Manager, settings: KafkaMLSettings) -> None:
    """Add the controller of announcements to a manager."""
    reconciler = AnnouncementReconciler(manager, settings)
    controller = manager.controller(
        "announcement", reconciler.reconcile, workers=2, timeout=settings.timeout
    )
    controller.watch(reconciler.deployments, _spaces)
    manager.add_task("announcements", reconciler.close)


def _spaces(change: Change) -> list[str]:
    return [(change.new or change.old or {})["metadata"]["namespace"]]
